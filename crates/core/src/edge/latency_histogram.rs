//! Counts of message latencies in buckets, at constant cost. `inputs` records them, and the shell
//! publishes them as metrics.

use std::time::Duration;

/// The finest step is 2^13 ns, about 8 µs.
const FINEST_BITS: u32 = 13;
/// Buckets for each doubling, so that an upper bound is at most one eighth too high.
const STEPS: usize = 8;
/// Doublings from 65 µs to 69 s, above the default hold time.
const DOUBLINGS: usize = 20;
const SIZES: usize = STEPS * (DOUBLINGS + 1);

/// Latencies counted in buckets.
#[derive(Debug)]
pub struct LatencyHistogram {
    count_by_size: Box<[u64; SIZES]>,
}

impl LatencyHistogram {
    /// Counts one latency.
    pub fn record(&mut self, delay: Duration) {
        self.count_by_size[size(delay)] += 1;
    }

    /// Returns for each bucket in use its upper bound in microseconds, rounded up, and its count.
    /// The last bucket, up to 69 s, includes all longer latencies.
    pub fn counts(&self) -> impl Iterator<Item = (u64, u64)> {
        let counts = self.count_by_size.iter().enumerate().filter(|(_, count)| **count > 0);
        counts.map(|(size, count)| (bound(size).div_ceil(1_000), *count))
    }
}

impl Default for LatencyHistogram {
    fn default() -> Self {
        Self { count_by_size: Box::new([0; SIZES]) }
    }
}

/// Returns the bucket: linear below [`STEPS`] finest steps, then [`STEPS`] buckets per doubling.
fn size(delay: Duration) -> usize {
    let nanos = delay.as_secs().saturating_mul(1_000_000_000).saturating_add(delay.subsec_nanos().into());
    let steps = nanos >> FINEST_BITS;
    let doublings = steps.checked_ilog2().map_or(0, |log| log.saturating_sub(STEPS.ilog2()));
    let size = STEPS * doublings as usize + (steps >> doublings) as usize;
    size.min(SIZES - 1)
}

/// Returns the upper bound of a bucket, in nanoseconds.
fn bound(size: usize) -> u64 {
    let doublings = (size / STEPS).saturating_sub(1);
    let steps = (size - STEPS * doublings + 1) as u64;
    steps << doublings << FINEST_BITS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bound_is_at_most_one_eighth_above_the_latency() {
        let mut nanos = 1_u64;
        while nanos < 60_000_000_000 {
            let delay = Duration::from_nanos(nanos);
            let bound = bound(size(delay));
            assert!(nanos < bound, "{delay:?}");
            assert!(bound <= nanos + nanos / 8 + (1 << FINEST_BITS), "{delay:?} counts as {bound} ns");
            nanos += nanos / 7 + 1;
        }
    }

    #[test]
    fn buckets_adjoin_without_a_gap() {
        for size in 1..SIZES {
            assert!(bound(size) > bound(size - 1));
            assert_eq!(super::size(Duration::from_nanos(bound(size - 1))), size);
        }
    }

    #[test]
    fn time_above_all_buckets_counts_in_the_last() {
        let mut delays = LatencyHistogram::default();
        delays.record(Duration::from_secs(3_600));
        delays.record(Duration::MAX);
        delays.record(Duration::ZERO);
        assert_eq!(delays.counts().collect::<Vec<_>>(), [(9, 1), (bound(SIZES - 1).div_ceil(1_000), 2)]);
    }
}
