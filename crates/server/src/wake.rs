//! When a writer has something to carry.

use std::cell::Cell;
use std::time::Duration;

use signaling_wire::limits;
use tokio::sync::Notify;
use tokio::time::timeout;

/// How long fates and confirms wait for company while nothing else goes their way.
pub const COMPANY: Duration = Duration::from_millis(2);

/// Wakes the one task that takes batches from a core and carries them. Any number of wakes before it looks count as one, so
/// all that one turn of the event loop brings goes into one batch.
#[derive(Debug, Default)]
pub struct FlushSignal {
    news: Notify,
    must_not_wait: Cell<bool>,
}

impl FlushSignal {
    /// There is something that must not wait.
    pub fn now(&self) {
        self.must_not_wait.set(true);
        self.news.notify_one();
    }

    /// There is something that may wait for company.
    pub fn soon(&self) {
        self.news.notify_one();
    }

    /// Wakes again if there may be more than this batch, since it was cut.
    pub fn again_behind(&self, batch: &[u8]) {
        if batch.len() >= limits::BATCH_TARGET_BYTES {
            self.now();
        }
    }

    /// Returns when something is due. Safe to cancel: a wake that was not returned for is kept.
    pub async fn due(&self) {
        self.news.notified().await;
        let mut pending = Pending { wake: self, over: false };
        if !self.must_not_wait.get() {
            let company = async {
                while !self.must_not_wait.get() {
                    self.news.notified().await;
                }
            };
            // Either way it is due.
            let _ = timeout(COMPANY, company).await;
        }
        self.must_not_wait.set(false);
        pending.over = true;
    }
}

/// Gives the wake back if the wait for company is cancelled: nobody else may ever wake again.
struct Pending<'a> {
    wake: &'a FlushSignal,
    over: bool,
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        if !self.over {
            self.wake.soon();
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_must_not_wait_does_not() {
        let (wake, start) = (FlushSignal::default(), Instant::now());
        wake.now();
        wake.now();
        wake.due().await;
        assert_eq!(start.elapsed(), Duration::ZERO);
        assert!(timeout(Duration::from_secs(9), wake.due()).await.is_err(), "two wakes count as one");
    }

    #[tokio::test(start_paused = true)]
    async fn what_may_wait_waits_for_company_but_not_long() {
        let (wake, start) = (FlushSignal::default(), Instant::now());
        wake.soon();
        wake.due().await;
        assert_eq!(start.elapsed(), COMPANY);
        wake.soon();
        wake.now();
        wake.due().await;
        assert_eq!(start.elapsed(), COMPANY, "company came at once");
    }

    #[tokio::test(start_paused = true)]
    async fn a_wake_outlives_who_was_cancelled_while_it_waited_for_company() {
        let wake = FlushSignal::default();
        wake.soon();
        assert!(timeout(COMPANY / 2, wake.due()).await.is_err());
        assert!(timeout(Duration::from_secs(9), wake.due()).await.is_ok());
        assert!(timeout(Duration::from_secs(9), wake.due()).await.is_err(), "it counts once");
    }
}
