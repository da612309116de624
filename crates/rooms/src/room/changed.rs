//! Clients whose seats in a room changed since the last write to a journal.

use std::collections::BTreeMap;

use signaling_protocol::ClientId;

use super::records::Record;

/// Maximum changed clients. Above it the whole room counts as changed.
const MAX_CHANGED: usize = 1_000;

/// Kind of a present client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SeatKind {
    /// A member of the room.
    Member,
    /// A client in the waiting queue.
    Waiting,
}

/// Clients of a room whose seats changed, each with the kind of its seat before the first change.
#[derive(Debug, Clone, Default)]
pub(crate) enum ChangedClients {
    /// No journal is written: changes leave no mark.
    #[default]
    Unwatched,
    /// These clients. The kind is `None` for a client without a seat.
    Some(BTreeMap<ClientId, Option<SeatKind>>),
    /// The whole room.
    All,
}

impl ChangedClients {
    /// Marks a client whose record was `former`.
    pub(super) fn mark(&mut self, client: &ClientId, former: Option<&Record>) {
        let Self::Some(clients) = self else { return };
        if !clients.contains_key(client) {
            let kind = |former: &Record| if former.is_member() { SeatKind::Member } else { SeatKind::Waiting };
            clients.insert(client.clone(), former.map(kind));
        }
        if clients.len() > MAX_CHANGED {
            *self = Self::All;
        }
    }

    /// Returns `false` if marks have no effect.
    pub(super) fn is_watched(&self) -> bool {
        matches!(self, Self::Some(_))
    }

    /// Returns `true` if there is a mark.
    pub(crate) fn is_marked(&self) -> bool {
        match self {
            Self::Unwatched => false,
            Self::Some(clients) => !clients.is_empty(),
            Self::All => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_changed_clients_count_as_the_whole_room() {
        let mut changed = ChangedClients::Some(BTreeMap::new());
        for number in 0..=MAX_CHANGED {
            assert!(matches!(changed, ChangedClients::Some(_)), "{number}");
            changed.mark(&ClientId::new(&format!("c{number}")).unwrap(), None);
        }
        assert!(matches!(changed, ChangedClients::All));
    }
}
