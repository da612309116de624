use std::fmt::Write as _;
use std::ops::Range;

use serde::Serialize;

use super::DrillOptions;
use super::acts::Done;
use super::course::{Course, between};
use super::moves::{moves, undisturbed};
use super::page::Counts;
use super::seconds::{Second, seconds, table};
use super::tally::Sample;
use crate::latency::p99_us;
use crate::report_page::Mark;
use crate::traffic::{Arrival, Findings, Recording, TrafficOptions};
use crate::watch::UsageLine;

/// Nobody minds a latency up to this, whatever it was before.
pub(super) const FINE_US: u64 = 20_000;
/// How long the unmoved are watched at least.
const WATCH_US: u64 = 1_000_000;

/// All that a run has brought to light.
pub(super) struct Evidence<'a> {
    pub(super) names: &'a [String],
    pub(super) partner_of: &'a [usize],
    /// Before the first act.
    pub(super) nodes: Vec<String>,
    pub(super) recording: Recording,
    pub(super) samples: Vec<Sample>,
    pub(super) acts: Vec<Done>,
    pub(super) measured_from_us: u64,
    /// The begin of the schedule.
    pub(super) start_us: u64,
    /// When the sending was to end.
    pub(super) end_us: u64,
}

/// What such a scenario found.
#[derive(Serialize)]
pub(super) struct Report {
    scenario: &'static str,
    #[serde(flatten)]
    findings: Findings,
    acts: Vec<ActReport>,
    /// From the first act on.
    moved: u64,
    /// From the first act on.
    #[serde(flatten)]
    counts: Counts,
    /// From the first act.
    by_second: Vec<Second>,
    usage: Vec<UsageLine>,
    marks: Vec<Mark>,
}

/// What one act brought about, until the next one.
#[derive(Serialize)]
struct ActReport {
    act: String,
    /// From the begin of the measured time.
    at_s: f64,
    /// Until mesh-dev said that it was done.
    took_ms: f64,
    /// Who owns clients from then on.
    nodes: Vec<String>,
    /// Clients whose owner is another one then.
    to_move: usize,
    /// Sessions that moved.
    moved: u64,
    /// Those of them that were let go in good order.
    handoffs: u64,
    last_move_ms: Option<f64>,
    /// Until every session was at one node, and stayed so; absent when it never was.
    complete_ms: Option<f64>,
    /// Until the last tenth of a second in which more than 1 in 100 messages were late; absent when that was the last.
    quiet_ms: Option<f64>,
    /// The latest of these three.
    settled_ms: Option<f64>,
    /// Of messages between clients that did not move: before the first act, and from this act until all was settled.
    unmoved_p99_before_us: Option<u64>,
    unmoved_p99_us: Option<u64>,
    /// The schedule had ended before the act had.
    is_late: bool,
    problem: Option<String>,
}

impl Report {
    pub(super) fn new(
        scenario: &'static str,
        findings: Findings,
        evidence: &Evidence<'_>,
        usage: Vec<UsageLine>,
    ) -> Self {
        let Evidence { recording, samples, acts, .. } = evidence;
        let last_us = samples.last().map_or(evidence.end_us, |sample| sample.at_us + 1).max(evidence.end_us);
        let zero_us = acts.first().map_or(last_us, |act| act.began_us);
        let course = evidence.course(zero_us);
        let whole = course.effect(zero_us..last_us);
        let ends = acts.iter().skip(1).map(|act| act.began_us).chain([last_us]);
        let befores = [&evidence.nodes].into_iter().chain(acts.iter().map(|act| &act.nodes));
        let reports = acts.iter().zip(befores).zip(ends).map(|((act, nodes_before), end_us)| {
            evidence.act(&course, act, nodes_before, evidence.measured_from_us..zero_us, end_us)
        });
        Self {
            scenario,
            findings,
            acts: reports.collect(),
            moved: whole.counts.moved(),
            counts: whole.counts,
            by_second: seconds(recording, samples, acts, zero_us),
            usage,
            marks: acts.iter().map(|act| evidence.mark(act)).collect(),
        }
    }

    /// What speaks against the servers, or against the measurement.
    pub(super) fn failures(&self, traffic: &TrafficOptions, options: &DrillOptions) -> Vec<String> {
        let mut failures = self.findings.failures(traffic);
        if !options.allow_closed {
            failures.extend(self.findings.closed_failures());
        }
        if self.moved == 0 {
            failures.push("the fault did nothing: no session has moved".to_owned());
        }
        failures.extend(self.acts.iter().flat_map(|act| act.failures(options)));
        if self.acts.last().is_some_and(|act| act.complete_ms.is_none()) {
            failures.push("at the end not every session was at exactly one node".to_owned());
        }
        failures
    }

    pub(super) fn table(&self) -> String {
        let mut text = table(&self.by_second) + "\n";
        self.acts.iter().for_each(|act| act.write(&mut text));
        let Counts { handoffs, resends, edge_resends, filtered_repeats, .. } = self.counts;
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "in all      {} sessions moved, {handoffs} of them by handoff; {resends} resends by nodes, {edge_resends} by \
             edges, {filtered_repeats} repeats filtered",
            self.moved
        );
        text + &self.findings.table()
    }
}

