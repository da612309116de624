//! What happened when, in steps of a second or, in long runs, of several.

use serde::{Deserialize, Serialize};

use crate::latency::{Latencies, Percentiles};

const SECOND_US: u64 = 1_000_000;
/// A longer run has longer steps.
const MOST_STEPS: u64 = 300;
/// Beyond the planned end, for what comes late; still later ones count in the last step.
const SPARE_STEPS: u64 = 120;

/// Things that begin, and are done or fail some time later; by steps from the begin of the run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Timeline {
    step_us: u64,
    steps: Vec<Step>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Step {
    begun: u64,
    failed: u64,
    took: Latencies,
}

/// One step for a report.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Row {
    /// When it begins, from the begin of the run.
    pub(crate) second: u64,
    /// How long it is, in seconds.
    pub(crate) seconds: u64,
    pub(crate) begun: u64,
    pub(crate) done: u64,
    pub(crate) failed: u64,
    /// How long took what was done in it; absent where nothing was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) took_us: Option<Percentiles>,
}

impl Timeline {
    /// For a run that is to take so long.
    pub(crate) fn lasting(seconds: u64) -> Self {
        Self { step_us: seconds.div_ceil(MOST_STEPS).max(1) * SECOND_US, steps: Vec::new() }
    }

    /// Something was to begin.
    pub(crate) fn begun(&mut self, at_us: u64) {
        if let Some(step) = self.step(at_us) {
            step.begun += 1;
        }
    }

    /// Something was done, and had taken so long.
    pub(crate) fn done(&mut self, at_us: u64, took_us: u64) {
        if let Some(step) = self.step(at_us) {
            step.took.record_us(took_us);
        }
    }

    pub(crate) fn failed(&mut self, at_us: u64) {
        if let Some(step) = self.step(at_us) {
            step.failed += 1;
        }
    }

    /// Adds what another process saw of the same run.
    pub(crate) fn absorb(&mut self, other: &Self) {
        for (number, theirs) in other.steps.iter().enumerate() {
            let Some(step) = self.step(number as u64 * other.step_us) else { return };
            step.begun += theirs.begun;
            step.failed += theirs.failed;
            step.took.absorb(&theirs.took);
        }
    }

    pub(crate) fn rows(&self) -> Vec<Row> {
        let seconds = self.step_us / SECOND_US;
        let row = |(number, step): (usize, &Step)| {
            let took_us = step.took.percentiles();
            Row {
                second: number as u64 * seconds,
                seconds,
                begun: step.begun,
                done: took_us.count,
                failed: step.failed,
                took_us: (took_us.count > 0).then_some(took_us),
            }
        };
        self.steps.iter().enumerate().map(row).collect()
    }

    fn step(&mut self, at_us: u64) -> Option<&mut Step> {
        let number = usize::try_from((at_us / self.step_us.max(1)).min(MOST_STEPS + SPARE_STEPS)).ok()?;
        while self.steps.len() <= number {
            self.steps.push(Step { begun: 0, failed: 0, took: Latencies::default() });
        }
        self.steps.get_mut(number)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_happens_is_counted_in_its_second_and_none_is_left_out() {
        let mut timeline = Timeline::lasting(30);
        timeline.begun(999_999);
        timeline.done(1_000_000, 700);
        timeline.failed(3_100_000);

        let rows = timeline.rows();

        let counts: Vec<_> = rows.iter().map(|row| (row.second, row.begun, row.done, row.failed)).collect();
        assert_eq!(counts, [(0, 1, 0, 0), (1, 0, 1, 0), (2, 0, 0, 0), (3, 0, 0, 1)]);
        assert_eq!(rows[1].took_us.unwrap().count, 1);
        assert_eq!(rows[0].took_us, None);
    }

    #[test]
    fn a_long_run_has_long_steps_and_what_comes_much_too_late_is_in_the_last() {
        let mut timeline = Timeline::lasting(3_600);
        timeline.begun(12_000_000);
        timeline.begun(u64::MAX);

        let rows = timeline.rows();

        assert_eq!((rows[1].second, rows[1].seconds, rows[1].begun), (12, 12, 1));
        assert_eq!(rows.len() as u64, MOST_STEPS + SPARE_STEPS + 1);
    }

    #[test]
    fn those_of_two_processes_add_up() {
        let (mut one, mut other, mut both) = (Timeline::lasting(9), Timeline::lasting(9), Timeline::lasting(9));
        for at_us in (0..5_000_000).step_by(70_000) {
            for timeline in [if at_us % 20_000 == 0 { &mut one } else { &mut other }, &mut both] {
                timeline.begun(at_us);
                timeline.done(at_us + 400_000, at_us / 10 + 1);
            }
        }

        one.absorb(&serde_json::from_str(&serde_json::to_string(&other).unwrap()).unwrap());

        assert_eq!(one.rows(), both.rows());
    }
}
