//! Clients that operators have kicked. The cores of edges and nodes keep a list each.

use std::collections::{BTreeSet, HashMap};

use signaling_protocol::ClientId;

/// Maximum difference of the servers' clocks, in seconds.
const CLOCKS_DIFFER_S: u64 = 60;

/// The time of each client's latest kick, in seconds since 1970. Edges check tokens against it.
/// Nodes keep it for edges that connect later.
#[derive(Debug, Default)]
pub struct KickList {
    at_by_client: HashMap<ClientId, u64>,
    by_age: BTreeSet<(u64, ClientId)>,
    forgotten: u64,
}

impl KickList {
    /// Maximum clients in the list. A later kick of one more client replaces the oldest kick.
    pub const MAX_CLIENTS: usize = 10_000;

    /// Returns the latest plausible time of a kick at `now`, both in seconds since 1970. A later
    /// kick comes from a wrong clock, and would reject all tokens until then.
    pub fn latest_believable(now: u64) -> u64 {
        now + CLOCKS_DIFFER_S
    }

    /// Adds a kick at `at`, in seconds since 1970. Returns `false` if a kick of the client at `at`
    /// or later is in the list, or if a full list has no earlier kick.
    pub fn add(&mut self, client: &ClientId, at: u64) -> bool {
        if let Some(&known) = self.at_by_client.get(client) {
            if known >= at {
                return false;
            }
            self.by_age.remove(&(known, client.clone()));
        } else if self.by_age.len() >= Self::MAX_CLIENTS {
            if self.by_age.first().is_some_and(|(oldest, _)| *oldest >= at) {
                return false;
            }
            if let Some((_, oldest)) = self.by_age.pop_first() {
                self.at_by_client.remove(&oldest);
                self.forgotten += 1;
            }
        }
        self.at_by_client.insert(client.clone(), at);
        self.by_age.insert((at, client.clone()));
        true
    }

    /// Returns `true` if a token of the client issued at `issued` (Unix seconds; 0 without a time)
    /// is not newer than its kick. `false` without a kick in the list.
    pub fn bars(&self, client: &ClientId, issued: u64) -> bool {
        self.at_by_client.get(client).is_some_and(|at| issued <= *at)
    }

    /// Returns all kicks with their times in seconds since 1970, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = (&ClientId, u64)> {
        self.by_age.iter().map(|(at, client)| (client, *at))
    }

    /// Returns the number of clients in the list, and of kicks forgotten for lack of room since the
    /// start.
    pub fn counts(&self) -> (usize, u64) {
        (self.by_age.len(), self.forgotten)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(name: &str) -> ClientId {
        ClientId::new(name).unwrap()
    }

    #[test]
    fn oldest_kick_is_forgotten_when_the_list_is_full() {
        let mut kicks = KickList::default();
        for n in 0..=KickList::MAX_CLIENTS {
            assert!(kicks.add(&id(&format!("c{n}")), 1 + n as u64));
        }
        assert_eq!(kicks.counts(), (KickList::MAX_CLIENTS, 1));
        assert!(!kicks.bars(&id("c0"), 0) && kicks.bars(&id("c1"), 0));
        assert!(!kicks.add(&id("c0"), 1), "it is older than all kicks in the list");
        assert_eq!(kicks.counts(), (KickList::MAX_CLIENTS, 1), "a refused kick replaces none");
        assert!(kicks.add(&id("c1"), 1_000_000), "a known client needs no further place");
        assert_eq!(kicks.counts(), (KickList::MAX_CLIENTS, 1));
    }
}
