//! Waits for conditions without fixed delays.

use std::time::Duration;

use tokio::time::{Instant, sleep};

/// Interval of checks.
const LOOK: Duration = Duration::from_millis(20);

/// Calls `look` until it returns a value, and returns the value.
pub async fn eventually<T, F: Future<Output = Option<T>>>(
    what: &str,
    limit: Duration,
    mut look: impl FnMut() -> F,
) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(start.elapsed() < limit, "waited {limit:?} in vain for {what}");
        sleep(LOOK).await;
    }
}

/// Asserts that a condition holds for all of `time`.
pub async fn stays<F: Future<Output = bool>>(what: &str, time: Duration, mut look: impl FnMut() -> F) {
    let start = Instant::now();
    while start.elapsed() < time {
        assert!(look().await, "after {:?} no longer: {what}", start.elapsed());
        sleep(LOOK).await;
    }
}
