//! The delays of the last seconds, from counts that only grow. Pure.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

/// How much of the past counts: enough messages for a p99 at a hundred a second.
pub const SPAN: Duration = Duration::from_secs(10);

/// How many delays were below a bound, in microseconds, and not below the one before.
pub type Counts = BTreeMap<u64, u64>;

/// One server's counts, as they were at some moments of the last seconds.
#[derive(Debug, Default)]
pub struct Window {
    samples: VecDeque<(Instant, Counts)>,
}

impl Window {
    /// Takes the counts of this moment, and forgets what is too old.
    pub fn take(&mut self, now: Instant, counts: impl IntoIterator<Item = (u64, u64)>) {
        // One sample older than the span stays: the span begins there.
        while self.samples.get(1).is_some_and(|(at, _)| now.saturating_duration_since(*at) >= SPAN) {
            self.samples.pop_front();
        }
        self.samples.push_back((now, counts.into_iter().collect()));
    }

    /// Begins anew: it is another process that counts.
    pub fn clear(&mut self) {
        self.samples.clear();
    }

    /// Adds what was counted within the span.
    pub fn add_to(&self, sum: &mut Counts) {
        let (Some((_, first)), Some((_, last))) = (self.samples.front(), self.samples.back()) else { return };
        for (bound, count) in last {
            let before = first.get(bound).copied().unwrap_or_default();
            *sum.entry(*bound).or_default() += count.saturating_sub(before);
        }
    }

    /// What was counted within the span.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::new();
        self.add_to(&mut counts);
        counts
    }
}

/// The bound, in microseconds, that so many thousandths of all delays stayed below; nothing if there were none.
#[must_use]
pub fn quantile(counts: &Counts, thousandths: u64) -> Option<u64> {
    let total: u64 = counts.values().sum();
    let wanted = (total * thousandths).div_ceil(1_000);
    let mut seen = 0;
    counts.iter().find_map(|(bound, count)| {
        seen += count;
        (total > 0 && seen >= wanted).then_some(*bound)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_quantile_is_the_bound_that_so_many_stayed_below() {
        let counts = Counts::from([(100, 98), (200, 1), (400, 1)]);
        assert_eq!(quantile(&counts, 500), Some(100));
        assert_eq!(quantile(&counts, 990), Some(200));
        assert_eq!(quantile(&counts, 1_000), Some(400));
        assert_eq!(quantile(&Counts::new(), 990), None);
        assert_eq!(quantile(&Counts::from([(100, 0)]), 990), None);
    }

    #[test]
    fn what_is_older_than_the_span_does_not_count() {
        let (mut window, start) = (Window::default(), Instant::now());
        // A slow message each second, then fast ones alone.
        for second in 0..30_u32 {
            let slow = u64::from(second.min(5));
            window.take(start + second * SECOND, [(100, u64::from(second)), (9_000, slow)]);
        }
        assert_eq!(window.counts(), Counts::from([(100, 10), (9_000, 0)]));
    }

    #[test]
    fn one_look_tells_nothing_and_neither_does_another_process() {
        let (mut window, start) = (Window::default(), Instant::now());
        window.take(start, [(100, 5)]);
        assert_eq!(quantile(&window.counts(), 990), None);
        window.clear();
        window.take(start + SECOND, [(100, 2)]);
        window.take(start + 2 * SECOND, [(100, 2), (200, 1)]);
        assert_eq!(window.counts(), Counts::from([(100, 0), (200, 1)]));
    }
}
