use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;

use super::RoomOptions;
use super::book::Counts;
use super::line::LineFindings;
use super::play::Play;
use super::store::StoreCosts;
use crate::churn::{self, Leftover};
use crate::costs::Costs;
use crate::latency::Percentiles;
use crate::outcome::closed_failures;
use crate::timeline::Row;
use crate::watch::UsageLine;

/// What became of the rooms.
#[derive(Serialize)]
pub(crate) struct Report {
    scenario: &'static str,
    clients: usize,
    rooms: u32,
    largest_room: usize,
    visitors: usize,
    rate: u64,
    seconds: u64,
    warmup: u64,
    seed: u64,
    connect_us: Percentiles,
    changes: Changes,
    /// From the moment at which a visitor was to join until it heard that it had.
    join_us: Percentiles,
    /// From the moment at which a visitor was to leave until it heard that it had.
    leave_us: Percentiles,
    /// From the moment of either until a resident of the room heard of it.
    event_us: Percentiles,
    /// From the intended time to the write; the harness's own.
    lateness_us: Percentiles,
    largest_message_bytes: usize,
    /// Absent without `--line`.
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<LineFindings>,
    /// Errors by code, other frames by type.
    other_frames: BTreeMap<String, u64>,
    closed: BTreeMap<String, u64>,
    /// Absent where no Redis of the mesh is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    store: Option<StoreCosts>,
    /// What each process and the store had when the measuring began, and has in the end.
    leftovers: Vec<Leftover>,
    timeline: Vec<Row>,
    #[serde(skip_serializing_if = "Option::is_none")]
    costs: Option<Costs>,
    usage: Vec<UsageLine>,
}

#[derive(Serialize)]
struct Changes {
    planned: u64,
    #[serde(flatten)]
    counts: Counts,
    unanswered: usize,
    /// What residents were to hear and did not.
    unheard: u64,
}

impl Report {
    pub(crate) fn new(options: &RoomOptions, play: Play, usage: Vec<UsageLine>) -> Self {
        Self {
            scenario: "rooms",
            clients: play.clients,
            rooms: options.rooms,
            largest_room: play.largest_room,
            visitors: play.visitors,
            rate: options.rate,
            seconds: options.seconds,
            warmup: options.warmup,
            seed: options.seed,
            connect_us: play.connect,
            changes: Changes {
                planned: play.planned,
                counts: play.counts,
                unanswered: play.unanswered,
                unheard: play.unheard,
            },
            join_us: play.joins,
            leave_us: play.leaves,
            event_us: play.events,
            lateness_us: play.lateness,
            largest_message_bytes: play.largest_bytes,
            line: play.line,
            other_frames: play.others,
            closed: play.closed,
            store: play.store,
            leftovers: play.leftovers,
            timeline: play.timeline,
            costs: play.costs,
            usage,
        }
    }

    /// What speaks against the servers, or against the measurement.
    pub(crate) fn failures(&self, options: &RoomOptions) -> Vec<String> {
        let Changes { planned, counts, unanswered, unheard } = &self.changes;
        let mut failures = Vec::new();
        let mut complain = |count: u64, what: &str| {
            if count > 0 {
                failures.push(format!("{count} {what}"));
            }
        };
        complain(counts.refused, "changes were refused");
        complain(*unanswered as u64, "changes have no answer");
        complain(counts.put_out, "clients were put out of a room");
        complain(counts.doubled, "times a change was heard again");
        complain(if *unheard > options.max_unheard { *unheard } else { 0 }, "times a change was not heard");
        if let Some(line) = &self.line {
            complain(line.overtook as u64, "clients of the line were let in before one in front of them");
            complain(line.left.saturating_sub(line.admitted) as u64, "free seats were given to nobody");
            complain(line.above_capacity.into(), "room had more members than seats");
        }
        failures.extend(closed_failures(&self.closed));
        let begun = counts.begun as f64 / (*planned).max(1) as f64;
        if begun < options.min_sent {
            let share = begun * 100.0;
            failures.push(format!("only {share:.1}% of the changes were begun in time: the rate is too high"));
        }
        for (limit, percentiles, what) in [
            (options.max_join_p99_ms, self.join_us, "of the time of a join"),
            (options.max_event_p99_ms, self.event_us, "of the time until others hear of a change"),
        ] {
            let p99 = percentiles.p99 as f64 / 1_000.0;
            if let Some(limit) = limit.filter(|limit| p99 > *limit) {
                failures.push(format!("the p99 {what} is {p99:.1} ms, above {limit} ms"));
            }
        }
        if let Some(limit) = options.max_growth {
            failures.extend(churn::complaints(&self.leftovers, limit));
        }
        failures
    }

    pub(crate) fn table(&self) -> String {
        let Changes { planned, counts, unanswered, unheard } = &self.changes;
        let Counts { begun, answered, refused, heard, heard_by_state, doubled, healed, put_out, .. } = counts;
        let mut text = format!(
            "clients     {} connected, each {}\n\
             rooms       {}, the largest of {}; {} visitors come and go, {} changes a second\n\
             changes     {begun} begun of {planned}, {answered} answered with those before the run, {unanswered} not, {refused} refused, \
             {put_out} put out\n\
             events      {heard} heard, {heard_by_state} by one of {healed} whole states, {unheard} not, {doubled} doubled; the largest message has {} bytes\n\
             join        {}\n\
             leave       {}\n\
             event       {}\n\
             lateness    {} (the generator's own)\n",
            self.clients,
            self.connect_us.line(),
            self.rooms,
            self.largest_room,
            self.visitors,
            self.rate,
            self.largest_message_bytes,
            self.join_us.line(),
            self.leave_us.line(),
            self.event_us.line(),
            self.lateness_us.line(),
        );
        if let Some(line) = &self.line {
            text.push_str(&line.table());
        }
        // Writing to a String cannot fail.
        for (what, count) in &self.other_frames {
            let _ = writeln!(text, "received    {count} times {what}");
        }
        if let Some(store) = &self.store {
            text.push_str(&store.table());
        }
        if let Some(costs) = &self.costs {
            let _ = write!(text, "\neach change or seat given on as a message\n{}", costs.table(None));
        }
        text.push_str(&churn::table(&self.leftovers));
        text
    }
}
