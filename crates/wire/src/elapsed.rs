//! The time of a batch on its sender's clock. Its receiver measures by it how late the batch is.

use std::time::{Duration, Instant};

/// Time since the start of an exchange or trunk, in steps of 10 ms. A small one takes one byte.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, bincode::Encode, bincode::Decode)]
#[cfg_attr(test, derive(arbitrary::Arbitrary))]
pub struct Elapsed(u32);

impl Elapsed {
    /// Returns the time from `start` to `now`, rounded down. A longer one than 497 days is cut to
    /// that.
    pub fn between(start: Instant, now: Instant) -> Self {
        let elapsed = now.saturating_duration_since(start);
        let steps =
            elapsed.as_secs().saturating_mul(100).saturating_add(u64::from(elapsed.subsec_nanos() / 10_000_000));
        Self(u32::try_from(steps).unwrap_or(u32::MAX))
    }

    /// Returns the time as a duration.
    pub fn as_duration(self) -> Duration {
        Duration::from_millis(u64::from(self.0) * 10)
    }
}
