//! The remaining TTL of a message, as frames of trunks and items of lanes carry it.

use std::time::Duration;

/// Remaining TTL in steps of 10 ms. It travels with every copy and counts down at each server, so
/// that no two servers need the same clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, bincode::Encode, bincode::Decode)]
#[cfg_attr(test, derive(arbitrary::Arbitrary))]
pub struct RemainingTtl(u16);

impl RemainingTtl {
    /// 0: the message has expired. It is not held or written any more, and only needs its outcome.
    pub const NONE: Self = Self(0);

    /// Returns a duration as TTL, rounded up so that no live message expires. A longer one than
    /// 655.35 s is cut to that.
    pub fn from_duration(left: Duration) -> Self {
        let steps =
            left.as_secs().saturating_mul(100).saturating_add(u64::from(left.subsec_nanos().div_ceil(10_000_000)));
        Self(u16::try_from(steps).unwrap_or(u16::MAX))
    }

    /// Returns the TTL less the time by which its batch is late, rounded up.
    pub fn less(self, late: Duration) -> Self {
        Self::from_duration(self.as_duration().saturating_sub(late))
    }

    /// Returns the TTL as a duration.
    pub fn as_duration(self) -> Duration {
        Duration::from_millis(u64::from(self.0) * 10)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_ttl_is_shorter_down_to_none() {
        let ttl = RemainingTtl::from_duration(Duration::from_millis(100));
        for (late, left) in [(0, 100), (9, 100), (10, 90), (99, 10), (100, 0), (5_000, 0)] {
            assert_eq!(ttl.less(Duration::from_millis(late)).as_duration(), Duration::from_millis(left), "{late}");
        }
        assert_eq!(ttl.less(Duration::from_secs(1)), RemainingTtl::NONE);
    }
}
