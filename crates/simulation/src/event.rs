//! All events of the simulation.

use std::rc::Rc;

use signaling_core::edge::ClientKey;
use signaling_core::node::{PeerKey, Urgency};
use signaling_protocol::CloseCode;
use signaling_rooms::{OpResult, Request, StoreError};

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
/// Index of a client's room request.
pub(crate) type AskId = usize;

/// An input of a server: it waits while the server is paused and is lost in a crash.
#[derive(Debug)]
pub(crate) enum Input {
    Sweep,
    /// Hands off some more clients.
    Move,
    /// Sends a connection's output.
    FlushConn(ConnId),
    /// Sends a lane's output.
    FlushLane(PeerKey, usize),
    /// A newer view.
    View(usize),
    /// A draining edge disconnects a client.
    SendAway(ClientKey),

    /// An edge requests a trunk.
    ConnectArrives(ConnId),
    /// The node has accepted the trunk.
    Connected(ConnId),
    ConnectFailed(ConnId),
    /// A batch; an empty one is a ping.
    Arrives(ConnId, Vec<u8>),
    Closed(ConnId),

    /// A batch from another node.
    Batch {
        from: usize,
        generation: u32,
        attempt: u64,
        bytes: Rc<[u8]>,
    },
    /// The answer to a batch; `None` if it was refused.
    Answer {
        attempt: u64,
        bytes: Option<Vec<u8>>,
    },
    /// The recipient was paused, so the batch must be sent again.
    Busy {
        attempt: u64,
    },
    /// No answer came in time.
    Timeout {
        attempt: u64,
    },
    Retry(PeerKey, usize),

    /// The room store's answer to a batch.
    Stored(Urgency, Vec<Result<OpResult, StoreError>>),

    /// A client requests an upgrade.
    Newcomer(SocketId),
    /// A client's frame; `None` for a pong.
    Text(SocketId, Option<Said>),
    /// The edge detects that a socket is gone.
    SocketGone(SocketId, Exit),
    /// A socket accepts output again.
    Writable(SocketId),
    /// A client's upgrade has been answered.
    Opened(SocketId),
    /// The admission decision for a new client timed out.
    GiveUpWaiting(SocketId),
}

impl Input {
    /// Returns `true` for a timer. A resumed server handles timers after the received inputs.
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
    /// With a close frame of this code, or without a code.
    Close(Option<CloseCode>),
    /// Without a close frame.
    Break,
}

impl Exit {
    /// Ends the session.
    pub(crate) const GOODBYE: Self = Self::Close(Some(CloseCode::NORMAL));

    pub(crate) fn keeps_session_by_frame(self) -> bool {
        self != Self::GOODBYE && self != Self::Break
    }
}

/// A client's intended request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wish {
    Send(MessageId),
    Ask(AskId),
}

/// A client's frame.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Said {
    /// A request, with its position in the sender's stream.
    Request(Wish, Place),
    /// A reliable client has received all messages up to this number.
    Received(u64),
}

/// An action on the world.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Act {
    FaultBegins(usize),
    FaultEnds(usize),
    /// Discovery detects that a crashed node is gone.
    Noticed(usize, u32),
    /// A killed node starts again, unless it did already.
    Restart(usize, u32),
    /// Checks if a draining node may exit.
    DrainCheck(usize, Micros),
    Connect(ClientIx),
    /// The client disconnects; the edge detects it after that time.
    Disconnect(ClientIx, Exit, Micros),
    /// The client's socket accepts nothing for that time.
    Stall(ClientIx, Micros),
    Wish(ClientIx, Wish),
    /// The room store loses all data.
    StoreEmptied,
    /// A replica of the room store gets no later writes.
    StoreCopied,
    /// That replica takes over.
    StoreSetBack,
    /// A reliable client sends `received` on a socket.
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
