//! Signals from a core to the task that writes its batches.

use std::cell::Cell;
use std::time::Duration;

use signaling_core::edge::FlushUrgency;
use signaling_wire::limits;
use tokio::sync::Notify;
use tokio::time::timeout;

/// Time in which confirms and delivery outcomes wait for other frames.
pub const FLUSH_DELAY: Duration = Duration::from_millis(2);

/// Wakes the task that takes batches from a core and writes them. Requests before it runs count as
/// one, so the frames of one turn share a batch.
#[derive(Debug, Default)]
pub struct FlushSignal {
    requested: Notify,
    is_immediate: Cell<bool>,
}

impl FlushSignal {
    /// Requests a flush with this urgency.
    pub fn request(&self, urgency: FlushUrgency) {
        match urgency {
            FlushUrgency::Idle => {}
            FlushUrgency::Delayed => self.flush_soon(),
            FlushUrgency::Immediate => self.flush_now(),
        }
    }

    /// Requests an immediate flush.
    pub fn flush_now(&self) {
        self.is_immediate.set(true);
        self.requested.notify_one();
    }

    /// Requests a flush within [`FLUSH_DELAY`].
    pub fn flush_soon(&self) {
        self.requested.notify_one();
    }

    /// Requests another flush if the batch was cut at its target size.
    pub fn again_behind(&self, batch: &[u8]) {
        if batch.len() >= limits::BATCH_TARGET_BYTES {
            self.flush_now();
        }
    }

    /// Waits until a flush is due. Cancel-safe.
    pub async fn wait(&self) {
        self.requested.notified().await;
        let mut pending = Pending { signal: self, is_over: false };
        if !self.is_immediate.get() {
            let immediate = async {
                while !self.is_immediate.get() {
                    self.requested.notified().await;
                }
            };
            let _ = timeout(FLUSH_DELAY, immediate).await;
        }
        self.is_immediate.set(false);
        pending.is_over = true;
    }
}

/// Keeps the request if its delay is cancelled.
struct Pending<'a> {
    signal: &'a FlushSignal,
    is_over: bool,
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.signal.flush_soon();
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn immediate_requests_are_due_at_once_and_count_as_one() {
        let (signal, start) = (FlushSignal::default(), Instant::now());
        signal.flush_now();
        signal.flush_now();
        signal.wait().await;
        assert_eq!(start.elapsed(), Duration::ZERO);
        assert!(timeout(Duration::from_secs(9), signal.wait()).await.is_err(), "two requests count as one");
    }

    #[tokio::test(start_paused = true)]
    async fn delayed_request_waits_for_an_immediate_one() {
        let (signal, start) = (FlushSignal::default(), Instant::now());
        signal.flush_soon();
        signal.wait().await;
        assert_eq!(start.elapsed(), FLUSH_DELAY);
        signal.flush_soon();
        signal.flush_now();
        signal.wait().await;
        assert_eq!(start.elapsed(), FLUSH_DELAY, "an immediate request came");
    }

    #[tokio::test(start_paused = true)]
    async fn request_outlives_a_cancelled_wait() {
        let signal = FlushSignal::default();
        signal.flush_soon();
        assert!(timeout(FLUSH_DELAY / 2, signal.wait()).await.is_err());
        assert!(timeout(Duration::from_secs(9), signal.wait()).await.is_ok());
        assert!(timeout(Duration::from_secs(9), signal.wait()).await.is_err(), "it counts once");
    }
}
