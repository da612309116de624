//! Waits for conditions, polled every 20 ms, and during changes of a mesh. The tests and all other
//! modules use it.

use std::fmt::Debug;
use std::time::Duration;

use tokio::time::{Instant, sleep};

const CHECK_INTERVAL: Duration = Duration::from_millis(20);
/// Time limit of [`eventually`] and [`until_some`]: longer than any wait takes on a slow machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Waits until `check` returns `true`. Panics after 60 s.
pub async fn eventually(what: &str, mut check: impl AsyncFnMut() -> bool) {
    until_some(what, async || check().await.then_some(())).await;
}

/// Calls `check` until it returns a value, and returns the value. Panics after 60 s.
pub async fn until_some<T>(what: &str, check: impl AsyncFnMut() -> Option<T>) -> T {
    within(TIMEOUT, what, check).await
}

/// Calls `check` until it returns a value, and returns the value. Panics after `limit`.
pub async fn within<T>(limit: Duration, what: &str, check: impl AsyncFnMut() -> Option<T>) -> T {
    let found = try_within(limit, check).await;
    found.unwrap_or_else(|| panic!("waited {limit:?} in vain for {what}"))
}

/// Calls `check` until it returns a value. Returns `None` after `limit`.
pub async fn try_within<T>(limit: Duration, mut check: impl AsyncFnMut() -> Option<T>) -> Option<T> {
    let start = Instant::now();
    loop {
        let found = check().await;
        if found.is_some() || start.elapsed() >= limit {
            return found;
        }
        sleep(CHECK_INTERVAL).await;
    }
}

/// Awaits a change of a mesh and `other` at the same time, and returns the value of `other`. Panics
/// if the change fails.
pub async fn during<T, E: Debug>(change: impl Future<Output = Result<(), E>>, other: impl Future<Output = T>) -> T {
    let (changed, value) = tokio::join!(change, other);
    changed.unwrap();
    value
}

/// Asserts that a condition holds at each check, every 20 ms, for all of `time`.
pub async fn stays(what: &str, time: Duration, mut holds: impl AsyncFnMut() -> bool) {
    let start = Instant::now();
    while start.elapsed() < time {
        assert!(holds().await, "after {:?} no longer: {what}", start.elapsed());
        sleep(CHECK_INTERVAL).await;
    }
}
