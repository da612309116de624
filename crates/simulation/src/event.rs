//! Everything that can happen.

use std::rc::Rc;

use signaling_core::edge::ClientKey;
use signaling_core::node::{PeerKey, Urgency};
use signaling_protocol::CloseCode;
use signaling_rooms::{Outcome, Request, StoreError};

use crate::agenda::Micros;
use crate::ledger::Place;

/// A server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Host {
    Edge(usize),
    Node(usize),
}

/// Index of a trunk connection.
pub(crate) type ConnId = usize;
/// Index of a client's connection.
pub(crate) type SocketId = usize;
/// Index of a client.
pub(crate) type ClientIx = usize;
/// Index of a message.
pub(crate) type MessageId = usize;
/// Index of what a client asks of a room.
pub(crate) type AskId = usize;

/// What reaches a server: waits while it is paused, is lost when it crashes.
#[derive(Debug)]
pub(crate) enum Input {
    Sweep,
    /// Hand off some more clients.
    Move,
    /// Send what a connection has.
    FlushConn(ConnId),
    /// Send what a lane has.
    FlushLane(PeerKey, usize),
    /// A newer view.
    View(usize),
    /// A draining edge sends a client away.
    SendAway(ClientKey),

    /// An edge wants a trunk.
    ConnectArrives(ConnId),
    /// The node has taken it.
    Connected(ConnId),
    ConnectFailed(ConnId),
    /// A batch; an empty one is a ping.
    Arrives(ConnId, Vec<u8>),
    Closed(ConnId),

    /// A batch of another node.
    Batch {
        from: usize,
        generation: u32,
        attempt: u64,
        bytes: Rc<[u8]>,
    },
    /// Its answer; none if it was refused.
    Answer {
        attempt: u64,
        bytes: Option<Vec<u8>>,
    },
    /// It is to be sent again: whoever got it was paused.
    Busy {
        attempt: u64,
    },
    /// Nothing came in time.
    Timeout {
        attempt: u64,
    },
    Retry(PeerKey, usize),

    /// The room store answers a batch.
    Stored(Urgency, Vec<Result<Outcome, StoreError>>),

    /// A client asks for an upgrade.
    Newcomer(SocketId),
    /// What a client says; none for a pong.
    Text(SocketId, Option<Said>),
    /// The edge sees that a socket is gone.
    SocketGone(SocketId, Exit),
    /// A socket takes output again.
    Writable(SocketId),
    /// A client's upgrade has been answered.
    Opened(SocketId),
    /// A newcomer has waited long for a node.
    GiveUpWaiting(SocketId),
}

impl Input {
    /// Timers come after what has arrived when a paused server goes on.
    pub(crate) fn is_timer(&self) -> bool {
        matches!(
            self,
            Self::Sweep
                | Self::Move
                | Self::SendAway(_)
                | Self::FlushConn(_)
                | Self::FlushLane(..)
                | Self::Timeout { .. }
                | Self::Retry(..)
        )
    }
}

/// How a client leaves its socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// By a close frame with this code, or without one.
    Close(Option<CloseCode>),
    /// Without a close frame.
    Break,
}

impl Exit {
    /// The client ends its session.
    pub(crate) const GOODBYE: Self = Self::Close(Some(CloseCode::NORMAL));

    pub(crate) fn keeps_session_by_frame(self) -> bool {
        self != Self::GOODBYE && self != Self::Break
    }
}

/// What a client wants done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wish {
    Send(MessageId),
    Ask(AskId),
}

/// What a client says.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Said {
    /// A request, under the place that its sender gives it.
    Request(Wish, Place),
    /// A reliable client has everything up to that.
    Received(u64),
}

/// What happens to the world.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Act {
    FaultBegins(usize),
    FaultEnds(usize),
    /// Discovery sees that a crashed node is gone.
    Noticed(usize, u32),
    /// A node that was killed starts again, unless it has done so since.
    Restart(usize, u32),
    /// Looks whether a draining node may exit.
    DrainCheck(usize, Micros),
    Connect(ClientIx),
    /// The client goes; the edge notices after that time.
    Disconnect(ClientIx, Exit, Micros),
    /// The client's socket takes nothing for that time.
    Stall(ClientIx, Micros),
    Wish(ClientIx, Wish),
    /// The room store loses everything.
    StoreEmptied,
    /// A replica of the room store gets no later writes.
    StoreCopied,
    /// That replica takes over.
    StoreSetBack,
    /// A reliable client says what it has received on a socket.
    SayReceived(ClientIx, SocketId),
}

#[derive(Debug)]
pub(crate) enum Event {
    At(Host, u32, Input),
    Act(Act),
    /// A node's batch reaches the room store.
    Store {
        node: usize,
        generation: u32,
        urgency: Urgency,
        requests: Vec<Request>,
    },
}
