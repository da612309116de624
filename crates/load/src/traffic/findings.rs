use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;

use super::acks::AckTotals;
use super::part::TrafficPart;
use super::sender::Sending;
use super::{Books, Returns, TrafficOptions, is_break};
use crate::costs::Costs;
use crate::fleet::Fleet;
use crate::latency::Percentiles;
use crate::ledger::Totals;
use crate::outcome::closed_failures;
use crate::timeline::Row;

/// What became of the traffic, whatever the scenario.
#[derive(Serialize)]
pub(crate) struct Findings {
    clients: usize,
    rate: u64,
    seconds: u64,
    warmup: u64,
    seed: u64,
    size: String,
    connect_seconds: f64,
    connect_us: Percentiles,
    generator: Generator,
    messages: Totals,
    /// Not of this run, or not for who got them.
    foreign: u64,
    /// Messages and other requests answered by an `error`.
    errors: u64,
    acks: AckTotals,
    /// Of clients that come back.
    #[serde(skip_serializing_if = "is_none")]
    returns: Returns,
    /// From the intended time of sending to arrival.
    latency_us: Percentiles,
    /// Errors by code, other frames by type.
    other_frames: BTreeMap<String, u64>,
    closed: BTreeMap<String, u64>,
    /// From the begin of the schedule, warm-up included.
    timeline: Vec<Row>,
    #[serde(skip_serializing_if = "Option::is_none")]
    costs: Option<Costs>,
}

/// How well the harness itself kept up.
#[derive(Serialize)]
struct Generator {
    planned: u64,
    sent: u64,
    sent_share: f64,
    delivered_per_second: f64,
    /// From the intended time to the write.
    lateness_us: Percentiles,
    cpu_seconds: f64,
}

fn is_none(returns: &Returns) -> bool {
    *returns == Returns::default()
}

impl Findings {
    /// Of the traffic of this process alone.
    pub(crate) fn new(options: &TrafficOptions, fleet: &Fleet, books: &Books, sending: Sending) -> Self {
        Self::of(options, TrafficPart::new(fleet, books, sending))
    }

    /// Of all processes together.
    pub(crate) fn of(options: &TrafficOptions, part: TrafficPart) -> Self {
        let seconds = options.seconds as f64;
        let common = part.common;
        Self {
            clients: common.clients,
            rate: options.rate,
            seconds: options.seconds,
            warmup: options.warmup,
            seed: options.seed,
            size: format!("{:?}", options.size),
            connect_seconds: part.connect_seconds,
            connect_us: common.connect.percentiles(),
            generator: Generator {
                planned: common.planned,
                sent: common.begun,
                sent_share: common.begun as f64 / common.planned as f64,
                delivered_per_second: part.messages as f64 / seconds,
                lateness_us: common.lateness.percentiles(),
                cpu_seconds: part.own_cpu_seconds,
            },
            messages: common.totals,
            foreign: common.foreign,
            errors: part.errors,
            acks: part.acks,
            returns: part.returns,
            latency_us: part.latency.percentiles(),
            other_frames: common.others,
            closed: common.closed,
            timeline: common.timeline.rows(),
            costs: part.costs.map(|costs| costs.for_messages(part.messages)),
        }
    }

    pub(crate) fn latency(&self) -> &Percentiles {
        &self.latency_us
    }

    pub(crate) fn messages(&self) -> Totals {
        self.messages
    }

    pub(crate) fn errors(&self) -> u64 {
        self.errors
    }

    /// Delivered while it was measured, as a share of what the rate asks for.
    pub(crate) fn delivered_share(&self) -> f64 {
        self.generator.delivered_per_second / self.rate as f64
    }

    /// The harness's own, of one core.
    pub(crate) fn own_cpu_share(&self) -> f64 {
        self.generator.cpu_seconds / self.seconds as f64
    }

    pub(crate) fn costs(&self) -> Option<&Costs> {
        self.costs.as_ref()
    }

