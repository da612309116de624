//! Clients that left a room or expired.

use serde::{Deserialize, Serialize};
use signaling_protocol::ClientId;

use super::records::LastCommand;
use crate::LeftReason;

/// Maximum gone clients that a room remembers. The oldest is forgotten first.
const MAX_GONE: usize = 1_000;

/// A client that has left or expired: 80 bytes beside its id.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct GoneClient {
    pub(super) client: ClientId,
    pub(super) last: LastCommand,
    /// Its last place as a member or in the queue.
    pub(super) place: u64,
    /// Reason for the end of its last seat.
    pub(super) reason: LeftReason,
    /// Time at which it is forgotten, in ms of room time.
    pub(super) until: i64,
}

/// The gone clients of a room, by id. A sorted list takes less memory than a map, and most rooms
/// have few.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(from = "Vec<GoneClient>", into = "Vec<GoneClient>")]
pub(super) struct GoneClients {
    list: Vec<GoneClient>,
    /// Time at which the first one is forgotten (ms of room time). `None`: there is none.
    first_until: Option<i64>,
}

impl From<Vec<GoneClient>> for GoneClients {
    fn from(list: Vec<GoneClient>) -> Self {
        let first_until = list.iter().map(|gone| gone.until).min();
        Self { list, first_until }
    }
}

impl From<GoneClients> for Vec<GoneClient> {
    fn from(gone: GoneClients) -> Self {
        gone.list
    }
}

impl GoneClients {
    pub(super) fn get(&self, client: &ClientId) -> Option<&GoneClient> {
        self.find(client).ok().and_then(|at| self.list.get(at))
    }

    /// Adds a client that is not in the list. Returns the one that is forgotten for it, if any.
    pub(super) fn insert(&mut self, gone: GoneClient) -> Option<GoneClient> {
        let Err(at) = self.find(&gone.client) else { return None };
        self.first_until = Some(self.first_until.map_or(gone.until, |first| first.min(gone.until)));
        self.list.reserve_exact(1);
        self.list.insert(at, gone);
        if self.list.len() <= MAX_GONE {
            return None;
        }
        let oldest = self.list.iter().min_by_key(|gone| gone.until).map(|gone| gone.client.clone());
        oldest.and_then(|client| self.remove(&client))
    }

    pub(super) fn remove(&mut self, client: &ClientId) -> Option<GoneClient> {
        let removed = self.find(client).ok().map(|at| self.list.remove(at))?;
        if self.list.is_empty() {
            // A room whose clients stay keeps no memory for former ones.
            self.list = Vec::new();
        }
        if self.first_until == Some(removed.until) {
            self.first_until = self.list.iter().map(|gone| gone.until).min();
        }
        Some(removed)
    }

    /// Returns the clients that are forgotten until `until` (ms of room time), in no order.
    pub(super) fn until(&self, until: i64) -> impl Iterator<Item = &GoneClient> {
        let due = self.first_until.is_some_and(|first| first <= until);
        self.list.iter().filter(move |gone| due && gone.until <= until)
    }

    pub(super) fn first_until(&self) -> Option<i64> {
        self.first_until
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    fn find(&self, client: &ClientId) -> Result<usize, usize> {
        self.list.binary_search_by(|gone| gone.client.cmp(client))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::requester;

    #[test]
    fn oldest_gone_client_is_forgotten_at_the_limit() {
        let mut gone = GoneClients::default();
        let id = |n: i64| ClientId::new(&format!("c{n}")).unwrap();
        let last = LastCommand::after_leave(&requester("c0", "n", 1));
        let forgotten: Vec<_> = (0..1_003)
            .filter_map(|n| {
                gone.insert(GoneClient { client: id(n), last, place: 0, reason: LeftReason::Left, until: 5_000 - n })
            })
            .collect();
        assert_eq!(forgotten.iter().map(|gone| gone.until).collect::<Vec<_>>(), [4_000, 3_999, 3_998]);
        assert_eq!((gone.list.len(), gone.first_until()), (MAX_GONE, Some(4_001)));
        assert_eq!(gone.until(4_001).count(), 1);
    }
}
