//! Connections that are not clients: before their WebSocket, refused, or loading pages.
//!
//! A connection above the limit closes the oldest, because a peer that wants a WebSocket has
//! requested it long before.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;

use tokio::task::AbortHandle;

/// Key of a connection, never reused. A later connection has a higher key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct HandshakeKey(u64);

/// All connections that are not clients, oldest first.
#[derive(Debug)]
pub(super) struct Handshakes {
    limit: usize,
    next: u64,
    connection_by_key: BTreeMap<HandshakeKey, Connection>,
    /// Connections whose network is known and has a limit.
    keys_by_network: HashMap<IpAddr, BTreeSet<HandshakeKey>>,
}

#[derive(Debug, Default)]
struct Connection {
    /// `None` until the connection's task runs.
    task: Option<AbortHandle>,
    network: Option<IpAddr>,
}

impl Handshakes {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, next: 0, connection_by_key: BTreeMap::new(), keys_by_network: HashMap::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.connection_by_key.len()
    }

    /// Adds an accepted connection. At most the limit and at most `room` connections stay, but
    /// always this one. Returns the task of the oldest one if that is removed, to abort.
    pub(super) fn begin(&mut self, room: usize) -> (HandshakeKey, Option<AbortHandle>) {
        let oldest = self.connection_by_key.keys().next().copied();
        let evicted = oldest.filter(|_| self.len() >= self.limit.min(room)).and_then(|oldest| self.remove(oldest));
        let key = HandshakeKey(self.next);
        self.next += 1;
        self.connection_by_key.insert(key, Connection::default());
        (key, evicted)
    }

    /// Sets the task of the connection, unless it was removed.
    pub(super) fn set_task(&mut self, key: HandshakeKey, task: AbortHandle) {
        if let Some(connection) = self.connection_by_key.get_mut(&key) {
            connection.task = Some(task);
        }
    }

    /// Assigns the connection to a network with at most `limit` connections. Returns the task of
    /// that network's oldest one if that is removed; the caller aborts it.
    pub(super) fn set_network(&mut self, key: HandshakeKey, network: IpAddr, limit: usize) -> Option<AbortHandle> {
        let connection = self.connection_by_key.get_mut(&key)?;
        connection.network = Some(network);
        let keys = self.keys_by_network.entry(network).or_default();
        keys.insert(key);
        let oldest = keys.first().copied().filter(|_| keys.len() > limit)?;
        self.remove(oldest)
    }

    /// Removes a connection that has become a client or ended. Returns its task, which runs on.
    /// `None`: it has none yet, or was removed before.
    pub(super) fn remove(&mut self, key: HandshakeKey) -> Option<AbortHandle> {
        let Connection { task, network } = self.connection_by_key.remove(&key)?;
        if let Some(network) = network
            && let Some(keys) = self.keys_by_network.get_mut(&network)
        {
            keys.remove(&key);
            if keys.is_empty() {
                self.keys_by_network.remove(&network);
            }
        }
        task
    }
}

#[cfg(test)]
mod tests {
    use tokio::task::Id;

    use super::*;

    const ALL: usize = usize::MAX;

    fn begin(handshakes: &mut Handshakes, room: usize) -> (HandshakeKey, Id, Option<Id>) {
        let task = tokio::spawn(std::future::pending::<()>());
        let (key, evicted) = handshakes.begin(room);
        handshakes.set_task(key, task.abort_handle());
        (key, task.id(), evicted.map(|task| task.id()))
    }

    #[tokio::test]
    async fn clients_leave_less_room_for_other_connections() {
        let mut handshakes = Handshakes::new(3);
        let [first, second] = [(); 2].map(|()| begin(&mut handshakes, ALL));
        let third = begin(&mut handshakes, 2);
        assert_eq!([second.2, third.2], [None, Some(first.1)]);
    }

    #[tokio::test]
    async fn network_over_its_limit_loses_its_oldest() {
        let mut handshakes = Handshakes::new(10);
        let [a, b] = ["192.0.2.1", "192.0.2.2"].map(|address| address.parse().unwrap());
        let [other, first, second, third] = [(); 4].map(|()| begin(&mut handshakes, ALL));
        assert!(handshakes.set_network(other.0, b, 2).is_none());
        let evicted = [first, second, third].map(|one| handshakes.set_network(one.0, a, 2).map(|task| task.id()));
        assert_eq!(evicted, [None, None, Some(first.1)]);
        assert_eq!(handshakes.len(), 3);
        [other, second, third].iter().for_each(|one| drop(handshakes.remove(one.0)));
        assert!(handshakes.keys_by_network.is_empty());
    }
}
