//! The store of one process: [`Rooms`] with a clock. A node without Redis uses it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::{Clock, OpResult, Request, Rooms, Rules, StoreError};

/// Rooms in memory, lost with the process. Clones share them.
#[derive(Clone)]
pub struct MemoryStore {
    rooms: Arc<Mutex<Rooms>>,
    clock: Clock,
}

impl MemoryStore {
    /// Creates a store without rooms.
    #[must_use]
    pub fn new(rules: Rules, clock: Clock) -> Self {
        Self { rooms: Arc::new(Mutex::new(Rooms::new(rules))), clock }
    }

    /// Continues as another server process, see [`Rooms::restarted`].
    pub fn restarted(&self) {
        self.lock().restarted(self.clock.of_process());
    }

    /// Applies operations in order. It never fails.
    pub(crate) fn apply(&self, requests: &[Request]) -> Vec<Result<OpResult, StoreError>> {
        let now = self.clock.of_process();
        let mut rooms = self.lock();
        requests.iter().map(|request| Ok(rooms.apply(now, request))).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Rooms> {
        self.rooms.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
