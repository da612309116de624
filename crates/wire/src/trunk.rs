//! Frames of a trunk, the connection between an edge and a node that multiplexes sessions.
//!
//! Each binary WebSocket message is a run of frames. An edge sends [`ToNode`], a node [`ToEdge`].
//! The WebSocket subprotocol is the version of the format. Both ends check it when they connect.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bincode::{BorrowDecode, Decode, Encode};

use crate::codec;
use crate::{Credential, DownSeq, Elapsed, MessageNumber, Rank, RateDebts, RemainingTtl, Seq, SessionId, SocketId};

/// Path of the trunk endpoint on a node's internal listener.
pub const PATH: &str = "/internal/v1/trunk";
/// WebSocket subprotocol: the version of the frames.
pub const SUBPROTOCOL: &str = "signaling-trunk.v3";
/// Request header with the port of the edge's internal listener, at the trunk's source address. It
/// is shown to operators; no server connects to it.
pub const INTERNAL_PORT_HEADER: &str = "signaling-internal-port";

/// Number of a session on one trunk. It is never reused there.
pub type Slot = u32;

/// The name of a message and all its copies: the sender's session and a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Encode, Decode)]
#[cfg_attr(test, derive(arbitrary::Arbitrary))]
pub struct Origin {
    /// The sender's session.
    pub session: SessionId,
    /// The client's `id` if the client is reliable, else the [`Seq`] of its frame.
    pub number: MessageNumber,
}

impl Origin {
    /// Returns the name for reliable clients: the session as 22 characters of base64url, `-`, and
    /// the number in hexadecimal.
    pub fn message_name(&self) -> String {
        let mut name = URL_SAFE_NO_PAD.encode(self.session.0);
        // Writing to a string cannot fail.
        let _ = write!(name, "-{:x}", self.number.0);
        name
    }
}

/// Parts of the upgrade request. Nodes read the resume token alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, BorrowDecode)]
#[cfg_attr(test, derive(arbitrary::Arbitrary))]
pub struct Request<'a> {
    /// Path, as requested.
    pub path: &'a str,
    /// Query string without tokens.
    pub query: &'a str,
    /// `Origin` header of a browser. `None`: no such header.
    pub origin: Option<&'a str>,
    /// Resume token. `None`: the client does not resume.
    pub resume: Option<&'a str>,
    /// IP address of the client, as determined by the edge.
    pub address: &'a str,
}

/// Asks a node to serve a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, BorrowDecode)]
#[cfg_attr(test, derive(arbitrary::Arbitrary))]
pub struct Attach<'a> {
    /// The session's slot on this trunk.
    pub slot: Slot,
    /// The session. A node that resumes an older one answers with that.
    pub session: SessionId,
    /// Id of the client.
    pub client_id: &'a str,
    /// The socket.
    pub socket: SocketId,
    /// Rank of the socket as the last node sent it: of two sockets of a client the higher one
    /// stays. 0: no node has admitted it.
    pub rank: Rank,
    /// Number of the session's attachments with this socket, this one included.
    pub attachment: u32,
    /// Time at which the edge accepted the socket, in milliseconds since 1970, for operators.
    pub since_ms: u64,
    /// `true` for a reliable client, which takes part in custody.
    pub reliable: bool,
    /// `true` if its client has answered the Ping that `Prove` caused.
    pub live: bool,
    /// `true` if the end of its socket ends the session: it does not linger, and it leaves its
    /// rooms. A lost edge is no end of a socket.
    pub ends_with_socket: bool,
    /// Number of the session's latest uplink frame.
    pub seq: Seq,
    /// The client's credential: a newcomer with an equal one gets the session, as by a resume
    /// token. `None`: it has none.
    pub credential: Option<Credential>,
    /// The upgrade request.
    pub request: Request<'a>,
    /// The [`Grant`](crate::grant::Grant) of the client's token; `None`: tokens are not required.
    pub grant: Option<&'a [u8]>,
    /// The state that the last node sent; `None` for a client without admission.
    pub state: Option<&'a [u8]>,
    /// Cause of the socket's end: the session needs its last outcomes. It stays resumable unless
    /// the cause is `Left` or it ends with its socket. `None`: the socket is open or not yet open.
    pub cause: Option<DetachReason>,
    /// Rates that the client had used at this edge when its socket ended.
    pub debts: RateDebts,
}

impl<'a> Attach<'a> {
    /// Creates the first attach of a newcomer without a token, which is not reliable.
    pub fn newcomer(slot: Slot, session: SessionId, client_id: &'a str, socket: SocketId) -> Self {
        Self { slot, session, client_id, socket, attachment: 1, ..Self::default() }
    }
}

