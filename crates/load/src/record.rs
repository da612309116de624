//! Counts and times of the clients of one process, in any scenario. The first process adds up all
//! records.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::costs::Costs;
use crate::latency::{Latencies, Percentiles};
use crate::report::Report;

/// Minimum share of the schedule that a valid measurement has sent.
const MIN_SENT: f64 = 0.99;
/// Group, name and failure text of counts that must be 0.
const FAULTS: [(&str, &str, &str); 9] = [
    ("messages", "lost", "messages lost"),
    ("messages", "doubled", "messages doubled"),
    ("messages", "swapped", "messages swapped"),
    ("acks", "unanswered", "messages that asked got neither ack nor error"),
    ("acks", "untrue", "messages had an ack and never arrived"),
    ("acks", "repeated", "messages were answered more than once"),
    ("acks", "stray", "answers to what was not asked"),
    ("returns", "away", "clients have not come back"),
    ("returns", "new_sessions", "clients came back and got a new session"),
];

/// Counts by group and name, times by name.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Record {
    counts: BTreeMap<String, BTreeMap<String, u64>>,
    times: BTreeMap<String, Latencies>,
    /// Costs of the servers; `None` in a process that does not read them.
    pub(crate) costs: Option<Costs>,
    /// Start times whose durations are measured.
    #[serde(skip)]
    measured_us: Range<u64>,
}

impl Record {
    /// Restricts measured durations to events that begin within `measured_us`.
    pub(crate) fn measure(&mut self, measured_us: Range<u64>) {
        self.measured_us = measured_us;
    }

    pub(crate) fn count(&self, group: &str, name: &str) -> u64 {
        self.counts.get(group).and_then(|group| group.get(name)).copied().unwrap_or(0)
    }

    pub(crate) fn add(&mut self, group: &str, name: &str, count: u64) {
        if let Some(known) = self.counts.get_mut(group).and_then(|group| group.get_mut(name)) {
            *known += count;
        } else {
            self.counts.entry(group.to_owned()).or_default().insert(name.to_owned(), count);
        }
    }

    /// Adds all fields of a structure of counts.
    pub(crate) fn add_all(&mut self, group: &str, counts: &impl Serialize) {
        let fields = serde_json::to_value(counts).ok();
        for (name, count) in fields.iter().filter_map(|fields| fields.as_object()).flatten() {
            self.add(group, name, count.as_u64().unwrap_or(0));
        }
    }

    pub(crate) fn group(&self, group: &str) -> BTreeMap<String, u64> {
        self.counts.get(group).cloned().unwrap_or_default()
    }

    /// Adds the duration of something due at `at_us`, if that time is measured.
    pub(crate) fn time(&mut self, name: &str, at_us: u64, took_us: u64) {
        if !self.measured_us.contains(&at_us) {
            return;
        }
        if let Some(times) = self.times.get_mut(name) {
            times.record_us(took_us);
        } else {
            self.times.entry(name.to_owned()).or_default().record_us(took_us);
        }
    }

    pub(crate) fn set_times(&mut self, name: &str, times: &Latencies) {
        self.times.insert(name.to_owned(), times.clone());
    }

    pub(crate) fn percentiles(&self, name: &str) -> Percentiles {
        self.times.get(name).map(Latencies::percentiles).unwrap_or_default()
    }

    /// Adds the record of another process of the same run.
    pub(crate) fn absorb(&mut self, other: Self) {
        for (group, counts) in &other.counts {
            counts.iter().for_each(|(name, count)| self.add(group, name, *count));
        }
        for (name, times) in &other.times {
            self.times.entry(name.clone()).or_default().absorb(times);
        }
        self.costs = self.costs.take().or(other.costs);
    }

    /// Returns the share of the schedule that was begun and sent.
    pub(crate) fn sent_share(&self) -> f64 {
        let of = |name| self.count("generator", name) as f64;
        let (sent, unsent) = (self.count("messages", "sent") as f64, of("unsent"));
        let taken = if unsent > 0.0 { sent / (sent + unsent) } else { 1.0 };
        of("begun") / of("planned").max(1.0) * taken
    }

    pub(crate) fn describe(&self, report: &mut Report) {
        for (group, counts) in &self.counts {
            report.set(group, counts);
        }
        for group in ["closed", "received"] {
            if !self.counts.contains_key(group) {
                report.set(group, BTreeMap::<String, u64>::new());
            }
        }
        for (name, times) in &self.times {
            report.set(&format!("{name}_us"), times.percentiles());
        }
        let in_time = self.count("generator", "in_time");
        let costs = self.costs.clone();
        report.set("costs", costs.map(|costs| if in_time > 0 { costs.for_messages(in_time) } else { costs }));
    }

    /// Adds all failures. With `may_break`, sockets may break or close with 1001.
    pub(crate) fn judge(&self, report: &mut Report, may_break: bool) {
        for (group, name, what) in FAULTS {
            report.fail_if(self.count(group, name), what);
        }
        for (reason, count) in self.group("closed") {
            if !may_break || !is_break(&reason) {
                report.fail(format!("{count} sockets closed: {reason}"));
            }
        }
        if self.count("generator", "planned") > 0 && self.sent_share() < MIN_SENT {
            let share = self.sent_share() * 100.0;
            report.fail(format!("only {share:.1}% of the schedule was sent: the rate is too high for this machine"));
        }
    }
}

/// Returns `true` if a socket ended without a close code.
pub(crate) fn is_break(reason: &str) -> bool {
    reason.parse::<u16>().is_err()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(lost: u64, closed: &str) -> Record {
        let mut record = Record::default();
        record.measure(0..1_000);
        record.add("messages", "lost", lost);
        record.add("closed", closed, 1);
        record.time("latency", 500, 70);
        record.time("latency", 1_500, 99);
        record
    }

    fn failures(record: &Record, may_break: bool) -> Vec<String> {
        let mut report = Report::new("test");
        record.judge(&mut report, may_break);
        report.failures
    }

    #[test]
    fn records_of_two_processes_add_up() {
        let mut sum = record(1, "1013");
        sum.absorb(record(2, "lost"));

        assert_eq!((sum.count("messages", "lost"), sum.group("closed").len()), (3, 2));
        assert_eq!((sum.percentiles("latency").count, sum.percentiles("latency").max), (2, 70));
    }

    #[test]
    fn faults_and_closed_sockets_are_failures() {
        assert_eq!(failures(&record(2, "1013"), true), ["2 messages lost", "1 sockets closed: 1013"]);
        assert_eq!(failures(&record(0, "lost"), true), Vec::<String>::new());
        assert_eq!(failures(&record(0, "lost"), false), ["1 sockets closed: lost"]);
    }

    #[test]
    fn schedule_that_was_not_sent_is_a_failure() {
        let mut late = Record::default();
        late.add("generator", "planned", 100);
        late.add("generator", "begun", 100);
        late.add("messages", "sent", 90);
        assert_eq!(failures(&late, false), Vec::<String>::new());

        late.add("generator", "unsent", 10);

        assert!(failures(&late, false)[0].starts_with("only 90.0% of the schedule was sent"));
    }
}
