//! What processes have of memory, descriptors and threads, compared with before.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::procfs::descriptors;
use crate::watch::Watch;

/// What each process has at one moment, by the process's name.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Stock(BTreeMap<String, Belongings>);

/// What a process has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
struct Belongings {
    /// Memory in RAM.
    rss_kib: u64,
    descriptors: u64,
    threads: u64,
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

#[cfg(test)]
mod tests {
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
}
