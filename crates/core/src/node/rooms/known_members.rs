//! Members of a room, by the store's answers about recipients of confined clients.

use std::collections::BTreeMap;
use std::time::Instant;

use signaling_protocol::ClientId;

/// Maximum members kept for one room. At the limit all are forgotten, and looked up again.
const MAX_MEMBERS: usize = 4_096;

/// Members of a room, with the time of the store's answer.
#[derive(Debug, Default)]
pub(super) struct KnownMembers {
    seen: BTreeMap<ClientId, Instant>,
}

impl KnownMembers {
    /// Stores the store's answer about a client: `is_in` if it is a member.
    pub(super) fn record(&mut self, now: Instant, client: &ClientId, is_in: bool) {
        if !is_in {
            self.seen.remove(client);
            return;
        }
        if self.seen.len() >= MAX_MEMBERS {
            self.seen.clear();
        }
        self.seen.insert(client.clone(), now);
    }

    /// Forgets a client that has left.
    pub(super) fn forget(&mut self, client: &ClientId) {
        self.seen.remove(client);
    }

    /// Forgets all members, since changes are missing.
    pub(super) fn clear(&mut self) {
        self.seen.clear();
    }

    /// Returns the time of the answer that the client is a member. `None`: there is no such answer.
    pub(super) fn seen(&self, client: &ClientId) -> Option<Instant> {
        self.seen.get(client).copied()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn members_are_forgotten_at_their_limit() {
        let (mut known_members, now) = (KnownMembers::default(), Instant::now());
        let id = |n: usize| ClientId::new(&format!("c{n}")).unwrap();
        (0..=MAX_MEMBERS).for_each(|n| known_members.record(now, &id(n), true));
        assert_eq!((known_members.seen.len(), known_members.seen(&id(MAX_MEMBERS))), (1, Some(now)));
        known_members.record(now, &id(MAX_MEMBERS), false);
        assert_eq!(known_members.seen(&id(MAX_MEMBERS)), None);
    }
}
