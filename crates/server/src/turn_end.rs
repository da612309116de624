//! The end of a turn, at which a thread has executed all ready tasks. Flush signals wait for it, so
//! that a connection is written once per turn. The coalescer, as a hook of `runtime`, announces it.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// The end of each turn of one thread.
#[derive(Debug, Default)]
pub(crate) struct TurnEnd {
    /// `false` before the first announcement. Without announcements no task may wait.
    is_announced: AtomicBool,
    is_awaited: AtomicBool,
    reached: Notify,
}

impl TurnEnd {
    /// Waits until no other task is ready. Returns at once before the first call of
    /// [`TurnEnd::announce`], thus in a runtime without the hook.
    pub(crate) async fn wait(&self) {
        if self.is_announced.load(Ordering::Relaxed) {
            self.is_awaited.store(true, Ordering::Relaxed);
            self.reached.notified().await;
        }
    }

    /// Wakes the tasks that wait. Returns `false` if none has waited since the last call.
    pub(crate) fn announce(&self) -> bool {
        self.is_announced.store(true, Ordering::Relaxed);
        let is_awaited = self.is_awaited.swap(false, Ordering::Relaxed);
        if is_awaited {
            self.reached.notify_waiters();
        }
        is_awaited
    }
}
