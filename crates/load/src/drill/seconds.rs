use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;

use super::acts::Done;
use super::page::Counts;
use super::tally::Sample;
use crate::latency::p99_us;
use crate::traffic::Recording;

const SECOND_US: u64 = 1_000_000;

/// What happened in one second. Messages count when they are sent and when they arrive, latencies at the arrival.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Second {
    /// From the first act; it is at the begin of second 0.
    pub(super) second: i64,
    /// What was begun in it.
    pub(super) acts: Vec<String>,
    pub(super) sent: u64,
    pub(super) delivered: u64,
    pub(super) p99_us: Option<u64>,
    pub(super) moved: u64,
    #[serde(flatten)]
    pub(super) counts: Counts,
    pub(super) errors: u64,
    pub(super) closed: u64,
    /// At all nodes, at the end of the second.
    pub(super) sessions: u64,
}

/// The run second by second, none left out.
pub(super) fn seconds(recording: &Recording, samples: &[Sample], acts: &[Done], zero_us: u64) -> Vec<Second> {
    let mut rows = Rows { zero_us, row_by_second: BTreeMap::new() };
    recording.sent_us.iter().for_each(|at| rows.at(*at).0.sent += 1);
    recording.errors_us.iter().for_each(|at| rows.at(*at).0.errors += 1);
    recording.closed_us.iter().for_each(|at| rows.at(*at).0.closed += 1);
    for arrival in &recording.arrivals {
        let (second, latencies) = rows.at(arrival.at_us);
        second.delivered += 1;
        latencies.push(arrival.latency_us);
    }
    let mut earlier = samples.first().map(|sample| sample.counts).unwrap_or_default();
    for sample in samples {
        let (second, _) = rows.at(sample.at_us);
        second.moved += sample.counts.moved() - earlier.moved();
        second.counts += sample.counts - earlier;
        second.sessions = sample.sessions;
        earlier = sample.counts;
    }
    acts.iter().for_each(|done| rows.at(done.began_us).0.acts.push(done.act.to_string()));
    rows.finish()
}

struct Rows {
    zero_us: u64,
    row_by_second: BTreeMap<i64, (Second, Vec<u32>)>,
}

impl Rows {
    fn at(&mut self, at_us: u64) -> &mut (Second, Vec<u32>) {
        let second = (at_us.cast_signed() - self.zero_us.cast_signed()).div_euclid(SECOND_US.cast_signed());
        self.row_by_second.entry(second).or_default()
    }

    fn finish(mut self) -> Vec<Second> {
        let (Some(first), Some(last)) = (self.row_by_second.keys().next(), self.row_by_second.keys().next_back())
        else {
            return Vec::new();
        };
        (*first..=*last)
            .map(|number| {
                let (second, latencies) = self.row_by_second.remove(&number).unwrap_or_default();
                Second { second: number, p99_us: p99_us(latencies), ..second }
            })
            .collect()
    }
}

/// One line for each second.
pub(super) fn table(seconds: &[Second]) -> String {
    let mut table = format!(
        "{:>6}{:>9}{:>11}{:>10}{:>8}{:>9}{:>12}{:>9}{:>8}{:>8}{:>10}\n",
        "second",
        "sent",
        "delivered",
        "p99 ms",
        "moved",
        "resends",
        "by edges",
        "repeats",
        "errors",
        "closed",
        "sessions"
    );
    for second in seconds {
        let Second { counts, .. } = second;
        let p99 = second.p99_us.map_or_else(|| "-".to_owned(), |us| format!("{}.{:03}", us / 1_000, us % 1_000));
        // Writing to a String cannot fail.
        let _ = writeln!(
            table,
            "{:>6}{:>9}{:>11}{p99:>10}{:>8}{:>9}{:>12}{:>9}{:>8}{:>8}{:>10}  {}",
            second.second,
            second.sent,
            second.delivered,
            second.moved,
            counts.resends,
            counts.edge_resends,
            counts.filtered_repeats,
            second.errors,
            second.closed,
            second.sessions,
            second.acts.join(", ")
        );
    }
    table
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::drill::Act;

    const ZERO_US: u64 = 2_500_000;

    fn sample(at_us: u64, handoffs: u64, attached: u64) -> Sample {
        Sample { at_us, counts: Counts { handoffs, attached, ..Counts::default() }, sessions: 9 }
    }

    #[test]
    fn the_first_act_begins_second_0_and_none_is_left_out() {
        let mut recording = Recording { sent_us: vec![1_600_000, 2_600_000, 2_700_000], ..Recording::default() };
        recording.arrived(2_600_500, 500, 1);
        recording.arrived(5_000_000, 2_300_000, 1);
        let act = Act::Kill("node-1".to_owned());
        let done = Done { act, began_us: ZERO_US, ended_us: 3_600_000, nodes: vec![], problem: None };

        let rows = seconds(&recording, &[], &[done], ZERO_US);

        let shown: Vec<_> = rows.iter().map(|row| (row.second, row.sent, row.delivered, row.p99_us)).collect();
        assert_eq!(shown, [(-1, 1, 0, None), (0, 2, 1, Some(500)), (1, 0, 0, None), (2, 0, 1, Some(2_300_000))]);
        assert_eq!(rows[1].acts, ["kill node-1"]);
    }

    #[test]
    fn what_the_servers_count_is_shown_by_its_growth() {
        let samples = [sample(2_400_000, 7, 7), sample(2_600_000, 9, 7), sample(3_600_000, 9, 11)];

        let rows = seconds(&Recording::default(), &samples, &[], ZERO_US);

        let shown: Vec<_> = rows.iter().map(|row| (row.moved, row.counts.handoffs, row.counts.attached)).collect();
        assert_eq!(shown, [(0, 0, 0), (2, 2, 0), (2, 0, 4)]);
    }

    #[test]
    fn the_table_has_a_line_for_each_second() {
        let samples = [sample(2_600_000, 0, 0), sample(4_600_000, 1, 1)];
        let text = table(&seconds(&Recording::default(), &samples, &[], ZERO_US));

        assert_eq!(text.lines().count(), 4);
        assert!(text.lines().all(|line| line.len() >= 100), "{text}");
    }

    #[test]
    fn a_run_without_anything_has_no_seconds() {
        assert!(seconds(&Recording::default(), &[], &[], 0).is_empty());
    }
}
