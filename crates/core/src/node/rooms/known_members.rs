//! Whom the store has said to be in a room, of those that somebody here has asked about.

use std::collections::BTreeMap;
use std::time::Instant;

use signaling_protocol::ClientId;

/// Most that are remembered of one room. Past that all are forgotten, and asked about again as they
/// come.
const MOST: usize = 4_096;

/// Members of a room, and when the store has said so.
#[derive(Debug, Default)]
pub(super) struct KnownMembers {
    seen: BTreeMap<ClientId, Instant>,
}

impl KnownMembers {
    /// The store says whether a client is a member.
    pub(super) fn knows(&mut self, now: Instant, client: &ClientId, is_in: bool) {
        if !is_in {
            self.seen.remove(client);
            return;
        }
        if self.seen.len() >= MOST {
            self.seen.clear();
        }
        self.seen.insert(client.clone(), now);
    }

    /// A client has left.
    pub(super) fn lose(&mut self, client: &ClientId) {
        self.seen.remove(client);
    }

    /// Who has left meanwhile is not known.
    pub(super) fn clear(&mut self) {
        self.seen.clear();
    }

    /// When the store has last said that the client is a member.
    pub(super) fn seen(&self, client: &ClientId) -> Option<Instant> {
        self.seen.get(client).copied()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn however_many_are_asked_about_few_are_remembered() {
        let (mut others, now) = (KnownMembers::default(), Instant::now());
        let id = |n: usize| ClientId::new(&format!("c{n}")).unwrap();
        (0..=MOST).for_each(|n| others.knows(now, &id(n), true));
        assert_eq!((others.seen.len(), others.seen(&id(MOST))), (1, Some(now)));
        others.knows(now, &id(MOST), false);
        assert_eq!(others.seen(&id(MOST)), None);
    }
}
