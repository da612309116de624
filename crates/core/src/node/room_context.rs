//! The node around its rooms: what they read, and one step of them.

use std::time::Instant;

use signaling_protocol::{ClientId, NodeId};
use signaling_rendezvous::KeyHash;
use signaling_wire::SessionId;

use super::directory::Directory;
use super::peers::Peers;
use super::rooms::{Context, Peer, Socket, Step};
use super::session::Session;
use super::{NodeCore, SessionKey, Settings};
use crate::View;

/// The parts of a node that rooms read.
pub(super) struct Surroundings<'a> {
    directory: &'a Directory,
    peers: &'a Peers,
    settings: &'a Settings,
}

impl NodeCore {
    /// Passes rooms an input, and carries out what they decide.
    pub(super) fn with_rooms<R>(&mut self, input: impl FnOnce(&mut Step<'_, Surroundings<'_>>) -> R) -> R {
        let result = input(&mut self.room_step());
        self.carry_out();
        result
    }

    /// Returns rooms ready for an input. What they decide is not carried out.
    pub(super) fn room_step(&mut self) -> Step<'_, Surroundings<'_>> {
        let Self { rooms, mesh_rooms, directory, peers, settings, .. } = self;
        Step { rooms, mesh_rooms, cx: Surroundings { directory, peers, settings } }
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
        Some(Peer { is_suspect: self.peers.is_suspect(key), queued: self.peers.lane(key)?.queued_notes() })
    }

    fn is_stalled(&self, now: Instant, node: &str) -> bool {
        self.peers.key(node).is_some_and(|peer| self.peers.is_stalled(now, peer))
    }

    fn answering(&self) -> Vec<NodeId> {
        self.peers.answering().cloned().collect()
    }

    fn view(&self) -> &View {
        self.peers.view()
    }
}

fn socket_of(session: &Session) -> Socket<'_> {
    Socket {
        client_id: &session.client_id,
        id: session.id,
        accepted_at_us: session.accepted_at_us,
        attachment: session.attachment,
        grant: session.grant.as_deref(),
        is_reliable: session.known_id.is_some(),
        resumed: session.resumed,
        newcomer: session.newcomer,
        socket_ended: session.socket_ended,
    }
}
