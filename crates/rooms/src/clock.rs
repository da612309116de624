//! Clocks of stores: the store's own, or one that a test sets.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A store's clock.
#[derive(Debug, Clone)]
pub enum Clock {
    /// The clock of the Redis server, which nodes share.
    Own,
    /// Milliseconds since 1970 that a test sets.
    Given(Arc<AtomicU64>),
}

impl Clock {
    /// Returns the milliseconds since 1970 that a test has set. `None`: the store's own clock.
    pub(crate) fn given(&self) -> Option<u64> {
        match self {
            Self::Own => None,
            Self::Given(now) => Some(now.load(Ordering::Relaxed)),
        }
    }

    /// Returns the time of this process, or the one that a test has set, in ms since 1970.
    pub(crate) fn of_process(&self) -> u64 {
        static START: OnceLock<(Instant, SystemTime)> = OnceLock::new();
        self.given().unwrap_or_else(|| {
            let (instant, wall) = START.get_or_init(|| (Instant::now(), SystemTime::now()));
            dated(*wall, instant.elapsed())
        })
    }
}

/// Returns `start` plus `elapsed` in milliseconds since 1970. Seats expire by this time, so a later
/// change of the system clock must not affect it.
fn dated(start: SystemTime, elapsed: Duration) -> u64 {
    let since = start.duration_since(UNIX_EPOCH).unwrap_or_default() + elapsed;
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_time_starts_at_the_date_and_runs_with_elapsed_time() {
        let start = UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        assert_eq!(dated(start, Duration::from_millis(1_500)), 1_700_000_001_500);
    }
}
