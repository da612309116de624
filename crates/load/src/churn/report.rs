use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;

use super::stock::Leftover;
use super::{ChurnOptions, ChurnPart};
use crate::html::Page;
use crate::latency::Percentiles;
use crate::plots;
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
        part: ChurnPart,
        leftovers: Vec<Leftover>,
        usage: Vec<UsageLine>,
    ) -> Self {
        Self {
            scenario: "churn",
            processes,
            visits: options.visits,
            warmup: options.warmup,
            rate: options.rate,
            done: part.done,
            failed: part.failed,
            visit_us: part.times.percentiles(),
            closed: part.closed,
            leftovers,
            timeline: part.timeline.rows(),
            usage,
        }
    }

    /// What speaks against the servers.
    pub(crate) fn failures(&self, options: &ChurnOptions) -> Vec<String> {
        let mut failures = Vec::new();
        let failed: u64 = self.failed.values().sum();
        if failed > options.max_failed {
            failures.push(format!("{failed} visits failed"));
        }
        failures.extend(self.closed.iter().map(|(reason, count)| format!("{count} sockets closed: {reason}")));
        let leaks = self.leftovers.iter().filter(|leftover| leftover.is_above(options.max_growth));
        failures.extend(leaks.map(|leak| {
            let Leftover { process, what, before, after } = leak;
            format!("{process} had {before} {what} and has {after}, {:.1}% more", leak.growth() * 100.0)
        }));
        let p99 = self.visit_us.p99 as f64 / 1_000.0;
        if let Some(limit) = options.max_p99_ms.filter(|limit| p99 > *limit) {
            failures.push(format!("the p99 of the time of a visit is {p99:.1} ms, above {limit} ms"));
        }
        failures
    }

    pub(crate) fn page(&self) -> Page {
        plots::page("churn", &self.timeline, "visits", "time of a visit", &self.usage, Vec::new())
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
        for (reason, count) in &self.failed {
            let _ = writeln!(text, "failed      {count} times {reason}");
        }
        if !self.leftovers.is_empty() {
            let _ = writeln!(text, "\n{:<14}{:<16}{:>10}{:>10}{:>9}", "", "", "before", "after", "growth");
        }
        for leftover in &self.leftovers {
            let Leftover { process, what, before, after } = leftover;
            let _ = writeln!(text, "{process:<14}{what:<16}{before:>10}{after:>10}{:>8.1}%", leftover.growth() * 100.0);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::latency::Latencies;
    use crate::timeline::Timeline;

    #[derive(clap::Parser)]
    struct Command {
        #[command(flatten)]
        churn: ChurnOptions,
    }

    #[test]
    fn visits_that_fail_and_what_a_process_does_not_put_away_are_failures() {
        let options = <Command as clap::Parser>::parse_from(["mesh-load", "--visits=10"]).churn;
        let part = ChurnPart {
            done: 9,
            failed: [("refused with 503".to_owned(), 1)].into(),
            times: Latencies::new().unwrap(),
            timeline: Timeline::lasting(1),
            closed: BTreeMap::new(),
        };
        let leftover = |what, after| Leftover { process: "node-0".to_owned(), what, before: 1_000, after };
        let leftovers = vec![leftover("KiB of memory", 1_100), leftover("threads", 1_050)];

        let report = Report::new(&options, 1, part, leftovers, Vec::new());

        let expected = ["1 visits failed", "node-0 had 1000 KiB of memory and has 1100, 10.0% more"];
        assert_eq!(report.failures(&options), expected);
        assert!(report.table().contains("threads               1000      1050     5.0%"), "{}", report.table());
    }
}
