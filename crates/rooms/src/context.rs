//! What rooms read of their node: sockets of clients, and peer nodes.

use std::time::Instant;

use signaling_protocol::ids::is_reserved;
use signaling_protocol::{ClientId, NodeId};
use signaling_wire::grant::Grant;
use signaling_wire::{Counter, Rank, SessionId, SocketId};

use crate::SocketKey;
use crate::replication::MeshRooms;
use crate::seats::LocalRooms;

/// The state of a node around its rooms.
pub trait Context {
    /// Returns the session of a socket. `None`: it was removed.
    fn socket(&self, key: SocketKey) -> Option<Socket<'_>>;
    /// Returns the session with a socket of a client. `None`: it has none here.
    fn holder(&self, client: &str) -> Option<(SocketKey, Socket<'_>)>;
    /// Returns the session of a client, with a socket or lingering. `None`: none is here.
    fn session_of(&self, client: &ClientId) -> Option<SessionId>;
    /// Returns `true` if the session of a client lingers here.
    fn lingers(&self, client: &ClientId, session: SessionId) -> bool;
    /// Returns the time at which a lingering session lost its socket. `None`: it does not linger.
    fn lost_at(&self, client: &ClientId, session: SessionId) -> Option<Instant>;
    /// Returns `true` if a peer has a later attachment of the session.
    fn is_at_peer(&self, client: &str, session: SessionId) -> bool;
    /// Returns `true` if this node owns a client, and no peer has its socket.
    fn is_home(&self, client: &str) -> bool;
    /// Returns a peer. `None`: it is unknown.
    fn peer(&self, node: &str) -> Option<Peer>;
    /// Returns what this node and another one know of each other, also for 60 s after it has left
    /// the view. Without any knowledge all of it is `None`.
    fn contact(&self, node: &str) -> Contact;
    /// Returns `true` if the lane to a peer makes no progress. `false` for an unknown peer.
    fn is_stalled(&self, now: Instant, node: &str) -> bool;
    /// Returns the peers that answer.
    fn answering(&self) -> Vec<NodeId>;
}

/// The session of a client's socket.
#[derive(Debug, Clone, Copy)]
pub struct Socket<'a> {
    /// Id of the client.
    pub client_id: &'a ClientId,
    /// The session.
    pub id: SessionId,
    /// The socket.
    pub socket: SocketId,
    /// Its rank.
    pub rank: Rank,
    /// Number of the session's attachments with this socket.
    pub attachment: u32,
    /// Rights by the client's token. `None`: tokens are not required.
    pub grant: Option<&'a Grant>,
    /// `true` for a reliable client.
    pub is_reliable: bool,
    /// `true` if it continues an older socket's session.
    pub resumed: bool,
    /// `true` if no node has admitted the session before.
    pub newcomer: bool,
    /// `true` without the socket itself: its frames still get their outcomes.
    pub socket_ended: bool,
}

impl Socket<'_> {
    /// Returns `true` if its client speaks a dialect, and so knows no refusals.
    pub(super) fn is_of_dialect(&self) -> bool {
        is_reserved(self.client_id.as_str())
    }
}

impl<M, C> Step<'_, M, C> {
    /// Returns a number above all that the node has returned or received.
    pub(crate) fn next_number(&mut self) -> u64 {
        self.counter.next(self.now)
    }

    /// Raises the node's counter to a number from an item. Returns `false` if it is damaged.
    pub(crate) fn receive_number(&mut self, number: u64) -> bool {
        self.counter.receive(self.now, number).is_ok()
    }
}

/// A peer node.
#[derive(Debug, Clone, Copy)]
pub struct Peer {
    /// `true` if it failed its checks.
    pub is_suspect: bool,
    /// `true` unless its last check failed. A suspect in probation answers too.
    pub answers: bool,
    /// Bytes of items other than messages that wait in its lane.
    pub queued: usize,
    /// Maximum of `queued`: the lane then takes no further item.
    pub limit: usize,
}

/// What this node and another one know of each other. Pauses of this process do not change times.
#[derive(Debug, Clone, Copy, Default)]
pub struct Contact {
    /// A time at which its view had this node: it answered after that. `None`: its last answer
    /// denies it, or there was none.
    pub names_us: Option<Instant>,
    /// A time at which its process was gone: the connection was refused after that, and there was
    /// no answer since. `None`: it may have a process.
    pub refused: Option<Instant>,
    /// Time of the last answer of this node to it, by a view that had it. `None`: never.
    pub named: Option<Instant>,
}

/// One input of rooms in progress, with what rooms read of their node.
pub struct Step<'a, M, C> {
    pub(crate) local: &'a mut LocalRooms<M>,
    pub(crate) mesh: &'a mut MeshRooms,
    /// Counter of the node.
    pub(crate) counter: &'a mut Counter,
    pub(crate) cx: C,
    /// Time of the input.
    pub(crate) now: Instant,
}
