//! A histogram of durations with fixed buckets, filled by shells and encoded for `/metrics`.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

/// Finite upper bounds in seconds, from a hop on loopback to more than the default hold time.
const BOUNDS: [f64; 17] =
    [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];

/// A histogram of durations in seconds, with 17 bounds from 0.1 ms to 30 s. Clones share its
/// counts. The library's takes single observations, but a shell replaces all counts at once.
#[derive(Debug, Clone, Default)]
pub struct HistogramBuckets(Arc<Mutex<Counts>>);

#[derive(Debug, Default)]
struct Counts {
    /// The last bucket has no bound.
    by_bucket: [u64; BOUNDS.len() + 1],
    sum: f64,
}

impl HistogramBuckets {
    /// Counts one duration.
    pub fn observe(&self, took: Duration) {
        self.lock().add(took.as_secs_f64(), 1);
    }

    /// Replaces all counts, also those of [`observe`](Self::observe). A pair is a duration in
    /// microseconds and the number of such durations.
    pub fn publish(&self, durations: impl Iterator<Item = (u64, u64)>) {
        let mut counts = Counts::default();
        durations.for_each(|(micros, count)| counts.add(micros as f64 / 1e6, count));
        *self.lock() = counts;
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Counts {
    fn add(&mut self, seconds: f64, count: u64) {
        self.by_bucket[BOUNDS.partition_point(|bound| *bound < seconds)] += count;
        self.sum += seconds * count as f64;
    }
}

impl EncodeMetric for HistogramBuckets {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        let counts = self.lock();
        let buckets: Vec<_> = BOUNDS.into_iter().chain([f64::INFINITY]).zip(counts.by_bucket).collect();
        let count = counts.by_bucket.iter().sum();
        encoder.encode_histogram::<NoLabelSet>(counts.sum, count, &buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Histogram
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Registry, page, register};

    #[test]
    fn histogram_counts_by_bucket_and_adds_up() {
        let mut registry = Registry::default();
        let hop: HistogramBuckets = register(&mut registry, "hop_seconds", "A hop");
        hop.publish([(200, 1), (1_000, 3)].into_iter());
        hop.observe(Duration::from_secs(60));
        let page = page(&registry);
        for line in [
            "# HELP hop_seconds A hop.",
            "# TYPE hop_seconds histogram",
            "hop_seconds_bucket{le=\"0.0001\"} 0",
            "hop_seconds_bucket{le=\"0.00025\"} 1",
            "hop_seconds_bucket{le=\"0.001\"} 4",
            "hop_seconds_bucket{le=\"30\"} 4",
            "hop_seconds_bucket{le=\"+Inf\"} 5",
            "hop_seconds_sum 60.0032",
            "hop_seconds_count 5",
        ] {
            assert!(page.lines().any(|found| found == line), "{line}\n{page}");
        }
    }
}
