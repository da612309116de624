//! Peers of a client, and the messages that announce and dismiss them.
//!
//! The client panics or does not connect if a peer is announced twice, or to both sides.

use std::collections::{BTreeMap, VecDeque};

use uuid::Uuid;

use super::roster::Member;

/// Maximum peers. Further ones are not announced, and their signals are dropped.
const MAX_PEERS: usize = 4096;
/// Maximum former peers that are remembered. The oldest is forgotten first.
const MAX_GONE: usize = 1024;

/// Relation of the client to a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Contact {
    /// The peer is older since this [`Member::entry`]: it offers a connection.
    Expected { entry: u64 },
    /// The peer was announced to the client, or has sent it a signal.
    Made,
}

/// Peers in the client's room, and former ones.
#[derive(Debug, Default)]
pub(super) struct Peers {
    present: BTreeMap<Uuid, Contact>,
    /// The last peers that have left, in that order. They are not announced again.
    gone: VecDeque<Uuid>,
}

impl Peers {
    /// Returns `true` for a peer in the room.
    pub(super) fn contains(&self, peer: Uuid) -> bool {
        self.present.contains_key(&peer)
    }

    /// Records an older peer. No effect on a present or former one, or if there are 4,096 peers.
    pub(super) fn expect(&mut self, Member { id, entry, .. }: Member) {
        if self.has_room_for(id) {
            self.present.entry(id).or_insert(Contact::Expected { entry });
        }
    }

    /// Announces a younger peer, to which the client then offers a connection. No effect on a
    /// former one, or if there are 4,096.
    ///
    /// A peer that was expected has left and returned before it made contact. But without another
    /// entry the room has lost copies and its order: the peer will offer, and stays expected.
    pub(super) fn announce(&mut self, Member { id, entry, .. }: Member, frames: &mut Vec<String>) {
        let is_known = match self.present.get(&id) {
            Some(Contact::Made) => true,
            Some(Contact::Expected { entry: expected }) => *expected == entry,
            None => false,
        };
        if !is_known && self.has_room_for(id) {
            self.present.insert(id, Contact::Made);
            frames.push(format!(r#"{{"NewPeer":"{id}"}}"#));
        }
    }

    /// Records a peer's signal. Returns `false` to withhold it: the peer left, or there are 4,096.
    pub(super) fn hear(&mut self, peer: Uuid) -> bool {
        let may = self.has_room_for(peer);
        if may {
            self.present.insert(peer, Contact::Made);
        }
        may
    }

    /// Dismisses a peer that has left: the client receives that, and the peer counts as a former
    /// one. `returns`: neither, if it has not made contact, since it comes back.
    pub(super) fn dismiss(&mut self, peer: Uuid, returns: bool, frames: &mut Vec<String>) {
        let Some(contact) = self.present.remove(&peer) else { return };
        if matches!(contact, Contact::Expected { .. }) && returns {
            return;
        }
        if self.gone.len() >= MAX_GONE {
            self.gone.pop_front();
        }
        self.gone.push_back(peer);
        frames.push(format!(r#"{{"PeerLeft":"{peer}"}}"#));
    }

    pub(super) fn present(&self) -> Vec<Uuid> {
        self.present.keys().copied().collect()
    }

    pub(super) fn bytes(&self) -> usize {
        self.present.len() * (size_of::<(Uuid, Contact)>() + 16) + self.gone.len() * size_of::<Uuid>()
    }

    fn has_room_for(&self, peer: Uuid) -> bool {
        self.contains(peer) || self.present.len() < MAX_PEERS && !self.gone.contains(&peer)
    }
}
