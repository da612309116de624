//! What can be asked of a room, and what comes of it.

use std::time::Duration;

use signaling_protocol::{ClientId, NodeId, RoomName};
use signaling_wire::SessionId;

/// Who asks: a session of a client, at a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Who {
    /// The client.
    pub client: ClientId,
    /// Its session. Of two sessions of one client the later counts: by `accepted_at_us`, then by its name.
    pub session: SessionId,
    /// When the session's socket was accepted, microseconds since 1970.
    pub accepted_at_us: u64,
    /// The number of the command in its session: one that is not above the last one known has been carried out before. At most
    /// 2^53 - 1.
    pub number: u64,
    /// The node that serves it.
    pub node: NodeId,
}

/// A place in a room that a node knows one of its sessions to have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seat {
    /// Who has it.
    pub who: Who,
    /// What it is.
    pub standing: SeatStatus,
    /// What the others are shown.
    pub data: Option<Box<str>>,
}

/// Where somebody stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SeatStatus {
    /// In the room.
    Member {
        /// Rises with the time of joining; survives a loss of the store.
        place: u64,
    },
    /// In the line.
    Waiting {
        /// Rises with the time of joining the line, likewise.
        place: u64,
        /// How many stand in front.
        ahead: u64,
    },
    /// Neither: left, expired, or another session of the client has the place.
    Out,
    /// The store has never heard of it, or has lost everything.
    Unknown,
}

/// What is asked of a room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    /// Let somebody in, or into the line; or say how things stand.
    Join {
        /// Who.
        who: Who,
        /// JSON that the others are shown; none: as before.
        data: Option<Box<str>>,
    },
    /// Let somebody out.
    Leave {
        /// Who.
        who: Who,
    },
    /// A session has ended at its node: the seat is kept for a while, unless another node has the session.
    Drop {
        /// Who.
        who: Who,
        /// For how long.
        keep: Duration,
    },
    /// These are still here.
    Refresh {
        /// All of one node.
        seats: Vec<Seat>,
    },
    /// The store has lost these: they get their places back, also above the capacity, without being shown as joining. If it has
    /// lost the whole room, the line stands for half of [`Rules::stale`](crate::Rules::stale), until all nodes have spoken. A seat
    /// that is later than what the store knows of the client replaces it: the store has lost the command that made it.
    Restore {
        /// All of one node.
        seats: Vec<Seat>,
        /// The version that the node knows of the room.
        version: u64,
    },
    /// List members, the oldest first.
    List {
        /// Begin behind this one.
        after: Option<ClientId>,
    },
    /// Say where a client stands, in whichever session.
    Find {
        /// Who.
        client: ClientId,
    },
    /// Give the room a capacity of its own (0: no limit), or take it away.
    SetCapacity {
        /// Most members. Nobody is put out.
        capacity: Option<u32>,
    },
}

/// An operation on a room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The room.
    pub room: RoomName,
    /// What is asked of it.
    pub op: Op,
}

/// Why somebody is no longer in a room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// It asked to.
    Left,
    /// Nothing was heard of it any more.
    Expired,
}

/// A change that the members are told of. Each raises the room's version by one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A new member, or one that shows something else.
    Joined(Member),
    /// A member less.
    Left {
        /// Who it was.
        client: ClientId,
        /// Why.
        reason: Reason,
    },
}

/// A member as the others see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Who.
    pub client: ClientId,
    /// JSON, as the member gave it.
    pub data: Option<Box<str>>,
}

/// A state of a room. Versions of different incarnations say nothing of each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stamp {
    /// See [`Outcome::incarnation`]. 0: none.
    pub incarnation: u64,
    /// See [`Outcome::version`].
    pub version: u64,
}

/// What came of an operation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Outcome {
    /// Changes when the store may have lost writes of this room: the room was made anew, or another
    /// server process serves it. 0: the store does not know the room.
    pub incarnation: u64,
    /// The room's version now: it rises with each change.
    pub version: u64,
    /// Most members; none: no limit.
    pub capacity: Option<u32>,
    /// How many members there are.
    pub count: u64,
    /// How many wait.
    pub waiting: u64,
    /// What the members must be told; the last one made `version`.
    pub changes: Vec<Change>,
    /// Whether those who wait have moved up.
    pub line_moved: bool,
    /// If anybody must be told anything: the nodes that serve members or waiting clients, by name.
    pub nodes: Vec<NodeId>,
    /// Where those stand whom the operation names, in its order.
    pub standings: Vec<SeatStatus>,
    /// To `Join` by a member, and `List`: members, the oldest first.
    pub members: Vec<Member>,
    /// Whether further members follow.
    pub more: bool,
    /// Whether members may be missing: the store had lost the room, or nobody could reach it, and not all nodes have had time to
    /// speak.
    pub settling: bool,
}

impl Outcome {
    /// The state that the room is in now.
    #[must_use]
    pub fn stamp(&self) -> Stamp {
        Stamp { incarnation: self.incarnation, version: self.version }
    }
}
