//! The records of a run and the effects of actions on it, for `drill` and `load`. Pure.

use std::ops::Range;

use serde::Serialize;

use super::sampler::{Counts, Sample};
use crate::exchange::{FirstArrival, Recording};
use crate::record::Record;

/// All records of a run. Times are microseconds on the run's clock, and lists are in their order.
pub(crate) struct Evidence {
    /// Time from the start of the measurement to the end of the sending.
    pub(crate) measured_us: Range<u64>,
    /// Counters of the servers, each 100 ms; empty without a directory of the mesh.
    pub(crate) samples: Vec<Sample>,
    pub(crate) recording: Recording,
    /// Sessions at all nodes together in normal operation.
    pub(crate) sessions: u64,
    pub(crate) record: Record,
}

/// Effects of an action in a window from its start. Times are microseconds from that start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Effect {
    /// Increase of the servers' counters from its start to the end of the window; 0 without
    /// samples.
    #[serde(flatten)]
    pub counts: Counts,
    /// Time until the last session moved or was resumed; `None` if none was, or without samples.
    pub last_move_us: Option<u64>,
    /// Time until the nodes together had the expected number of sessions, up to the end of the
    /// window. `None` if they do not have it then; 0 without samples.
    pub complete_us: Option<u64>,
    /// 99th percentile latency of the messages that arrived in the window, in microseconds; `None`
    /// without any.
    pub p99_us: Option<u64>,
    /// Number of sockets that ended; 0 if clients do not resume sessions.
    pub sockets_lost: u64,
    /// Number of successful reconnects.
    pub returned: u64,
    /// Time of the last reconnect; `None` if there was none.
    pub last_return_us: Option<u64>,
}

impl Effect {
    /// Returns the time until sessions and returned clients were back, or `None` if sessions are
    /// not. Clients that stay away have no effect on it.
    pub(crate) fn settled_us(&self) -> Option<u64> {
        let last = self.last_move_us.max(self.last_return_us).unwrap_or(0);
        Some(self.complete_us?.max(last))
    }
}

impl Evidence {
    /// Returns the end of the time that samples and messages cover, in microseconds on the clock.
    pub(crate) fn end_us(&self) -> u64 {
        self.samples.last().map_or(0, |sample| sample.at_us + 1).max(self.measured_us.end)
    }

    /// Returns the 99th percentile latency, in microseconds, of the measured messages that arrived
    /// until this time; `None` without any.
    pub(crate) fn p99_until_us(&self, end_us: u64) -> Option<u64> {
        self.p99_us(&(self.measured_us.start..end_us))
    }

    fn p99_us(&self, window: &Range<u64>) -> Option<u64> {
        p99_us(between(&self.recording.arrivals, window, |arrival| arrival.at_us))
    }

    /// Returns the effects of an action in `window`: from its start to that of the next one.
    pub(crate) fn effect(&self, window: Range<u64>) -> Effect {
        let from = self.samples.partition_point(|sample| sample.at_us < window.start);
        let to = self.samples.partition_point(|sample| sample.at_us < window.end).max(from);
        // The last sample before the window, and the samples in the window.
        let samples = &self.samples[from.saturating_sub(1)..to];
        let last_move_us = samples
            .windows(2)
            .rev()
            .find(|pair| pair[0].counts.moved() < pair[1].counts.moved())
            .map(|pair| pair[1].at_us - window.start);
        let counts = match (samples.first(), samples.last()) {
            (Some(first), Some(last)) => last.counts.since(first.counts),
            _ => Counts::default(),
        };
        let returned = between(&self.recording.returned_us, &window, |at_us| *at_us);
        Effect {
            counts,
            last_move_us,
            complete_us: self.complete_us(&self.samples[from..to], window.start),
            p99_us: self.p99_us(&window),
            sockets_lost: between(&self.recording.closed_us, &window, |at_us| *at_us).len() as u64,
            returned: returned.len() as u64,
            last_return_us: returned.last().map(|at_us| at_us - window.start),
        }
    }

