use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use serde::Serialize;
use tokio::time::{Instant, sleep};

use crate::procfs::descriptors;
use crate::progress::wait;
use crate::watch::Watch;

/// What each process has at one moment, by the process's name.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Stock(BTreeMap<String, Belongings>);

/// What a process has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Belongings {
    /// Memory in RAM.
    pub(super) rss_kib: u64,
    pub(super) descriptors: u64,
    pub(super) threads: u64,
}

/// What a process has of something, before and after.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Leftover {
    process: String,
    what: &'static str,
    before: u64,
    after: u64,
}

/// Where something is counted by ones, so many more are no leak: a connection between servers that happens to be open.
const FREE: u64 = 2;

impl Stock {
    /// Looks at all processes now.
    pub(crate) fn take(watch: &Watch) -> Self {
        let reading = watch.read();
        let mut stock = Self::default();
        let mut names: Vec<&str> = reading.names().collect();
        names.sort_unstable();
        names.dedup();
        for name in names {
            let belongings = stock.0.entry(name.to_owned()).or_default();
            for (pid, usage) in reading.of(name) {
                belongings.rss_kib += usage.rss_kib;
                belongings.threads += usage.threads;
                belongings.descriptors += descriptors(pid).unwrap_or(0);
            }
        }
        stock
    }

    /// What each process had and has.
    pub(crate) fn compared_with(&self, before: &Self) -> Vec<Leftover> {
        let mut leftovers = Vec::new();
        for (process, after) in &self.0 {
            let Some(before) = before.0.get(process) else { continue };
            let mut add = |what, before, after| {
                leftovers.push(Leftover::new(process, what, before, after));
            };
            add("KiB of memory", before.rss_kib, after.rss_kib);
            add("descriptors", before.descriptors, after.descriptors);
            add("threads", before.threads, after.threads);
        }
        leftovers
    }
}

impl Leftover {
    pub(crate) fn new(process: &str, what: &'static str, before: u64, after: u64) -> Self {
        Self { process: process.to_owned(), what, before, after }
    }

    /// How much more there is than before, in percent of that.
    fn growth(&self) -> f64 {
        (self.after as f64 - self.before as f64) * 100.0 / self.before.max(1) as f64
    }

    /// Whether there is more of it than the limit allows.
    pub(crate) fn is_above(&self, limit: f64) -> bool {
        self.growth() > limit && self.after > self.before + FREE
    }
}

/// What speaks against the servers, where no more than so many percent may be left.
pub(crate) fn complaints(leftovers: &[Leftover], limit: f64) -> impl Iterator<Item = String> + '_ {
    leftovers.iter().filter(move |leftover| leftover.is_above(limit)).map(|leftover| {
        let Leftover { process, what, before, after } = leftover;
        format!("{process} had {before} {what} and has {after}, {:.1}% more", leftover.growth())
    })
}

/// One line for each, nothing for none.
pub(crate) fn table(leftovers: &[Leftover]) -> String {
    let mut table = String::new();
    // Writing to a String cannot fail.
    if !leftovers.is_empty() {
        let _ = writeln!(table, "\n{:<14}{:<16}{:>10}{:>10}{:>9}", "", "", "before", "after", "growth");
    }
    for leftover in leftovers {
        let Leftover { process, what, before, after } = leftover;
        let _ = writeln!(table, "{process:<14}{what:<16}{before:>10}{after:>10}{:>8.1}%", leftover.growth());
    }
    table
}

/// Waits for the servers to put things away: so long where there is nothing to compare with, else only until all is back
/// within the limit.
pub(crate) async fn settle(watch: &Watch, at_most: Duration, before: Option<(&Stock, f64)>) -> Stock {
    let Some((before, limit)) = before else {
        wait(at_most.as_secs(), "settling").await;
        return Stock::take(watch);
    };
    let give_up = Instant::now() + at_most;
    loop {
        let stock = Stock::take(watch);
        let is_back = stock.compared_with(before).iter().all(|leftover| !leftover.is_above(limit));
        if is_back || Instant::now() >= give_up {
            return stock;
        }
        sleep(Duration::from_secs(1)).await;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn stock(process: &str, rss_kib: u64, descriptors: u64) -> Stock {
        Stock([(process.to_owned(), Belongings { rss_kib, descriptors, threads: 3 })].into())
    }

    #[test]
    fn what_is_above_the_limit_is_a_leftover_and_what_is_within_is_none() {
        let before = stock("node-0", 10_000, 20);
        let above = |after: &Stock| -> Vec<&str> {
            let leftovers = after.compared_with(&before);
            leftovers.iter().filter(|leftover| leftover.is_above(5.0)).map(|leftover| leftover.what).collect()
        };

        assert!(above(&stock("node-0", 10_500, 22)).is_empty());
        assert_eq!(above(&stock("node-0", 10_501, 20)), ["KiB of memory"]);
        assert_eq!(above(&stock("node-0", 9_000, 23)), ["descriptors"]);
    }

    #[test]
    fn a_process_that_was_not_there_before_is_not_compared() {
        assert!(stock("node-1", 1, 1).compared_with(&stock("node-0", 1, 1)).is_empty());
    }

    #[tokio::test]
    async fn nobody_waits_for_what_is_back_already() {
        let watch = Watch::new(&crate::testing::options(&[]).unwrap());
        let begin = Instant::now();

        settle(&watch, Duration::from_secs(60), Some((&Stock::default(), 5.0))).await;

        assert!(begin.elapsed() < Duration::from_secs(30));
    }
}
