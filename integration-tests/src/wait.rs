//! Waiting for what happens soon, without guessing how soon.

use std::time::Duration;

use tokio::time::{Instant, sleep};

/// How often to look.
const LOOK: Duration = Duration::from_millis(20);

/// Looks until `look` finds something, and returns that.
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

/// Looks for all of `time` whether something stays as it is.
pub async fn stays<F: Future<Output = bool>>(what: &str, time: Duration, mut look: impl FnMut() -> F) {
    let start = Instant::now();
    while start.elapsed() < time {
        assert!(look().await, "after {:?} no longer: {what}", start.elapsed());
        sleep(LOOK).await;
    }
}
