use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Returns the time since the Unix epoch, for tokens and sessions; 0 if the clock is earlier.
#[must_use]
pub fn unix_time() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
