//! Counts and times of the clients of one process, which each scenario fills and reports.

use std::collections::BTreeMap;
use std::ops::Range;

use anyhow::Result;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::exchange::{AckTotals, CallTotals, Returns, Totals};
use crate::latency::Latencies;
use crate::report::Report;
use crate::servers::Costs;

/// Minimum part of the schedule that a valid measurement has sent.
const MIN_SENT: f64 = 0.99;

/// Results of one process. Parts that a scenario does not use have their default.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Record {
    pub(crate) generator: Generator,
    /// Deliveries of the messages; until the end of the run only `sent` and `delivered`.
    pub messages: Totals,
    /// Results of the messages with a requested `ack`.
    pub acks: AckTotals,
    /// Drained and resumed sockets of clients that come back.
    pub returns: Returns,
    pub(crate) calls: CallTotals,
    /// Messages from outside the receiver's pair or topic, and native messages of other runs.
    pub foreign: u64,
    /// Received `error` frames, and `EXPIRE` and `ERROR` of PeerJS. `rooms` counts none here.
    pub errors: u64,
    /// Received errors by code, and other unexpected frames by type. `rooms` also counts requests
    /// that a client's own socket refused.
    pub received: BTreeMap<String, u64>,
    /// Sockets that ended before the end of the run, by close code or reason. `returns` counts
    /// those of returning clients that were closed with 1001.
    pub closed: BTreeMap<String, u64>,
    pub(crate) times: Times,
    /// Costs of the servers. `None` if this process reads none, or an act of a drill ended the load
    /// before its schedule.
    pub(crate) costs: Option<Costs>,
    /// Due times of the events that are timed, in microseconds on the run's clock.
    #[serde(skip)]
    pub(crate) measured_us: Range<u64>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Generator {
    /// Units of the schedule that were due: messages, calls, or changes of rooms.
    pub(crate) planned: u64,
    pub(crate) begun: u64,
    /// Messages of an exchange that the client's own socket refused, once per receiver.
    pub(crate) unsent: u64,
    /// Messages that arrived first within the measured time; 0 if an act ended the load before.
    pub(crate) in_time: u64,
    /// CPU time within the measured time, in microseconds; 0 where `in_time` is not counted.
    pub(crate) cpu_us: u64,
}

/// Durations in microseconds, each from its intended start. All but `connect`, `away` and `ack` are
/// those of events that were due in the measured time.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Times {
    /// From the start of a connection to `welcome`.
    pub(crate) connect: Latencies,
    /// From the end of a socket to the `welcome` of the client's next one.
    pub(crate) away: Latencies,
    /// Until the message was sent.
    pub(crate) lateness: Latencies,
    /// Until the message arrived.
    pub(crate) latency: Latencies,
    /// Until the message was first answered by `ack` or `error`.
    pub(crate) ack: Latencies,
    /// From the start of a call to its answer.
    pub(crate) answer: Latencies,
    /// From the start of a call to its last message, without the time for gathering candidates.
    pub(crate) set_up: Latencies,
    /// Until a visitor's join was answered.
    pub(crate) join: Latencies,
    /// Until a visitor's leave was answered.
    pub(crate) leave: Latencies,
    /// Until a resident of the room received a join or leave; one time per resident.
    pub(crate) event: Latencies,
}

impl Record {
    /// Records the duration of an event due at `at_us`, if that time is measured; else does
    /// nothing.
    pub(crate) fn time(&mut self, of: fn(&mut Times) -> &mut Latencies, at_us: u64, took_us: u64) {
        if self.measured_us.contains(&at_us) {
            of(&mut self.times).record_us(took_us);
        }
    }

    /// Adds up the records of the processes of one run. Only one of them may have costs, since
    /// fractions do not add up. Fails without a record.
    pub(crate) fn sum(records: impl IntoIterator<Item = Self>) -> Result<Self> {
        let mut sum = Value::Null;
        for record in records {
            add(&mut sum, serde_json::to_value(record)?);
        }
        Ok(serde_json::from_value(sum)?)
    }

    /// Returns the part of the due units that were begun and not refused by the client's own
    /// socket, 0 to 1; 0 without a schedule.
    pub fn sent_share(&self) -> f64 {
        let Generator { planned, begun, unsent, .. } = self.generator;
        let taken = if unsent > 0 { self.messages.sent as f64 / (self.messages.sent + unsent) as f64 } else { 1.0 };
        begun as f64 / planned.max(1) as f64 * taken
    }