    fn complete_us(&self, samples: &[Sample], begin_us: u64) -> Option<u64> {
        if self.samples.is_empty() {
            return Some(0);
        }
        let complete = samples.iter().rev().take_while(|sample| sample.sessions == self.sessions).count();
        match samples.len() - complete {
            0 => Some(0),
            first_complete => Some(samples.get(first_complete)?.at_us - begin_us),
        }
    }
}

/// Returns the items of a list ordered by `at_us` whose time is in `window`.
fn between<'a, T>(items: &'a [T], window: &Range<u64>, at_us: impl Fn(&T) -> u64) -> &'a [T] {
    let from = items.partition_point(|item| at_us(item) < window.start);
    let to = items.partition_point(|item| at_us(item) < window.end).max(from);
    &items[from..to]
}

/// Returns the exact 99th percentile latency, or `None` without arrivals.
fn p99_us(arrivals: &[FirstArrival]) -> Option<u64> {
    let mut times_us: Vec<u32> = arrivals.iter().map(|arrival| arrival.latency_us).collect();
    let rank = (times_us.len() * 99).div_ceil(100);
    let (_, p99, _) = times_us.select_nth_unstable(rank.checked_sub(1)?);
    Some(u64::from(*p99))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000;

    /// Samples, the window of an action, and the time until it settled, in milliseconds.
    type Case<'a> = (&'a str, &'a [(u64, u64)], Range<u64>, Option<u64>);

    /// Returns the effects in a window of milliseconds, with a sample for each 100 ms, from
    /// (sessions moved so far, sessions at the nodes).
    fn effect(states: &[(u64, u64)], window_ms: Range<u64>) -> Effect {
        let sample = |(number, (attached, sessions)): (usize, &(u64, u64))| Sample {
            at_us: number as u64 * 100 * MS,
            counts: Counts { attached: *attached, ..Counts::default() },
            sessions: *sessions,
        };
        let recording = Recording {
            arrivals: vec![FirstArrival::new(1_100 * MS, 7), FirstArrival::new(1_900 * MS, 900)],
            closed_us: vec![1_000 * MS, 1_100 * MS],
            returned_us: vec![1_300 * MS, 1_400 * MS],
        };
        let samples = states.iter().enumerate().map(sample).collect();
        let evidence = Evidence { measured_us: 0..0, samples, recording, sessions: 10, record: Record::default() };
        evidence.effect(window_ms.start * MS..window_ms.end * MS)
    }

    #[test]
    fn effect_is_settled_when_moves_and_sessions_are() {
        let cases: [Case<'_>; 5] = [
            ("nothing happens", &[(5, 10), (5, 10), (5, 10)], 100..300, Some(0)),
            ("last move", &[(0, 10), (0, 10), (3, 10), (4, 10), (4, 10)], 50..500, Some(250)),
            ("sessions missing or twice", &[(0, 10), (4, 6), (4, 10), (4, 11), (4, 10)], 50..500, Some(350)),
            ("session missing at the end", &[(0, 10), (4, 10), (4, 9)], 50..500, None),
            ("before and after", &[(0, 9), (1, 10), (1, 10), (2, 7)], 150..300, Some(0)),
        ];
        for (what, states, window_ms, settled_ms) in cases {
            assert_eq!(effect(states, window_ms).settled_us(), settled_ms.map(|ms| ms * MS), "{what}");
        }
        assert_eq!(effect(&[(0, 10), (3, 10), (4, 10)], 50..500).counts.attached, 4);
    }

    #[test]
    fn effect_is_settled_when_clients_are_back() {
        let effect = effect(&[(0, 10); 20], 1_050..1_900);

        assert_eq!((effect.sockets_lost, effect.returned, effect.p99_us), (1, 2, Some(7)));
        assert_eq!(effect.settled_us(), Some(350 * MS));
    }

    #[test]
    fn percentile_of_few_times_is_exact() {
        let arrivals =
            |times: Vec<u64>| -> Vec<FirstArrival> { times.into_iter().map(|us| FirstArrival::new(0, us)).collect() };

        assert_eq!(p99_us(&arrivals((1..=200).rev().collect())), Some(198));
        assert_eq!(p99_us(&arrivals(vec![7])), Some(7));
        assert_eq!(p99_us(&[]), None);
    }
}
