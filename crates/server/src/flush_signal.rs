//! Signals from a core to the task that writes its batches. Shells request flushes.
//! [`crate::trunk::serve`] and a node's tasks for lanes, rooms and direct clients wait for them.

use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use signaling_core::edge::FlushUrgency;
use signaling_wire::limits;
use tokio::sync::Notify;
use tokio::time::{self, timeout, timeout_at};

use crate::clock::next_multiple;
use crate::coalescer::Coalescer;
use crate::turn_end::TurnEnd;

/// Maximum delay of confirms and delivery outcomes. Delayed flushes are due at multiples of it, at
/// the same time in all servers of a machine.
pub const FLUSH_DELAY: Duration = Duration::from_millis(10);

/// The last flush of one connection; by default there was none.
#[derive(Debug, Default, Clone, Copy)]
pub struct LastFlush(Option<Instant>);

impl LastFlush {
    /// Creates the record of a flush.
    pub fn at(now: Instant) -> Self {
        Self(Some(now))
    }

    /// Returns when frames are due that wait since `now`: at once if the connection has not flushed
    /// for [`FLUSH_DELAY`], otherwise at the next multiple of it. A quiet connection has no
    /// frames that could share the write.
    pub fn next(self, now: Instant) -> Instant {
        match self.0 {
            Some(last) if now.saturating_duration_since(last) < FLUSH_DELAY => next_multiple(now, FLUSH_DELAY),
            _ => now,
        }
    }
}

/// Flush requests for the one task that takes batches from a core and writes them. Requests before
/// this task runs count as one, so the frames of one turn share a batch.
#[derive(Debug, Default)]
pub struct FlushSignal {
    requested: Notify,
    due: Cell<Due>,
    last: Cell<LastFlush>,
    turn_end: Arc<TurnEnd>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Due {
    #[default]
    Never,
    At(time::Instant),
    Now,
}

impl FlushSignal {
    /// Creates a signal without a request. `coalescer` is that of the thread.
    pub fn new(coalescer: &Coalescer) -> Self {
        Self { turn_end: Arc::clone(coalescer.turn_end()), ..Self::default() }
    }

    /// Requests a flush: at once if `Immediate`, by [`LastFlush::next`] if `Delayed`, none if
    /// `Idle`. The earliest request counts.
    pub fn request(&self, urgency: FlushUrgency) {
        match urgency {
            FlushUrgency::Idle => {}
            FlushUrgency::Delayed => self.flush_soon(),
            FlushUrgency::Immediate => self.flush_now(),
        }
    }

    /// Requests an immediate flush.
    pub fn flush_now(&self) {
        if self.due.replace(Due::Now) != Due::Now {
            self.requested.notify_one();
        }
    }

    fn flush_soon(&self) {
        if self.due.get() == Due::Never {
            let now = time::Instant::now().into_std();
            let at = self.last.get().next(now);
            self.due.set(if at > now { Due::At(at.into()) } else { Due::Now });
            self.requested.notify_one();
        }
    }

    /// Requests an immediate flush if `batch`, the last one taken, has reached
    /// [`limits::BATCH_TARGET_BYTES`]: the core may have more frames.
    pub fn request_rest(&self, batch: &[u8]) {
        if batch.len() >= limits::BATCH_TARGET_BYTES {
            self.flush_now();
        }
    }

    /// Waits until a flush is due, and in a thread that coalesces input until the turn ends, for at
    /// most [`FLUSH_DELAY`]. Clears all requests. Cancel-safe, but each new wait can last a turn.
    /// Only one task may wait.
    pub async fn wait(&self) {
        loop {
            match self.due.get() {
                Due::Now => break,
                Due::Never => self.requested.notified().await,
                Due::At(at) => {
                    if timeout_at(at, self.requested.notified()).await.is_err() {
                        break;
                    }
                }
            }
        }
        // A turn does not end while a task yields again and again.
        let _ = timeout(FLUSH_DELAY, self.turn_end.wait()).await;
        self.due.set(Due::Never);
        self.last.set(LastFlush::at(time::Instant::now().into_std()));
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn immediate_request_is_due_at_once_with_an_earlier_one() {
        let now: fn(&FlushSignal) = FlushSignal::flush_now;
        for (what, earlier) in [("immediate", now), ("delayed", FlushSignal::flush_soon)] {
            let (signal, start) = (FlushSignal::default(), time::Instant::now());
            earlier(&signal);
            signal.flush_now();
            signal.wait().await;
            assert_eq!(start.elapsed(), Duration::ZERO, "{what}");
            assert!(timeout(Duration::from_secs(9), signal.wait()).await.is_err(), "{what}: both count as one");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn delayed_requests_of_all_signals_are_due_together() {
        let (one, other) = (FlushSignal::default(), FlushSignal::default());
        // The second flush ends at a multiple.
        for signal in [&one, &one, &other] {
            signal.flush_soon();
            signal.wait().await;
        }
        let start = time::Instant::now();
        one.flush_soon();
        time::advance(FLUSH_DELAY / 3).await;
        other.flush_soon();
        one.flush_soon();
        assert!(timeout(FLUSH_DELAY / 3, one.wait()).await.is_err());
        one.wait().await;
        let waited = start.elapsed();
        other.wait().await;
        assert_eq!(start.elapsed(), waited);
        assert!(waited.abs_diff(FLUSH_DELAY) <= Duration::from_millis(1), "{waited:?}");
        assert!(timeout(Duration::from_secs(9), one.wait()).await.is_err(), "it counts once");
    }
    #[tokio::test(start_paused = true)]
    async fn delayed_request_is_due_at_once_on_a_quiet_connection() {
        let (signal, start) = (FlushSignal::default(), time::Instant::now());
        signal.flush_soon();
        signal.wait().await;
        assert_eq!(start.elapsed(), Duration::ZERO, "the first flush");
        signal.flush_soon();
        signal.wait().await;
        assert!(start.elapsed() > Duration::ZERO, "shortly after a flush");
        time::advance(FLUSH_DELAY).await;
        let start = time::Instant::now();
        signal.flush_soon();
        signal.wait().await;
        assert_eq!(start.elapsed(), Duration::ZERO, "quiet again");
    }
}
