//! State of a node's clients and view, for operators. `trunks`, `peers` and `hold` have more of it.
//!
//! The node's shell turns these values into the answers of the operators' API.

use std::time::{Duration, Instant};

use signaling_protocol::{ClientId, NodeId};
use signaling_rendezvous::KeyHash;
use signaling_wire::trunk::Slot;
use signaling_wire::{Rank, SessionId};

use super::{NodeCore, PeerKey, Peers, Settings, Trunks};
use crate::edge::KickList;

/// A session with a socket.
#[derive(Debug, Clone, Copy)]
pub struct SessionReport<'a> {
    /// Its id.
    pub id: SessionId,
    /// Rank of its socket.
    pub rank: Rank,
    /// Time at which its edge accepted the socket, in milliseconds since 1970.
    pub since_ms: u64,
    /// `true` if it continues an older socket's session.
    pub resumed: bool,
    /// Name of its edge. `None`: the node's own edge, or one that has not sent its name.
    pub edge: Option<&'a str>,
    /// Its number on the edge's trunk.
    pub slot: Slot,
    /// Number of downlink messages without a confirm, and their payload bytes.
    pub unconfirmed: (usize, usize),
    /// `true` if messages are held until its edge, or that of its former socket, confirms others.
    pub has_backlog: bool,
    /// Number of room commands without an answer.
    pub commands: usize,
    /// Number of broadcasts without all outcomes.
    pub broadcasts: usize,
    /// `true` if a newer connection waits for its `client_id`.
    pub is_contended: bool,
}

impl NodeCore {
    /// Returns the settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns the peer nodes, and this node's view.
    pub fn peers(&self) -> &Peers {
        &self.peers
    }

    /// Returns the peer nodes, to run their lanes.
    pub fn peers_mut(&mut self) -> &mut Peers {
        &mut self.peers
    }

    /// Returns the trunks from edges.
    pub fn trunks(&self) -> &Trunks {
        &self.trunks
    }

    /// Returns the trunks from edges, for requests to their servers.
    pub fn trunks_mut(&mut self) -> &mut Trunks {
        &mut self.trunks
    }

    /// Returns the latest kick of each client.
    pub fn kicks(&self) -> &KickList {
        &self.kicks
    }

    /// Returns a client's owner, and the node that stands in for it. No owner: there is no view. No
    /// stand-in: the owner is not suspect, or all eligible nodes are.
    pub fn owners(&self, client: &ClientId) -> (Option<&NodeId>, Option<&NodeId>) {
        if !self.peers.has_view() {
            return (None, None);
        }
        let key = KeyHash::of(client.as_str());
        let name = |peer: Option<PeerKey>| peer.map_or(Some(&self.settings.id), |peer| self.peers.id(peer));
        let owner = name(self.peers.owner_by_view(key));
        (owner, name(self.peers.owner(key)).filter(|stand_in| Some(*stand_in) != owner))
    }

    /// Returns the clients with a socket, in no order.
    pub fn client_ids(&self) -> impl Iterator<Item = &ClientId> {
        self.directory.attached_clients()
    }

    /// Returns the session of a client. `None`: it has no socket at this node.
    pub fn session(&self, client: &ClientId) -> Option<SessionReport<'_>> {
        let (key, session) = self.directory.holder(client.as_str())?;
        let (commands, broadcasts) = self.rooms.unanswered(key);
        Some(SessionReport {
            id: session.id,
            rank: session.rank,
            since_ms: session.since_ms,
            resumed: session.resumed,
            edge: self.trunks.edge(session.trunk),
            slot: session.slot,
            unconfirmed: session.unconfirmed(),
            has_backlog: session.has_backlog,
            commands,
            broadcasts,
            is_contended: session.contender.is_some(),
        })
    }

    /// Returns the number of recipients of a client's pending messages, and of the messages. Both
    /// are 0 if the client has no socket at this node.
    pub fn pending(&self, client: &ClientId) -> (usize, usize) {
        let Some((session, _)) = self.directory.holder(client.as_str()) else { return (0, 0) };
        let queues = self.custody.queues.values().filter(|queue| queue.session == session && !queue.is_empty());
        queues.fold((0, 0), |(queues, messages), queue| (queues + 1, messages + queue.len()))
    }

    /// Returns a client's lingering session, and the time left to resume it. `None`: none is here.
    pub fn lingering_session(&self, now: Instant, client: &ClientId) -> Option<(SessionId, Duration)> {
        self.directory.lingering.get(client).map(|lingering| (lingering.attachment.session, lingering.left(now)))
    }

    /// Returns the peer node that reported a client, or got it by a handoff from here. It may not
    /// answer now. `None`: there is none.
    pub fn location_of(&self, client: &ClientId) -> Option<&NodeId> {
        self.directory.locations.get(client.as_str()).and_then(|location| self.peers.id(location.peer))
    }
}
