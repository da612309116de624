use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The time of day as tokens and sessions are dated; 0 for a clock that stands before 1970.
#[must_use]
pub fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