    /// What speaks against the servers, or against the measurement; closed sockets are another question.
    pub(crate) fn failures(&self, options: &TrafficOptions) -> Vec<String> {
        let Totals { lost, doubled, swapped, .. } = self.messages;
        let AckTotals { unanswered, untrue, repeated, stray, .. } = self.acks;
        let counts = [
            (if lost > options.max_lost { lost } else { 0 }, "messages lost"),
            (doubled, "messages doubled"),
            (swapped, "messages swapped"),
            (unanswered, "messages that asked got neither ack nor error"),
            (untrue, "messages had an ack and never arrived"),
            (repeated, "messages were answered more than once"),
            (stray, "answers to what was not asked"),
        ];
        let wrong = counts.iter().filter(|(count, _)| *count > 0);
        let mut failures: Vec<String> = wrong.map(|(count, what)| format!("{count} {what}")).collect();
        if self.generator.sent_share < options.min_sent {
            let share = self.generator.sent_share * 100.0;
            failures.push(format!("only {share:.1}% of the schedule was sent: the rate is too high for this machine"));
        }
        failures
    }

    /// Sockets that ended though we did not end them.
    pub(crate) fn closed_failures(&self) -> impl Iterator<Item = String> + '_ {
        closed_failures(&self.closed)
    }

    /// What speaks against the servers where clients come back: sockets may end with 1001 or break.
    pub(crate) fn return_failures(&self) -> impl Iterator<Item = String> + '_ {
        let Returns { returned, resumed, away, .. } = self.returns;
        let counts =
            [(away, "clients have not come back"), (returned - resumed, "clients came back and got a new session")];
        let wrong = counts.into_iter().filter(|(count, _)| *count > 0);
        let closed = self.closed_failures().zip(self.closed.keys()).filter(|(_, reason)| !is_break(reason));
        wrong.map(|(count, what)| format!("{count} {what}")).chain(closed.map(|(failure, _)| failure))
    }

    pub(crate) fn table(&self) -> String {
        let Totals { sent, delivered, lost, doubled, swapped, .. } = self.messages;
        let generator = &self.generator;
        let mut table = format!(
            "clients     {} connected in {:.1} s, each {}\n\
             messages    {sent} sent, {delivered} delivered, {lost} lost, {doubled} doubled, {swapped} swapped, \
             {} errors, {} sockets closed\n\
             rate        {:.0}/s delivered of {}/s, {:.2}% of the schedule sent\n\
             latency     {}\n\
             lateness    {} (the generator's own)\n\
             generator   {:.1}% CPU\n",
            self.clients,
            self.connect_seconds,
            self.connect_us.line(),
            self.errors,
            self.closed.values().sum::<u64>(),
            generator.delivered_per_second,
            self.rate,
            generator.sent_share * 100.0,
            self.latency_us.line(),
            generator.lateness_us.line(),
            generator.cpu_seconds * 100.0 / self.seconds as f64,
        );
        // Writing to a String cannot fail.
        if self.acks != AckTotals::default() {
            let AckTotals { asked, acked, failed, unanswered, untrue, repeated, stray, p99_us, max_us } = self.acks;
            let ms = |us: Option<u64>| us.map_or_else(|| "-".to_owned(), |us| format!("{:.3}", us as f64 / 1_000.0));
            let _ = writeln!(
                table,
                "acks        {asked} asked, {acked} acked, {failed} failed, {unanswered} unanswered, {untrue} untrue, \
                 {repeated} repeated, {stray} stray; p99 {}  max {} ms",
                ms(p99_us),
                ms(max_us),
            );
        }
        if !is_none(&self.returns) {
            let Returns { sent_away, returned, resumed, sent_again, .. } = self.returns;
            let Totals { gone, copied, .. } = self.messages;
            let _ = writeln!(
                table,
                "back        {returned} sockets ({sent_away} after 1001), {resumed} with their session; messages: \
                 {sent_again} sent again, {copied} arrived again, {gone} gone with a broken socket",
            );
        }
        for (what, count) in &self.other_frames {
            let _ = writeln!(table, "received    {count} times {what}");
        }
        if self.foreign > 0 {
            let _ = writeln!(table, "received    {} messages of others", self.foreign);
        }
        if let Some(costs) = &self.costs {
            let _ = write!(table, "\n{}", costs.table(None));
        }
        table
    }
}
