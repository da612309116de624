//! Names of servers, connections, clients and messages, inputs of servers, and frames of clients.

use std::fmt;

use signaling_protocol::CloseCode;

use crate::agenda::Act;
use crate::ledger::Position;
use crate::world::World;

/// A server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Host {
    Edge(usize),
    Node(usize),
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Edge(index) => write!(f, "e{index}"),
            Self::Node(index) => write!(f, "n{index}"),
        }
    }
}

/// Index of a trunk connection.
pub(crate) type ConnId = usize;
/// Index of an exchange of a lane.
pub(crate) type ExchangeId = usize;
/// Index of a client's connection.
pub(crate) type SocketId = usize;
/// Index of a client.
pub(crate) type ClientIx = usize;
/// Index of a message.
pub(crate) type MessageId = usize;
/// Index of a client's room request.
pub(crate) type RoomRequestIx = usize;

/// A process of a server. The number of killed processes before it differs after a restart.
pub(crate) type Process = (Host, u32);

/// An input of a server: it waits while the server is paused and is lost in a crash.
pub(crate) struct Input {
    pub(crate) kind: Kind,
    pub(crate) run: Act<World>,
}

/// Kinds of inputs, which differ if the server's process is down or resumes after a pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A resumed server handles timers after the received inputs.
    Timer,
    /// Any other input.
    Received,
    /// An edge requests a trunk.
    Connect(ConnId),
    /// Another node opens a lane.
    Lane(ExchangeId),
    /// A client requests an upgrade.
    Upgrade(SocketId),
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
}

/// A message or room request that a client sends as soon as it can.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClientRequest {
    Message(MessageId),
    Room(RoomRequestIx),
}

/// A client's frame.
#[derive(Debug)]
pub(crate) enum ClientFrame {
    /// A request, with its position in the sender's stream.
    Request(ClientRequest, Position),
    /// The text of a client of a dialect.
    Dialect(String),
    /// A reliable client has received all messages up to this number.
    Received(u64),
}