/// Reason why the edge did not write a downlink message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cfg_attr(test, derive(arbitrary::Arbitrary))]
pub enum Unwritten {
    /// Never written to the client's socket, and never will be.
    Skipped,
    /// An earlier message of the sender is missing: retransmit in order.
    Gap,
    /// The client's output or deduplicator is full. The message may be sent again later.
    NoRoom,
}

/// Reason why a session leaves its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cfg_attr(test, derive(arbitrary::Arbitrary))]
pub enum DetachReason {
    /// The client closed with 1000, its dialect ended the session, or it was kicked.
    Left,
    /// The socket broke, closed with another code, or is at a lost edge. The client may resume.
    Lost,
    /// The edge closed the socket. The client may resume.
    Closed,
}

/// The outcome of an uplink frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cfg_attr(test, derive(arbitrary::Arbitrary))]
pub enum DeliveryOutcome {
    /// A signal is delivered, another request is carried out, or a later frame of the same message
    /// gets the outcome.
    Done,
    /// A signal without a confirmed delivery is given up. The reply is the `error`.
    Unavailable,
    /// The node refuses the request. The reply is the `error`.
    Refused,
}

/// Frames from edge to node.
#[expect(clippy::large_enum_variant, reason = "few frames are read at a time")]
#[derive(Debug, Clone, PartialEq, Eq, Encode, BorrowDecode)]
#[cfg_attr(test, derive(arbitrary::Arbitrary))]
pub enum ToNode<'a> {
    /// Asks the node to serve a session.
    Attach(Attach<'a>),
    /// A message of the client.
    Up {
        /// The session's slot.
        slot: Slot,
        /// Its number, rising by one per session.
        seq: Seq,
        /// Its remaining TTL.
        ttl: RemainingTtl,
        /// JSON text.
        payload: &'a [u8],
    },
    /// Confirms all `Down`s up to `up_to`: taken by the socket, or received by a reliable client.
    Confirm {
        /// The session's slot.
        slot: Slot,
        /// The last number.
        up_to: DownSeq,
        /// Numbers since the last `Confirm` that were not written, with the reasons.
        exceptions: Vec<(DownSeq, Unwritten)>,
    },
    /// The session is over, or has lost its socket.
    Detach {
        /// The session's slot.
        slot: Slot,
        /// The cause.
        cause: DetachReason,
        /// As in [`Attach`].
        debts: RateDebts,
    },
    /// A handoff: the node stops routing for the session, and forwards messages for it to `to`.
    Release {
        /// The session's slot.
        slot: Slot,
        /// Name of the next node.
        to: &'a str,
    },
    /// Answers `Probe`: the client's socket is alive.
    Alive {
        /// The session's slot.
        slot: Slot,
    },
    /// Answers `Prove`: the newcomer's client has answered a Ping.
    Proved {
        /// The newcomer's slot.
        slot: Slot,
        /// Id of the client.
        client_id: &'a str,
    },
    /// Replaces the session's grant, after a new token.
    Grant {
        /// The session's slot.
        slot: Slot,
        /// As in [`Attach`].
        grant: &'a [u8],
    },
    /// A kick of a client. An edge sends all known kicks on a new trunk, and then each kick that an
    /// operator requests at this edge.
    Kicked {
        /// Id of the client, or subject of tokens.
        name: &'a str,
        /// Time in seconds since 1970. Tokens issued up to then are rejected.
        at: u64,
    },
    /// Answers `StatusRequest`.
    Status {
        /// The report of the edge's server as JSON, at most 64 KiB.
        report: &'a [u8],
    },
    /// The time of the TTLs behind it, up to the next `Clock`: each is the rest at that time. A
    /// batch with TTLs has one in front of them.
    Clock {
        /// Time since the edge began to open the trunk.
        elapsed: Elapsed,
        /// The edge's [`Counter`](crate::Counter).
        counter: u64,
    },
}

