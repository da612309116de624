//! The end of a turn, at which a thread has executed all ready tasks. Flush signals of a busy
//! thread wait for it, so that a connection is written once per turn. The coalescer announces it.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// The end of each turn of one thread.
#[derive(Debug, Default)]
pub(crate) struct TurnEnd {
    /// `true` while the thread coalesces input. Else the wait would cost more than a write.
    is_coalescing: AtomicBool,
    is_awaited: AtomicBool,
    reached: Notify,
}

impl TurnEnd {
    /// Waits until no other task is ready. Returns at once unless the thread coalesces input.
    pub(crate) async fn wait(&self) {
        if self.is_coalescing.load(Ordering::Relaxed) {
            self.is_awaited.store(true, Ordering::Relaxed);
            self.reached.notified().await;
        }
    }

    /// Sets whether the thread coalesces input. `true` requires calls of [`TurnEnd::announce`].
    pub(crate) fn set_coalescing(&self, is_coalescing: bool) {
        self.is_coalescing.store(is_coalescing, Ordering::Relaxed);
    }

    /// Wakes the tasks that wait. Returns `false` if none has waited since the last call.
    pub(crate) fn announce(&self) -> bool {
        let is_awaited = self.is_awaited.swap(false, Ordering::Relaxed);
        if is_awaited {
            self.reached.notify_waiters();
        }
        is_awaited
    }
}
