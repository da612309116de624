//! The node around its rooms: what they read, and one step of them.

use std::time::Instant;

use signaling_protocol::{ClientId, NodeId};
use signaling_rendezvous::KeyHash;
use signaling_rooms::{Contact, Context, Peer, Rooms, Socket, Step};
use signaling_wire::SessionId;

use super::directory::Directory;
use super::lane::MAX_WAITING;
use super::outbound::OutboundMessage;
use super::peers::Peers;
use super::session::Session;
use super::{NodeCore, SessionKey, Settings};

/// A step of a node's rooms.
pub(super) type RoomStep<'a> = Step<'a, OutboundMessage, Surroundings<'a>>;

/// The parts of a node that rooms read.
pub(super) struct Surroundings<'a> {
    directory: &'a Directory,
    peers: &'a Peers,
    settings: &'a Settings,
}

impl NodeCore {
    /// Passes rooms an input, and carries out what they decide.
    pub(super) fn with_rooms(&mut self, now: Instant, input: impl FnOnce(&mut RoomStep<'_>)) {
        input(&mut self.room_step(now));
        self.carry_out(now);
    }

    /// Returns the rooms of this node.
    pub fn rooms(&self) -> &Rooms<OutboundMessage> {
        &self.rooms
    }

    /// Returns the rooms of this node, for requests and answers that decide nothing.
    pub fn rooms_mut(&mut self) -> &mut Rooms<OutboundMessage> {
        &mut self.rooms
    }

    /// Sends the queued operations to the owners of their rooms. Background ones stay queued while
    /// 10,000 requests have no answer.
    pub fn send_room_tasks(&mut self, now: Instant) {
        self.room_step(now).send_room_tasks();
        self.carry_out(now);
    }

    /// Returns rooms ready for an input. What they decide is not carried out.
    pub(super) fn room_step(&mut self, now: Instant) -> RoomStep<'_> {
        debug_assert!(!self.rooms.has_outputs(), "outputs of an earlier input wait");
        let Self { rooms, counter, directory, peers, settings, .. } = self;
        rooms.step(now, counter, Surroundings { directory, peers, settings })
    }
}

impl Context for Surroundings<'_> {
    fn socket(&self, key: SessionKey) -> Option<Socket<'_>> {
        self.directory.get(key).map(socket_of)
    }

    fn holder(&self, client: &str) -> Option<(SessionKey, Socket<'_>)> {
        self.directory.holder(client).map(|(key, session)| (key, socket_of(session)))
    }

    fn session_of(&self, client: &ClientId) -> Option<SessionId> {
        self.directory.session_id(client)
    }

    fn lingers(&self, client: &ClientId, session: SessionId) -> bool {
        self.directory.lingering_session(client, session).is_some()
    }

    fn lost_at(&self, client: &ClientId, session: SessionId) -> Option<Instant> {
        self.directory.lingering_session(client, session)?.lost(self.settings.resume)
    }

    fn is_at_peer(&self, client: &str, session: SessionId) -> bool {
        self.directory.is_located(client, session)
    }

    fn is_home(&self, client: &str) -> bool {
        self.peers.owner(KeyHash::of(client)).is_none() && self.directory.location(client, self.peers).is_none()
    }

    fn peer(&self, node: &str) -> Option<Peer> {
        let key = self.peers.key(node)?;
        let (is_suspect, answers) = (self.peers.is_suspect(key), self.peers.is_answering(key));
        Some(Peer { is_suspect, answers, queued: self.peers.lane(key)?.queued_notes(), limit: MAX_WAITING })
    }

    fn contact(&self, node: &str) -> Contact {
        self.peers.contact(node)
    }

    fn is_stalled(&self, now: Instant, node: &str) -> bool {
        self.peers.key(node).is_some_and(|peer| self.peers.is_stalled(now, peer))
    }

    fn answering(&self) -> Vec<NodeId> {
        self.peers.answering().cloned().collect()
    }
}

fn socket_of(session: &Session) -> Socket<'_> {
    Socket {
        client_id: &session.client_id,
        id: session.id,
        socket: session.socket,
        rank: session.rank,
        attachment: session.attachment,
        grant: session.grant.as_deref(),
        is_reliable: session.known_id.is_some(),
        resumed: session.resumed,
        newcomer: session.newcomer,
        socket_ended: session.socket_ended,
    }
}
