//! Clocks of stores: the store's own, or one that a test sets. `redis` reads them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// A store's clock.
#[derive(Debug, Clone)]
pub enum Clock {
    /// The clock of the Redis server, which nodes share.
    Own,
    /// Milliseconds since 1970 that a test sets. 0: as `Own` in scripts.
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

    /// Returns the time of this process, or the one that a test has set, in ms since 1970. The time
    /// of the process ignores changes of the system clock after the first call.
    pub(crate) fn of_process(&self) -> u64 {
        // Lost seats are restored in a time that this clock measures: it must not jump.
        static START: OnceLock<(Instant, SystemTime)> = OnceLock::new();
        self.given().unwrap_or_else(|| {
            let (instant, wall) = START.get_or_init(|| (Instant::now(), SystemTime::now()));
            let since_1970 = wall.duration_since(UNIX_EPOCH).unwrap_or_default() + instant.elapsed();
            u64::try_from(since_1970.as_millis()).unwrap_or(u64::MAX)
        })
    }
}
