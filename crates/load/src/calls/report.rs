use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;

use super::CallOptions;
use super::part::CallPart;
use super::steps::{Step, table};
use crate::costs::Costs;
use crate::latency::Percentiles;
use crate::ledger::Totals;
use crate::outcome::closed_failures;
use crate::timeline::Row;
use crate::watch::{UsageLine, Usages};

/// What became of the calls.
#[derive(Serialize)]
pub(crate) struct Report {
    scenario: &'static str,
    processes: u32,
    clients: usize,
    rate: u64,
    seconds: u64,
    warmup: u64,
    gather_ms: u64,
    seed: u64,
    connect_us: Percentiles,
    calls: Calls,
    /// From the intended begin of a call until both sides had everything, without the gathering.
    set_up_us: Percentiles,
    /// From the intended begin of a call until the caller had the answer.
    answer_us: Percentiles,
    /// From the intended time to the write; the harness's own.
    lateness_us: Percentiles,
    messages: Totals,
    foreign: u64,
    /// Messages that a client's own socket did not take: it has ended, or takes nothing.
    unsent: u64,
    /// Errors by code, other frames by type.
    other_frames: BTreeMap<String, u64>,
    closed: BTreeMap<String, u64>,
    /// Other rates, where they were tried.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) steps: Vec<Step>,
    /// The rate at which the search ended because it could not be tried, and why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) given_up: Option<String>,
    timeline: Vec<Row>,
    #[serde(skip_serializing_if = "Option::is_none")]
    costs: Option<Costs>,
    usage: Vec<UsageLine>,
}

#[derive(Serialize)]
struct Calls {
    planned: u64,
    begun: u64,
    set_up: u64,
    unfinished: u64,
}

impl Report {
    pub(crate) fn new(options: &CallOptions, processes: u32, part: CallPart, usages: &Usages) -> Self {
        let (begin, end) = (options.warmup as f64, (options.warmup + options.seconds) as f64);
        // Readings are a second apart, and taken just after it.
        let CallPart { common, set_up, unsent, set_up_times, answer_times } = part;
        let readings = usages.before(begin + 0.5).zip(usages.before(end + 0.5));
        Self {
            scenario: "calls",
            processes,
            clients: common.clients,
            rate: options.rate,
            seconds: options.seconds,
            warmup: options.warmup,
            gather_ms: options.gather_ms,
            seed: options.seed,
            connect_us: common.connect.percentiles(),
            calls: Calls { planned: common.planned, begun: common.begun, set_up, unfinished: common.begun - set_up },
            set_up_us: set_up_times.percentiles(),
            answer_us: answer_times.percentiles(),
            lateness_us: common.lateness.percentiles(),
            messages: common.totals,
            foreign: common.foreign,
            other_frames: common.others,
            closed: common.closed,
            unsent,
            steps: Vec::new(),
            given_up: None,
            timeline: common.timeline.rows(),
            costs: readings.map(|(before, after)| Costs::between(before, after, 0)),
            usage: usages.lines(),
        }
    }

    /// How it went at this rate, to compare with others.
    pub(crate) fn step(&self, options: &CallOptions) -> Step {
        let is_fine = self.failures(&CallOptions { max_setup_p99_ms: None, ..options.clone() }).is_empty();
        Step { rate: self.rate, p50_us: self.set_up_us.p50, p99_us: self.set_up_us.p99, is_fine }
    }

    /// What speaks against the servers, or against the measurement.
    pub(crate) fn failures(&self, options: &CallOptions) -> Vec<String> {
        let Totals { lost, doubled, swapped, .. } = self.messages;
        let mut failures = Vec::new();
        if lost > options.max_lost {
            failures.push(format!("{lost} messages lost, {} calls never set up", self.calls.unfinished));
        }
        for (count, what) in
            [(doubled, "doubled"), (swapped, "swapped"), (self.unsent, "not taken by their sender's socket")]
        {
            if count > 0 {
                failures.push(format!("{count} messages {what}"));
            }
        }
        failures.extend(closed_failures(&self.closed));
        failures.extend(self.given_up.clone());
        let begun = self.calls.begun as f64 / self.calls.planned as f64;
        if begun < options.min_sent {
            failures.push(format!(
                "only {:.1}% of the calls were begun: the rate is too high for this machine",
                begun * 100.0
            ));
        }
        let p99 = self.set_up_us.p99 as f64 / 1_000.0;
        if let Some(limit) = options.max_setup_p99_ms.filter(|limit| p99 > *limit) {
            failures.push(format!("the p99 of the set-up time is {p99:.1} ms, above {limit} ms"));
        }
        failures
    }

    pub(crate) fn table(&self) -> String {
        let Calls { planned, begun, set_up, unfinished } = &self.calls;
        let Totals { sent, delivered, lost, doubled, swapped, .. } = self.messages;
        let mut text = format!(
            "clients     {} connected, each {}\n\
             calls       {begun} begun of {planned}, {set_up} set up, {unfinished} not; {} a second\n\
             messages    {sent} sent, {delivered} delivered, {lost} lost, {doubled} doubled, {swapped} swapped, {} not sent\n\
             set-up      {} (without {} ms of gathering)\n\
             answer      {}\n\
             lateness    {} (the generator's own)\n",
            self.clients,
            self.connect_us.line(),
            self.rate,
            self.unsent,
            self.set_up_us.line(),
            self.gather_ms,
            self.answer_us.line(),
            self.lateness_us.line(),
        );
        // Writing to a String cannot fail.
        for (what, count) in &self.other_frames {
            let _ = writeln!(text, "received    {count} times {what}");
        }
        if let Some(costs) = &self.costs {
            let _ = write!(text, "\n{}", costs.table(None));
        }
        if !self.steps.is_empty() {
            text.push_str(&table(&self.steps));
        }
        text
    }
}
