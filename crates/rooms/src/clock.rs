//! What time it is in a store.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// A store's clock.
#[derive(Debug, Clone)]
pub enum Clock {
    /// The store's own: the process's for memory, the server's for Redis, so that all nodes go by one.
    Own,
    /// Milliseconds since 1970 that a test sets.
    Given(Arc<AtomicU64>),
}

impl Clock {
    /// The time that was given, if it is one of those.
    pub(crate) fn given(&self) -> Option<u64> {
        match self {
            Self::Own => None,
            Self::Given(now) => Some(now.load(Ordering::Relaxed)),
        }
    }

    pub(crate) fn of_process(&self) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.given().unwrap_or_else(|| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }
}
