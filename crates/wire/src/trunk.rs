//! Frames of a trunk: one connection between an edge and a node that carries many clients.
//!
//! Each binary WebSocket message is a run of frames. An edge speaks [`ToNode`], a node [`ToEdge`]. The version of the
//! format is a WebSocket subprotocol, which both ends check when they connect.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bincode::{BorrowDecode, Decode, Encode};

use crate::codec::{self, DecodeError};
use crate::{RemainingTtl, SessionId};

/// Path of the trunk endpoint on a node's internal listener.
pub const PATH: &str = "/internal/v1/trunk";
/// WebSocket subprotocol: the version of the frames.
pub const SUBPROTOCOL: &str = "signaling-trunk.v1";
/// Request header that names the edge which opens the trunk.
pub const EDGE_HEADER: &str = "signaling-edge";
/// Request header with the port of that edge's internal listener, at the address that the trunk comes from.
pub const INTERNAL_PORT_HEADER: &str = "signaling-internal-port";

/// Names a session on one trunk connection; never used again on it.
pub type Slot = u32;

/// Names a message through all its repeats: who sent it, and the how-manieth it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Encode, Decode)]
pub struct Origin {
    /// The sender's session.
    pub session: SessionId,
    /// The sender's own `id` for reliable clients, else the number its edge gave the frame.
    pub number: u64,
}

impl Origin {
    /// The message's name for reliable clients: 22 characters of base64url for the session, `-`, the number in hexadecimal.
    #[must_use]
    pub fn message_name(&self) -> String {
        let mut name = URL_SAFE_NO_PAD.encode(self.session.0);
        // Writing to a string cannot fail.
        let _ = write!(name, "-{:x}", self.number);
        name
    }
}

/// What the node must know of the HTTP request that opened the client's socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, BorrowDecode)]
pub struct Request<'a> {
    /// Path, as requested.
    pub path: &'a str,
    /// Query string without tokens.
    pub query: &'a str,
    /// `Origin` header of a browser.
    pub origin: Option<&'a str>,
    /// Resume token.
    pub resume: Option<&'a str>,
    /// The client's address, as the edge believes it.
    pub address: &'a str,
}

/// A session asks a node to serve it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, BorrowDecode)]
pub struct Attach<'a> {
    /// The name it will have on this trunk.
    pub slot: Slot,
    /// The session; a node that resumes an older one answers with that.
    pub session: SessionId,
    /// The client.
    pub client_id: &'a str,
    /// The edge's clock when it accepted the socket, microseconds since 1970: of two sessions the later stays.
    pub accepted_at_us: u64,
    /// Whether the client takes part in custody.
    pub reliable: bool,
    /// Number of the session's latest uplink frame.
    pub seq: u64,
    /// The request that opened the socket.
    pub request: Request<'a>,
    /// What the client's token lets it do: a [`Grant`](crate::grant::Grant). Only where tokens are configured.
    pub grant: Option<&'a [u8]>,
    /// What the last node said of the session; absent for a client that no node has admitted yet.
    pub state: Option<&'a [u8]>,
    /// Set if the socket has closed already: the session comes only to have its last frames done.
    pub gone: Option<DetachReason>,
}

/// What the edge says of a `Down` that it did not write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum Unwritten {
    /// Never written to the client, and never will be.
    Skipped,
    /// An earlier message of the same sender is missing: send again, in order.
    Gap,
    /// Not written, because no more may be kept for the client now. It may come again later.
    NoRoom,
}

/// Why a session leaves its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum DetachReason {
    /// The client said goodbye.
    Left,
    /// The socket broke: the client may come back.
    Lost,
    /// The edge closed it.
    Closed,
}

/// What became of an uplink frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum DeliveryOutcome {
    /// Done, or written to the recipient's socket.
    Done,
    /// Not known to have been delivered, and no longer tried.
    Unavailable,
    /// The node would not take it: the reply says why.
    Refused,
}

/// From edge to node.
#[derive(Debug, Clone, PartialEq, Eq, Encode, BorrowDecode)]
pub enum ToNode<'a> {
    /// A session arrives.
    Attach(Attach<'a>),
    /// A client's message.
    Up {
        /// The session.
        slot: Slot,
        /// Its number, rising by one per session.
        seq: u64,
        /// How long it may still be held.
        left: RemainingTtl,
        /// The client's JSON text.
        payload: &'a [u8],
    },
    /// All `Down`s up to `up_to` are answered for: written, but for the exceptions.
    Confirm {
        /// The session.
        slot: Slot,
        /// The last number answered for.
        up_to: u64,
        /// Those that were not written.
        exceptions: Vec<(u64, Unwritten)>,
    },
    /// The session is over, or without a socket.
    Detach {
        /// The session.
        slot: Slot,
        /// Why.
        gone: DetachReason,
    },
    /// The session moves: the node stops routing for it and passes what it has for the client on to `to`.
    Release {
        /// The session.
        slot: Slot,
        /// The node that it goes to.
        to: &'a str,
    },
    /// Answers a `Probe`: the client's socket has just shown life.
    Alive {
        /// The session.
        slot: Slot,
    },
    /// The client has shown a new token: from now on it may do this.
    Grant {
        /// The session.
        slot: Slot,
        /// As in [`Attach`].
        grant: &'a [u8],
    },
    /// An operator has put this client out. An edge says so of all that it remembers when the trunk is new, and of each that is
    /// put out at this edge.
    Kicked {
        /// Whom.
        client_id: &'a str,
        /// When, in seconds since 1970: tokens made up to then are good no more.
        at: u64,
    },
}