/// Frames from node to edge.
#[derive(Debug, Clone, PartialEq, Eq, Encode, BorrowDecode)]
#[cfg_attr(test, derive(arbitrary::Arbitrary))]
pub enum ToEdge<'a> {
    /// The node serves the session from now on.
    Attached {
        /// The session's slot.
        slot: Slot,
        /// The session; an older one after a resume.
        session: SessionId,
        /// Rank of its socket, for each later attach.
        rank: Rank,
        /// `true` if it continues an earlier socket's session.
        resumed: bool,
        /// Number of the latest uplink frame at any node. An edge that keeps no frame continues
        /// after it.
        seq: Seq,
        /// Rates that the client had used at the edge of its earlier socket.
        debts: RateDebts,
        /// The hold time at this node: the TTL of new messages.
        hold: RemainingTtl,
        /// Text for the client: `welcome` for a newcomer, else `moved` if nodes are revealed, or
        /// empty.
        greeting: &'a [u8],
        /// State for the next node; opaque to the edge.
        state: &'a [u8],
    },
    /// The node does not serve the session. The edge refuses a client that waits for admission, and
    /// assigns another session anew.
    Rejected {
        /// The session's slot.
        slot: Slot,
        /// HTTP status of the refusal. By 409 an open socket closes with 4410.
        status: u16,
        /// Error code, such as `client_id_in_use`.
        code: &'a str,
        /// Human-readable reason.
        message: &'a str,
        /// Milliseconds after which a new attempt may succeed. `None`: no wait is known to help.
        retry_after_ms: Option<u32>,
    },
    /// The outcome of `count` uplink frames from `first` on.
    Outcomes {
        /// The session's slot.
        slot: Slot,
        /// Number of the first frame.
        first: Seq,
        /// Number of consecutive frames.
        count: u32,
        /// Outcome of each frame.
        outcome: DeliveryOutcome,
        /// JSON text for the client, only if `count` is 1; empty for none.
        reply: &'a [u8],
    },
    /// A message for the client.
    Down {
        /// The session's slot.
        slot: Slot,
        /// Its number in this attachment, from 1 on.
        down_seq: DownSeq,
        /// Name of another client's message; `None` for a message of the node itself.
        origin: Option<Origin>,
        /// Number of the sender's previous message to this client that is pending. 0: none.
        prev_pending: MessageNumber,
        /// Its remaining TTL. It has no effect on a message of the node itself.
        ttl: RemainingTtl,
        /// JSON text that ends in `}`.
        payload: &'a [u8],
    },
    /// Close the client's socket.
    Close {
        /// The session's slot.
        slot: Slot,
        /// WebSocket close code.
        code: u16,
        /// Human-readable reason.
        reason: &'a str,
    },
    /// Answers `Release`, after all `Down`s.
    Released {
        /// The session's slot.
        slot: Slot,
        /// State for the next node; empty if there is none.
        state: &'a [u8],
    },
    /// The rank of the session's socket has changed.
    Ranked {
        /// The session's slot.
        slot: Slot,
        /// As in `Attached`.
        rank: Rank,
    },
    /// The session's state has changed.
    SessionState {
        /// The session's slot.
        slot: Slot,
        /// State for the next node.
        state: &'a [u8],
    },
    /// The node drains: hand its sessions off.
    Draining,
    /// Asks for `Alive` within 2 s, if the client's socket answers.
    Probe {
        /// The session's slot.
        slot: Slot,
    },
    /// Asks for `Proved` of a newcomer that has shown its right to the id of another open socket:
    /// the edge upgrades it and pings it. `Detach` ends its wait.
    Prove {
        /// The newcomer's slot.
        slot: Slot,
    },
    /// The node serves again after `Draining`.
    Serving,
    /// A kick of a client. A node sends all known kicks on a new trunk, and then each new one
    /// except to the edge that reported it.
    Kicked {
        /// Id of the client, or subject of tokens.
        name: &'a str,
        /// Time in seconds since 1970. Tokens issued up to then are rejected.
        at: u64,
        /// `true` if an operator kicks the client at this node now. Otherwise only sockets whose
        /// tokens were issued up to `at` close.
        at_once: bool,
    },
    /// Asks for `Status`, for operators. Nodes connect to no edge.
    StatusRequest,
    /// The time of the TTLs behind it, as [`ToNode::Clock`].
    Clock {
        /// Time since the node accepted the trunk.
        elapsed: Elapsed,
        /// The node's [`Counter`](crate::Counter).
        counter: u64,
    },
    /// Takes the edge's server out of service for an operator, or returns it to service. Each has
    /// no effect on a server in that state.
    SetDrained {
        /// `true` to take it out of service.
        drained: bool,
    },
}

impl ToEdge<'_> {
    /// Returns the slot of the frame's session. `None`: the frame is about no session.
    pub fn slot(&self) -> Option<Slot> {
        match *self {
            Self::Attached { slot, .. }
            | Self::Rejected { slot, .. }
            | Self::Outcomes { slot, .. }
            | Self::Down { slot, .. }
            | Self::Close { slot, .. }
            | Self::Released { slot, .. }
            | Self::Ranked { slot, .. }
            | Self::SessionState { slot, .. }
            | Self::Probe { slot }
            | Self::Prove { slot } => Some(slot),
            Self::Clock { .. }
            | Self::Draining
            | Self::Serving
            | Self::Kicked { .. }
            | Self::StatusRequest
            | Self::SetDrained { .. } => None,
        }
    }
}

codec::frames!(ToNode);
codec::frames!(ToEdge);
