//! How long things took, counted by a pure core.

use std::time::Duration;

use metrics::Histogram;

/// Upper bounds of a histogram's buckets, in microseconds: from a hop on loopback to the longest hold time.
pub const BOUNDS: [u64; 17] = [
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000,
    5_000_000, 10_000_000, 30_000_000,
];

/// Times by bucket: what counting one costs is to find its bucket and to add twice.
#[derive(Debug, Clone, Copy, Default)]
pub struct Spread {
    buckets: [Bucket; BOUNDS.len() + 1],
}

#[derive(Debug, Clone, Copy, Default)]
struct Bucket {
    count: usize,
    micros: u64,
}

impl Spread {
    /// Counts one.
    pub fn add(&mut self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let at = BOUNDS.partition_point(|bound| *bound < micros);
        if let Some(bucket) = self.buckets.get_mut(at) {
            bucket.count += 1;
            bucket.micros = bucket.micros.saturating_add(micros);
        }
    }

    /// Moves what was counted into a histogram of the same buckets: as many, and of the same sum.
    #[expect(clippy::cast_precision_loss, reason = "a mean of times")]
    pub fn publish(&mut self, histogram: &Histogram) {
        for Bucket { count, micros } in std::mem::take(&mut self.buckets).into_iter().filter(|bucket| bucket.count > 0)
        {
            histogram.record_many(micros as f64 / count as f64 / 1e6, count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_fall_into_the_first_bucket_that_holds_them() {
        let mut spread = Spread::default();
        for micros in [0, 100, 101, 30_000_000, 30_000_001] {
            spread.add(Duration::from_micros(micros));
        }
        let counts: Vec<_> = spread.buckets.iter().map(|bucket| bucket.count).collect();
        assert_eq!((counts[0], counts[1], counts[16], counts[17]), (2, 1, 1, 1));
        assert_eq!(spread.buckets[0].micros, 100);
        spread.publish(&Histogram::noop());
        assert!(spread.buckets.iter().all(|bucket| bucket.count == 0), "what is published is counted once");
    }
}