    /// Adds the counts and times that the scenario uses to a report. CPU times per message then
    /// divide by the messages of all processes.
    pub(crate) fn describe(&self, report: &mut Report) {
        report.set_used("generator", &self.generator);
        report.set_used("messages", &self.messages);
        report.set_used("acks", &self.acks);
        report.set_used("returns", &self.returns);
        report.set_used("foreign", &self.foreign);
        report.set_used("errors", &self.errors);
        report.set("received", &self.received);
        report.set("closed", &self.closed);
        let Times { connect, away, lateness, latency, ack, answer, set_up, join, leave, event } = &self.times;
        report.set_used("connect_us", &connect.percentiles());
        report.set_used("away_us", &away.percentiles());
        report.set_used("lateness_us", &lateness.percentiles());
        report.set_used("latency_us", &latency.percentiles());
        report.set_used("ack_us", &ack.percentiles());
        if self.calls.begun > 0 {
            report.set("calls", self.calls);
            report.set("answer_us", answer.percentiles());
            report.set("set_up_us", set_up.percentiles());
        }
        report.set_used("join_us", &join.percentiles());
        report.set_used("leave_us", &leave.percentiles());
        report.set_used("event_us", &event.percentiles());
        let in_time = self.generator.in_time;
        let costs = self.costs.clone();
        report.set("costs", costs.map(|costs| if in_time > 0 { costs.for_messages(in_time) } else { costs }));
    }

    /// Adds all failures to a report. With `may_break`, sockets that ended without a close code are
    /// none.
    pub(crate) fn judge(&self, report: &mut Report, may_break: bool) {
        report.fail_if(self.messages.lost, "messages lost");
        report.fail_if(self.messages.duplicated, "messages duplicated");
        report.fail_if(self.messages.reordered, "messages reordered");
        report.fail_if(self.acks.unanswered, "messages with a requested ack got neither ack nor error");
        report.fail_if(self.acks.untrue, "messages had an ack and never arrived");
        report.fail_if(self.acks.repeated, "messages were answered more than once");
        report.fail_if(self.acks.stray, "answers to no message of the client");
        report.fail_if(self.returns.away, "clients have not come back");
        report.fail_if(self.returns.returned - self.returns.resumed, "clients came back and got a new session");
        for (reason, count) in &self.closed {
            if !may_break || !is_break(reason) {
                report.fail(format!("{count} sockets closed: {reason}"));
            }
        }
        if self.generator.planned > 0 && self.sent_share() < MIN_SENT {
            let share = self.sent_share() * 100.0;
            report.fail(format!("only {share:.1}% of the schedule was sent: the rate is too high for this machine"));
        }
    }
}

pub(crate) fn count(counts: &mut BTreeMap<String, u64>, name: &str) {
    *counts.entry(name.to_owned()).or_default() += 1;
}

/// Returns `true` if the reason is no close code: the socket ended without a close frame, or its
/// close frame had none.
pub(crate) fn is_break(reason: &str) -> bool {
    reason.parse::<u16>().is_err()
}

/// Adds the numbers of a JSON value to those of another one, and appends its lists.
fn add(sum: &mut Value, more: Value) {
    match (sum, more) {
        (Value::Object(sum), Value::Object(more)) => {
            more.into_iter().for_each(|(name, more)| add(sum.entry(name).or_insert(Value::Null), more));
        }
        (Value::Array(sum), Value::Array(mut more)) => sum.append(&mut more),
        (sum, Value::Number(more)) => *sum = (sum.as_u64().unwrap_or(0) + more.as_u64().unwrap_or(0)).into(),
        (_, Value::Null) => {}
        (sum, more) => *sum = more,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(lost: u64, closed: &str) -> Record {
        let mut record = Record { measured_us: 0..1_000, ..Record::default() };
        record.messages.lost = lost;
        count(&mut record.closed, closed);
        record.time(|times| &mut times.latency, 500, 70);
        record.time(|times| &mut times.latency, 1_500, 99);
        record
    }

    fn failures(record: &Record, may_break: bool) -> Vec<String> {
        let mut report = Report::new("test");
        record.judge(&mut report, may_break);
        report.failures
    }

    #[test]
    fn records_of_two_processes_add_up() {
        let mut first = record(1, "1013");
        first.costs = Some(Costs::default());
        let sum = Record::sum([record(2, "lost"), first]).unwrap();

        assert_eq!((sum.messages.lost, sum.closed.len(), sum.costs.is_some()), (3, 2, true));
        let latency = sum.times.latency.percentiles();
        assert_eq!((latency.count, latency.max), (2, 70));
    }

    #[test]
    fn faults_and_closed_sockets_are_failures() {
        assert_eq!(failures(&record(2, "1013"), true), ["2 messages lost", "1 sockets closed: 1013"]);
        assert_eq!(failures(&record(0, "lost"), true), Vec::<String>::new());
        assert_eq!(failures(&record(0, "lost"), false), ["1 sockets closed: lost"]);
    }
}