impl Evidence<'_> {
    fn mark(&self, done: &Done) -> Mark {
        Mark { at: done.began_us.saturating_sub(self.start_us) as f64 / 1e6, text: done.act.to_string() }
    }

    fn course(&self, zero_us: u64) -> Course<'_> {
        let arrivals = &self.recording.arrivals;
        let before = p99_us(latencies(between(arrivals, &(self.measured_from_us..zero_us)), |_| true));
        let calm = self.samples.partition_point(|sample| sample.at_us < zero_us);
        Course {
            samples: &self.samples,
            arrivals,
            stalls: &self.recording.stalls,
            sessions: self.samples[..calm].last().map_or(0, |sample| sample.sessions),
            late_us: FINE_US.max(2 * before.unwrap_or(0)),
        }
    }

    fn act(
        &self,
        course: &Course<'_>,
        done: &Done,
        nodes_before: &[String],
        calm: Range<u64>,
        end_us: u64,
    ) -> ActReport {
        let effect = course.effect(done.began_us..end_us);
        let has_moved = moves(self.names, nodes_before, &done.nodes);
        let is_unmoved = undisturbed(&has_moved, self.partner_of);
        let settled_us = effect.settled_us().map_or(end_us, |settled| done.began_us + settled.max(WATCH_US));
        let unmoved_p99 = |window: &Range<u64>| {
            p99_us(latencies(between(course.arrivals, window), |arrival| is_unmoved[arrival.receiver as usize]))
        };
        let ms = |us: u64| us as f64 / 1_000.0;
        ActReport {
            act: done.act.to_string(),
            at_s: ms(done.began_us.saturating_sub(self.measured_from_us)) / 1_000.0,
            took_ms: ms(done.ended_us - done.began_us),
            nodes: done.nodes.clone(),
            to_move: has_moved.iter().filter(|moved| **moved).count(),
            moved: effect.counts.moved(),
            handoffs: effect.counts.handoffs,
            last_move_ms: effect.last_move_us.map(ms),
            complete_ms: effect.complete_us.map(ms),
            quiet_ms: effect.quiet_us.map(ms),
            settled_ms: effect.settled_us().map(ms),
            unmoved_p99_before_us: unmoved_p99(&calm),
            unmoved_p99_us: unmoved_p99(&(done.began_us..settled_us.min(end_us))),
            is_late: done.ended_us > self.end_us,
            problem: done.problem.clone(),
        }
    }
}

impl ActReport {
    fn failures(&self, options: &DrillOptions) -> Vec<String> {
        let act = &self.act;
        let mut failures: Vec<String> = self.problem.iter().map(|problem| format!("{act}: {problem}")).collect();
        if self.is_late {
            failures.push(format!("{act}: it was done only after the sending had ended: give more --seconds"));
        }
        match (self.settled_ms, options.max_settle_ms) {
            (None, Some(_)) => failures.push(format!("{act}: its effects lasted until the next act, or the end")),
            (Some(ms), Some(limit)) if ms > limit as f64 => {
                failures.push(format!("{act}: its effects lasted {ms:.0} ms, above {limit} ms"));
            }
            _ => {}
        }
        if let (Some(before), Some(during), Some(factor)) =
            (self.unmoved_p99_before_us, self.unmoved_p99_us, options.max_unmoved_factor)
        {
            let limit = (before as f64 * factor).max(FINE_US as f64);
            if during as f64 > limit {
                let (during, limit) = (during as f64 / 1_000.0, limit / 1_000.0);
                failures.push(format!("{act}: p99 of unmoved clients was {during:.1} ms, above {limit:.1} ms"));
            }
        }
        failures
    }

    fn write(&self, text: &mut String) {
        let after = |ms: Option<f64>| ms.map_or_else(|| "never".to_owned(), |ms| format!("after {ms:.0} ms"));
        let p99 = |us: Option<u64>| us.map_or_else(|| "-".to_owned(), |us| format!("{:.3}", us as f64 / 1_000.0));
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "{:<16} at {:.1} s, took {:.0} ms: {} to move, {} moved\n\
             {:<16} last move {}, all at a node {}, messages late {}: settled {}\n\
             {:<16} p99 of the unmoved {} ms before, {} ms then",
            self.act,
            self.at_s,
            self.took_ms,
            self.to_move,
            self.moved,
            "",
            after(self.last_move_ms),
            after(self.complete_ms),
            self.quiet_ms.map_or_else(|| "to the end".to_owned(), |ms| format!("until {ms:.0} ms")),
            after(self.settled_ms),
            "",
            p99(self.unmoved_p99_before_us),
            p99(self.unmoved_p99_us),
        );
    }
}

pub(super) fn latencies(arrivals: &[Arrival], counts: impl Fn(&Arrival) -> bool) -> Vec<u32> {
    arrivals.iter().filter(|arrival| counts(arrival)).map(|arrival| arrival.latency_us).collect()
}
