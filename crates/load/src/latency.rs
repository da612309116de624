use std::time::Duration;

use anyhow::{Context, Result};
use hdrhistogram::Histogram;
use serde::Serialize;

/// The longest time that is told apart; longer ones count as this.
const LONGEST_US: u64 = 120_000_000;
const SIGNIFICANT_DIGITS: u8 = 3;

/// Times, kept in microseconds to three digits.
pub(crate) struct Latencies(Histogram<u64>);

/// Percentiles in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Percentiles {
    pub(crate) count: u64,
    pub(crate) p50: u64,
    pub(crate) p90: u64,
    pub(crate) p99: u64,
    pub(crate) p99_9: u64,
    pub(crate) max: u64,
}

impl Latencies {
    pub(crate) fn new() -> Result<Self> {
        let histogram = Histogram::new_with_bounds(1, LONGEST_US, SIGNIFICANT_DIGITS);
        histogram.map(Self).context("cannot make a histogram")
    }

    pub(crate) fn record_us(&mut self, time_us: u64) {
        self.0.saturating_record(time_us);
    }

    pub(crate) fn record(&mut self, time: Duration) {
        self.record_us(u64::try_from(time.as_micros()).unwrap_or(LONGEST_US));
    }

    pub(crate) fn percentiles(&self) -> Percentiles {
        let at = |quantile| self.0.value_at_quantile(quantile);
        Percentiles {
            count: self.0.len(),
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p99_9: at(0.999),
            max: self.0.max(),
        }
    }
}

impl Percentiles {
    /// One line of milliseconds.
    pub(crate) fn line(&self) -> String {
        let ms = |us: u64| format!("{}.{:03}", us / 1_000, us % 1_000);
        format!(
            "p50 {}  p90 {}  p99 {}  p99.9 {}  max {} ms",
            ms(self.p50),
            ms(self.p90),
            ms(self.p99),
            ms(self.p99_9),
            ms(self.max)
        )
    }
}

/// The 99th percentile of times that are all at hand, exactly; `None` of none.
pub(crate) fn p99_us(mut times_us: Vec<u32>) -> Option<u64> {
    let rank = (times_us.len() * 99).div_ceil(100);
    let (_, p99, _) = times_us.select_nth_unstable(rank.checked_sub(1)?);
    Some(u64::from(*p99))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn percentiles_are_within_a_thousandth() {
        let mut latencies = Latencies::new().unwrap();
        for time in 1..=10_000 {
            latencies.record_us(time);
        }

        let found = latencies.percentiles();

        assert_eq!(found.count, 10_000);
        let expected =
            [(found.p50, 5_000), (found.p90, 9_000), (found.p99, 9_900), (found.p99_9, 9_990), (found.max, 10_000)];
        for (found, exact) in expected {
            assert!(found.abs_diff(exact) * 1_000 <= exact, "{found} is not {exact}");
        }
    }

    #[test]
    fn of_times_at_hand_the_percentile_is_exact() {
        assert_eq!(p99_us((1..=200).rev().collect()), Some(198));
        assert_eq!(p99_us(vec![7]), Some(7));
        assert_eq!(p99_us(vec![]), None);
    }

    #[test]
    fn what_is_too_long_counts_as_the_longest() {
        let mut latencies = Latencies::new().unwrap();

        latencies.record(Duration::from_secs(100_000));

        assert!(latencies.percentiles().max >= LONGEST_US);
    }

    #[test]
    fn the_line_is_in_milliseconds() {
        let percentiles = Percentiles { count: 1, p50: 85, p90: 1_020, p99: 2_000, p99_9: 30_001, max: 30_001 };

        assert_eq!(percentiles.line(), "p50 0.085  p90 1.020  p99 2.000  p99.9 30.001  max 30.001 ms");
    }
}
