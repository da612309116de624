//! The outbound queues of a session by recipient. The queues themselves are in `custody`.
//! `request` adds queues, `outcome` removes them, and a handoff takes them.

use std::collections::HashMap;

use signaling_protocol::ClientId;
use signaling_rendezvous::KeyHash;

use super::QueueKey;

/// Maximum length of the list. Beyond it an index is faster.
const LISTED: usize = 32;

/// A session's queues, by recipient. Most clients write to one or two others at a time, so a list
/// suffices. A broadcast writes to all members of a room.
#[derive(Debug, Default)]
pub(super) struct OutboundQueues {
    listed: Vec<Recipient>,
    /// Queues added while the list was full.
    indexed: HashMap<ClientId, QueueKey>,
}

#[derive(Debug)]
struct Recipient {
    key: KeyHash,
    id: ClientId,
    queue: QueueKey,
}

impl OutboundQueues {
    /// Returns the queue to a client. `key` is the hash of its id. `None`: there is none.
    pub(super) fn get(&self, key: KeyHash, id: &str) -> Option<QueueKey> {
        let listed = self.listed.iter().find(|it| it.key == key && it.id.as_str() == id);
        listed.map(|it| it.queue).or_else(|| self.indexed.get(id).copied())
    }

    /// Adds a queue to a client without one.
    pub(super) fn insert(&mut self, key: KeyHash, id: ClientId, queue: QueueKey) {
        if self.listed.len() < LISTED {
            self.listed.push(Recipient { key, id, queue });
        } else {
            self.indexed.insert(id, queue);
        }
    }

    /// Removes the queue to a client, if there is one.
    pub(super) fn remove(&mut self, id: &ClientId) {
        if self.indexed.remove(id).is_some() {
            if self.indexed.is_empty() {
                self.indexed = HashMap::new();
            }
        } else if let Some(at) = self.listed.iter().position(|it| it.id == *id) {
            self.listed.swap_remove(at);
        }
    }

    /// Takes all queues.
    pub(super) fn take(&mut self) -> Vec<QueueKey> {
        let mut queues: Vec<_> = std::mem::take(&mut self.listed).into_iter().map(|it| it.queue).collect();
        let listed = queues.len();
        queues.extend(std::mem::take(&mut self.indexed).into_values());
        // An index has no stable order, and the result must not depend on it.
        queues[listed..].sort_unstable();
        queues
    }

    pub(super) fn is_empty(&self) -> bool {
        self.listed.is_empty() && self.indexed.is_empty()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use slotmap::SlotMap;

    use super::*;

    #[test]
    fn queue_is_found_and_removed_among_many() {
        let (mut recipients, mut queues) = (OutboundQueues::default(), SlotMap::<QueueKey, ()>::with_key());
        let client = |at: usize| ClientId::new(&format!("c{at}")).unwrap();
        let keys: Vec<_> = (0..3 * LISTED).map(|_| queues.insert(())).collect();
        for (at, queue) in keys.iter().enumerate() {
            recipients.insert(KeyHash::of(client(at).as_str()), client(at), *queue);
        }
        for at in (0..3 * LISTED).step_by(2) {
            recipients.remove(&client(at));
        }
        for (at, queue) in keys.iter().enumerate() {
            let found = recipients.get(KeyHash::of(client(at).as_str()), client(at).as_str());
            assert_eq!(found, (at % 2 == 1).then_some(*queue));
        }
        let mut odd: Vec<_> = keys.into_iter().skip(1).step_by(2).collect();
        odd.sort_unstable();
        let mut taken = recipients.take();
        taken.sort_unstable();
        assert_eq!((taken, recipients.is_empty()), (odd, true));
    }
}
