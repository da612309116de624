//! Connections that have not asked for a WebSocket yet. When there are too many the oldest is closed: whoever means it has asked
//! long before.

use std::collections::BTreeMap;

use tokio::task::AbortHandle;

/// The name of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct HandshakeKey(u64);

/// All of them, the oldest first.
#[derive(Debug)]
pub(super) struct Handshakes {
    limit: usize,
    next: u64,
    task_by_key: BTreeMap<HandshakeKey, Option<AbortHandle>>,
}

impl Handshakes {
    /// None yet, and room for so many.
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, next: 0, task_by_key: BTreeMap::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.task_by_key.len()
    }

    /// One more has come. Gives back the task of the one that has to go for it, if there is no room.
    pub(super) fn begin(&mut self) -> (HandshakeKey, Option<AbortHandle>) {
        let evicted = if self.task_by_key.len() >= self.limit {
            self.task_by_key.pop_first().and_then(|(_, task)| task)
        } else {
            None
        };
        let key = HandshakeKey(self.next);
        self.next += 1;
        self.task_by_key.insert(key, None);
        (key, evicted)
    }

    /// This task carries it.
    pub(super) fn carried_by(&mut self, key: HandshakeKey, task: AbortHandle) {
        if let Some(slot) = self.task_by_key.get_mut(&key) {
            *slot = Some(task);
        }
    }

    /// It has asked, or ended.
    pub(super) fn over(&mut self, key: HandshakeKey) {
        self.task_by_key.remove(&key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_oldest_goes_when_there_is_no_room() {
        let mut handshakes = Handshakes::new(2);
        let mut come = || {
            let task = tokio::spawn(std::future::pending::<()>());
            let (key, evicted) = handshakes.begin();
            handshakes.carried_by(key, task.abort_handle());
            let evicted = evicted.map(|task| task.id());
            (key, task.id(), evicted, handshakes.len())
        };
        let first = come();
        let second = come();
        let third = come();
        assert_eq!([first.2, second.2, third.2], [None, None, Some(first.1)]);
        assert_eq!(third.3, 2);
        handshakes.over(second.0);
        handshakes.over(first.0);
        assert_eq!((handshakes.len(), handshakes.begin().1.is_some()), (1, false));
    }
}
