//! Histograms of times, which `record` and the scenarios fill and report.

use std::fmt;

use hdrhistogram::Histogram;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Maximum recorded time, in microseconds. Longer times count as this.
const MAX_US: u64 = 120_000_000;
const SIGNIFICANT_DIGITS: u8 = 3;

/// Times in microseconds, with three significant digits. Longer ones than 120 s count as 120 s.
/// Serialized as pairs of a time and its count.
#[derive(Clone, Default)]
pub(crate) struct Latencies(Option<Histogram<u64>>);

/// Number of times, and their percentiles in microseconds; all 0 without times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Percentiles {
    pub(crate) count: u64,
    pub(crate) p50: u64,
    pub(crate) p95: u64,
    pub(crate) p99: u64,
    pub(crate) p99_9: u64,
    pub(crate) max: u64,
}

impl Latencies {
    pub(crate) fn record_us(&mut self, time_us: u64) {
        self.record_n(time_us, 1);
    }

    fn record_n(&mut self, time_us: u64, count: u64) {
        if self.0.is_none() {
            // The bounds are valid, so this succeeds.
            self.0 = Histogram::new_with_bounds(1, MAX_US, SIGNIFICANT_DIGITS).ok();
        }
        if let Some(times) = &mut self.0 {
            times.saturating_record_n(time_us, count);
        }
    }

    fn recorded(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.0.iter().flat_map(Histogram::iter_recorded).map(|step| (step.value_iterated_to(), step.count_at_value()))
    }

    pub(crate) fn percentiles(&self) -> Percentiles {
        self.0.as_ref().map(Percentiles::of).unwrap_or_default()
    }
}

impl fmt::Debug for Latencies {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.percentiles().fmt(out)
    }
}

impl Serialize for Latencies {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.recorded())
    }
}

impl<'de> Deserialize<'de> for Latencies {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut latencies = Self::default();
        for (time_us, count) in Vec::<(u64, u64)>::deserialize(deserializer)? {
            latencies.record_n(time_us, count);
        }
        Ok(latencies)
    }
}

impl Percentiles {
    fn of(times_us: &Histogram<u64>) -> Self {
        let at = |quantile| times_us.value_at_quantile(quantile);
        Self {
            count: times_us.len(),
            p50: at(0.5),
            p95: at(0.95),
            p99: at(0.99),
            p99_9: at(0.999),
            max: times_us.max(),
        }
    }

    /// Returns the percentiles as one line of text, in milliseconds.
    pub(crate) fn line(&self) -> String {
        let ms = |us: u64| format!("{}.{:03}", us / 1_000, us % 1_000);
        let [p50, p95, p99, p99_9, max] = [self.p50, self.p95, self.p99, self.p99_9, self.max].map(ms);
        format!("p50 {p50}  p95 {p95}  p99 {p99}  p99.9 {p99_9}  max {max} ms")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_two_processes_add_up_after_they_were_written() {
        let (mut one, mut other, mut whole) = (Latencies::default(), Latencies::default(), Latencies::default());
        for time in 1..=50_000 {
            if time % 3 == 0 { &mut one } else { &mut other }.record_us(time);
            whole.record_us(time);
        }

        let both: Vec<_> = one.recorded().chain(other.recorded()).collect();
        let sum: Latencies = serde_json::from_str(&serde_json::to_string(&both).unwrap()).unwrap();

        assert_eq!(sum.percentiles(), whole.percentiles());
    }
}
