use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;

use super::Options;
use super::run::{Run, Sending};
use crate::costs::Costs;
use crate::fleet::Fleet;
use crate::latency::Percentiles;
use crate::ledger::Totals;

/// What `mesh-load steady` found.
#[derive(Serialize)]
pub(super) struct Report {
    scenario: &'static str,
    clients: u32,
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
    /// From the intended time of sending to arrival.
    latency_us: Percentiles,
    /// Errors by code, other frames by type.
    other_frames: BTreeMap<String, u64>,
    closed: BTreeMap<String, u64>,
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

impl Report {
    pub(super) fn new(options: &Options, fleet: &Fleet, run: &Run, sending: Sending) -> Self {
        let seconds = options.seconds as f64;
        Self {
            scenario: "steady",
            clients: options.fleet.clients,
            rate: options.rate,
            seconds: options.seconds,
            warmup: options.warmup,
            seed: options.seed,
            size: format!("{:?}", options.size),
            connect_seconds: fleet.connect_seconds,
            connect_us: fleet.connect,
            generator: Generator {
                planned: sending.planned,
                sent: sending.sent,
                sent_share: sending.sent as f64 / sending.planned as f64,
                delivered_per_second: sending.messages as f64 / seconds,
                lateness_us: sending.lateness,
                cpu_seconds: sending.own_cpu_seconds,
            },
            messages: run.totals(),
            foreign: run.foreign(),
            latency_us: run.latency(),
            other_frames: run.others(),
            closed: run.closed(),
            costs: sending.costs,
        }
    }

    /// What speaks against the servers, or against the measurement.
    pub(super) fn failures(&self, options: &Options) -> Vec<String> {
        let Totals { lost, doubled, swapped, .. } = self.messages;
        let mut failures = Vec::new();
        for (count, what) in [(lost, "lost"), (doubled, "doubled"), (swapped, "swapped")] {
            if count > 0 {
                failures.push(format!("{count} messages {what}"));
            }
        }
        for (reason, count) in &self.closed {
            failures.push(format!("{count} sockets closed: {reason}"));
        }
        if self.generator.sent_share < options.min_sent {
            let share = self.generator.sent_share * 100.0;
            failures.push(format!("only {share:.1}% of the schedule was sent: the rate is too high for this machine"));
        }
        if let Some(limit) = options.max_p99_ms {
            let p99 = self.latency_us.p99 as f64 / 1_000.0;
            if p99 > limit {
                failures.push(format!("p99 is {p99:.1} ms, above {limit} ms"));
            }
        }
        failures
    }

    pub(super) fn table(&self) -> String {
        let Totals { sent, delivered, lost, doubled, swapped } = self.messages;
        let generator = &self.generator;
        let mut table = format!(
            "clients     {} connected in {:.1} s, each {}\n\
             messages    {sent} sent, {delivered} delivered, {lost} lost, {doubled} doubled, {swapped} swapped\n\
             rate        {:.0}/s delivered of {}/s, {:.2}% of the schedule sent\n\
             latency     {}\n\
             lateness    {} (the generator's own)\n\
             generator   {:.1}% CPU\n",
            self.clients,
            self.connect_seconds,
            self.connect_us.line(),
            generator.delivered_per_second,
            self.rate,
            generator.sent_share * 100.0,
            self.latency_us.line(),
            generator.lateness_us.line(),
            generator.cpu_seconds * 100.0 / self.seconds as f64,
        );
        // Writing to a String cannot fail.
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
