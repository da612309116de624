use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;

use super::stock::{Leftover, complaints, table};
use super::{ChurnOptions, ChurnPart};
use crate::latency::Percentiles;
use crate::merge::add_counts;
use crate::outcome::closed_failures;
use crate::timeline::Row;
use crate::watch::UsageLine;

/// What became of the visits, and what is left of them.
#[derive(Serialize)]
pub(crate) struct Report {
    scenario: &'static str,
    processes: u32,
    visits: u64,
    warmup: u64,
    rate: u64,
    done: u64,
    /// By reason.
    failed: BTreeMap<String, u64>,
    /// Of those who warmed the servers up.
    early_failed: BTreeMap<String, u64>,
    /// From the moment at which a visitor was to come until it had left.
    visit_us: Percentiles,
    /// Of those who stayed.
    closed: BTreeMap<String, u64>,
    /// What each process of the mesh had before, and has after it had time to settle.
    leftovers: Vec<Leftover>,
    timeline: Vec<Row>,
    usage: Vec<UsageLine>,
}

impl Report {
    pub(crate) fn new(
        options: &ChurnOptions,
        processes: u32,
        early: Option<ChurnPart>,
        part: &ChurnPart,
        leftovers: Vec<Leftover>,
        usage: Vec<UsageLine>,
    ) -> Self {
        let mut closed = part.closed.clone();
        if let Some(early) = &early {
            add_counts(&mut closed, early.closed.clone());
        }
        Self {
            scenario: "churn",
            processes,
            visits: options.visits,
            warmup: options.warmup,
            rate: options.rate,
            done: part.done,
            failed: part.failures_of(options.visits),
            early_failed: early.map(|early| early.failures_of(options.warming_up().visits)).unwrap_or_default(),
            visit_us: part.times.percentiles(),
            closed,
            leftovers,
            timeline: part.timeline.rows(),
            usage,
        }
    }

    /// What speaks against the servers.
    pub(crate) fn failures(&self, options: &ChurnOptions) -> Vec<String> {
        let mut failures = Vec::new();
        for (failed, when) in [(&self.failed, ""), (&self.early_failed, " while the servers warmed up")] {
            let count: u64 = failed.values().sum();
            if count > options.max_failed {
                failures.push(format!("{count} visits failed{when}"));
            }
        }
        failures.extend(closed_failures(&self.closed));
        failures.extend(complaints(&self.leftovers, options.max_growth));
        let p99 = self.visit_us.p99 as f64 / 1_000.0;
        if let Some(limit) = options.max_p99_ms.filter(|limit| p99 > *limit) {
            failures.push(format!("the p99 of the time of a visit is {p99:.1} ms, above {limit} ms"));
        }
        failures
    }

    pub(crate) fn table(&self) -> String {
        let mut text = format!(
            "visits      {} of {}, {} failed, {} a second, after {} s to warm up\nvisit       {}\n",
            self.done,
            self.visits,
            self.failed.values().sum::<u64>(),
            self.rate,
            self.warmup,
            self.visit_us.line(),
        );
        // Writing to a String cannot fail.
        for (failed, when) in [(&self.failed, ""), (&self.early_failed, ", while the servers warmed up")] {
            for (reason, count) in failed {
                let _ = writeln!(text, "failed      {count} times {reason}{when}");
            }
        }
        text.push_str(&table(&self.leftovers));
        text
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::visits::NO_OUTCOME;
    use super::*;
    use crate::latency::Latencies;
    use crate::testing::options;
    use crate::timeline::Timeline;

    #[test]
    fn visits_that_fail_and_what_a_process_does_not_put_away_are_failures() {
        let options: ChurnOptions = options(&["--visits=10"]).unwrap();
        let part = |done| ChurnPart {
            done,
            failed: [("refused with 503".to_owned(), 1)].into(),
            times: Latencies::new().unwrap(),
            timeline: Timeline::lasting(1),
            closed: BTreeMap::new(),
        };
        let leftover = |what, after| Leftover::new("node-0", what, 1_000, after);
        let leftovers = vec![leftover("KiB of memory", 1_100), leftover("threads", 1_050)];

        let early = part(options.warming_up().visits - 3);
        let report = Report::new(&options, 1, Some(early), &part(9), leftovers, Vec::new());

        let expected = [
            "1 visits failed",
            "3 visits failed while the servers warmed up",
            "node-0 had 1000 KiB of memory and has 1100, 10.0% more",
        ];
        assert_eq!(report.failures(&options), expected);
        assert_eq!(report.early_failed.get(NO_OUTCOME), Some(&2));
        assert!(report.table().contains("threads               1000      1050     5.0%"), "{}", report.table());
    }
}