/// From node to edge.
#[derive(Debug, Clone, PartialEq, Eq, Encode, BorrowDecode)]
pub enum ToEdge<'a> {
    /// The session is served here from now on.
    Attached {
        /// The session's name on this trunk.
        slot: Slot,
        /// The session, which is an older one if it was resumed.
        session: SessionId,
        /// Whether it was resumed.
        resumed: bool,
        /// Number of the latest uplink frame that the node knows of it; the edge numbers on from there.
        seq: u64,
        /// The hold time at this node: what `left` counts down from.
        hold: RemainingTtl,
        /// What the client is told: `welcome` on a new socket, `moved` after a handoff, or nothing.
        greeting: &'a [u8],
        /// Opaque to the edge: it is shown to the next node.
        state: &'a [u8],
    },
    /// The session is not served.
    Rejected {
        /// The session's name on this trunk.
        slot: Slot,
        /// HTTP status for a client that still waits for its upgrade.
        status: u16,
        /// Machine-readable reason.
        code: &'a str,
        /// The same for people.
        message: &'a str,
        /// Where waiting helps: for how long.
        retry_after_ms: Option<u32>,
    },
    /// The fate of `count` uplink frames from `first` on, all alike.
    Fates {
        /// The session.
        slot: Slot,
        /// The first of them.
        first: u64,
        /// How many in a row.
        count: u32,
        /// Their fate.
        fate: DeliveryOutcome,
        /// What the client is told, if anything: JSON text.
        reply: &'a [u8],
    },
    /// Something for the client.
    Down {
        /// The session.
        slot: Slot,
        /// Its number in this Attach, from 1 on.
        down_seq: u64,
        /// Whose message it is; none for what the node itself says.
        origin: Option<Origin>,
        /// The sender's last earlier number to this client that may still come, or 0.
        prev_pending: u64,
        /// How long it may still be held.
        left: RemainingTtl,
        /// JSON text that ends in `}`.
        payload: &'a [u8],
    },
    /// Close the client's socket.
    Close {
        /// The session.
        slot: Slot,
        /// WebSocket close code.
        code: u16,
        /// Reason for people.
        reason: &'a str,
    },
    /// Answers `Release`, behind all `Down`s.
    Released {
        /// The session.
        slot: Slot,
        /// What the next node must be shown.
        state: &'a [u8],
    },
    /// The session's state has changed.
    SessionState {
        /// The session.
        slot: Slot,
        /// What the next node must be shown.
        state: &'a [u8],
    },
    /// The node will stop: move its sessions.
    Draining,
    /// Does the client's socket still answer? `Alive` within 2 s says so.
    Probe {
        /// The session.
        slot: Slot,
    },
    /// The node takes sessions again after `Draining`.
    Serving,
    /// An operator has put this client out. A node says so of all that it remembers when the trunk is new, and of each of which
    /// it hears.
    Kicked {
        /// Whom.
        client_id: &'a str,
        /// When, in seconds since 1970: tokens made up to then are good no more.
        at: u64,
        /// Whether an operator does so at this moment: else the client's socket is closed only if what it has shown is as old.
        at_once: bool,
    },
}

impl ToEdge<'_> {
    /// The session that the frame is about, unless it is about the node or a client by its id.
    #[must_use]
    pub fn slot(&self) -> Option<Slot> {
        match *self {
            Self::Attached { slot, .. }
            | Self::Rejected { slot, .. }
            | Self::Fates { slot, .. }
            | Self::Down { slot, .. }
            | Self::Close { slot, .. }
            | Self::Released { slot, .. }
            | Self::SessionState { slot, .. }
            | Self::Probe { slot } => Some(slot),
            Self::Draining | Self::Serving | Self::Kicked { .. } => None,
        }
    }
}

macro_rules! wire {
    ($frame:ident) => {
        impl<'a> $frame<'a> {
            /// Writes the frame behind what `out` has.
            pub fn append(&self, out: &mut Vec<u8>) {
                codec::append(out, self);
            }

            /// Takes one frame from the front of `bytes`.
            ///
            /// # Errors
            /// If the bytes are damaged.
            pub fn take(bytes: &mut &'a [u8]) -> Result<Self, DecodeError> {
                codec::take(bytes)
            }
        }
    };
}

wire!(ToNode);
wire!(ToEdge);
