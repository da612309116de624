//! Operations on a room and their results. Nodes create them, and `room` applies them.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use signaling_protocol::{ClientId, NodeId, RoomName, limits};
use signaling_wire::{Rank, SessionId, SocketId};

use crate::{LeftReason, SeatAttachment};

/// Number of an operation by which a node ends a socket's seats. It is above all commands.
pub(crate) const SOCKET_END: u64 = limits::MAX_REQUEST_ID + 1;

/// Requester of an operation: a client's session at a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requester {
    /// Id of the client.
    pub client: ClientId,
    /// Its session. Of two sessions of a client the later counts, by `rank`, then by id.
    pub session: SessionId,
    /// The session's socket. Zeros: unknown.
    pub socket: SocketId,
    /// Rank of the socket.
    pub rank: Rank,
    /// Rises with each attachment to a node and each [`Operation::Drop`] of the node.
    pub attachment: u64,
    /// Number of the command in its session, rising, at most 2^53 - 1. A repetition keeps it.
    pub number: u64,
    /// The node that serves the session.
    pub node: NodeId,
}

impl Requester {
    /// Returns the attachment of the session.
    pub(crate) fn at(&self) -> SeatAttachment {
        SeatAttachment { rank: self.rank, attachment: self.attachment, socket: self.socket }
    }
}

/// A client's seat in a room. The owner keeps it, the node of the client keeps a copy, and
/// [`Operation::Claim`] and [`Operation::Restore`] compare the two. Between nodes it travels as
/// [`SeatState`](signaling_wire::seats::SeatState).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seat {
    /// The session that has the seat, with the number of its last command about the room.
    pub requester: Requester,
    /// Member or waiting. [`Operation::Claim`] ignores it; [`Operation::Restore`] only renews
    /// another status.
    pub status: SeatStatus,
    /// JSON that the other members see. `None`: the client gave none.
    pub data: Option<Box<str>>,
}

/// Status of a client in a room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SeatStatus {
    /// A member of the room.
    Member {
        /// Above the places of all members before it. Survives a loss of the room.
        place: u64,
    },
    /// In the waiting queue.
    Waiting {
        /// Above the places of all clients ahead of it. Survives a loss of the room.
        place: u64,
        /// Number of waiting clients ahead of it in an [`OpResult`]; 0 where no result set it.
        ahead: u64,
    },
    /// The client left, its seat ended or was not restored, or another session of it has the seat.
    /// The reason is that of the last seat, as long as the client is remembered.
    Out(LeftReason),
    /// The owner lacks the client's last command, or has no record of it: the client never joined,
    /// found the queue full, or is forgotten.
    Unknown,
}

impl SeatStatus {
    /// Returns `true` for a member.
    pub fn is_member(self) -> bool {
        matches!(self, Self::Member { .. })
    }

    /// Returns the place of a member or waiting client. 0 for another one.
    pub(crate) fn place(self) -> u64 {
        match self {
            Self::Member { place } | Self::Waiting { place, .. } => place,
            Self::Out(_) | Self::Unknown => 0,
        }
    }

    /// Returns `true` for a member or waiting client.
    pub fn is_present(self) -> bool {
        self.is_member() || self.is_waiting()
    }

    /// Returns the reason of a client whose seat an operator ended.
    pub fn end_by_operator(self) -> Option<LeftReason> {
        if let Self::Out(reason) = self { Some(reason).filter(|reason| reason.is_by_operator()) } else { None }
    }

    /// Returns `true` if the client is in the waiting queue.
    pub fn is_waiting(self) -> bool {
        matches!(self, Self::Waiting { .. })
    }
}

/// An operation on one room. Each also expires unclaimed seats and admits waiting clients. A
/// command of an earlier session of the client has no effect, and a repeated one no second effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Operation {
    /// Admits a client to the room, else to the waiting queue, or to neither if the queue is full.
    /// A present client keeps its place; the other members receive its new data.
    Join {
        /// The session that joins.
        requester: Requester,
        /// JSON that the other members see; `None` keeps the value of a present client.
        data: Option<Box<str>>,
        /// Capacity that the client's token sets (0: no limit). It leaves with the room's last
        /// seat. `None`: the room's capacity stays.
        capacity: Option<u32>,
    },
    /// Removes a client from the room or its waiting queue.
    Leave {
        /// The session that leaves.
        requester: Requester,
    },
    /// Ends a session's seat, as its rights have changed. No effect if another session has the
    /// seat, or if the session's node had not seen its last command or attachment.
    Revoke {
        /// The session, with the number of its last command about the room.
        requester: Requester,
    },
    /// Ends a session at its node. Its seat expires after `keep`. No effect if another session has
    /// the seat, or the session is at another node since.
    Drop {
        /// The session that has ended.
        requester: Requester,
        /// Time until the seat expires.
        keep: Duration,
    },
    /// Claims present seats, and moves each to its requester's session and node.
    Claim {
        /// Seats at one node. Empty: the operation only expires and admits clients.
        seats: Vec<Seat>,
    },
    /// Gives seats back that the room has lost, also above the capacity and without a join event.
    ///
    /// A room with a capacity then admits no client until all nodes have had time to restore: 5 s
    /// after the last restored seat. A seat that is later than the record of the client replaces
    /// it, since the room has lost the command that made the seat. No effect without evidence of a
    /// loss: if the session left since, has a later attachment, or has no record in the same
    /// incarnation.
    Restore {
        /// Seats at one node.
        seats: Vec<Seat>,
        /// Incarnation and epoch of the room that confirmed these seats last. 0: unknown. An owner
        /// without that epoch begins a new incarnation.
        confirmed_in: (u64, u64),
        /// The highest version of the room that the node has received.
        version: u64,
        /// The room's own capacity at the node (0: no limit). `None`: the node knows of none. An
        /// owner that has none takes it while seats may be missing.
        capacity: Option<u32>,
    },
    /// Lists one page of members, oldest first.
    List {
        /// Last client of the previous page. `None`, or one not remembered: from the oldest member.
        after: Option<ClientId>,
    },
    /// Reports the status of a client, in any session.
    Find {
        /// Id of the client.
        client: ClientId,
    },
    /// Ends a client's seat as a member or in the waiting queue, in any session, for an operator.
    Remove {
        /// Id of the client.
        client: ClientId,
        /// Time for which its joins are refused, in place of a former one. `None`: it can join, and
        /// a former time stays.
        block: Option<Duration>,
    },
    /// Ends the block of a client.
    Unblock {
        /// Id of the client.
        client: ClientId,
    },
    /// Refuses joins and ends all seats, at most [`Rules::ended_at_once`](crate::Rules) now. Those
    /// of the waiting queue end last. Further operations end the others.
    Close {
        /// Time for which the room stays closed, in place of a former one. `None`: until
        /// [`Operation::Open`], or 24 h after the last operation on it.
        time: Option<Duration>,
    },
    /// Opens the room, as soon as all seats that it had when it was closed have ended.
    Open,
    /// Sets the room's own capacity (0: no limit), which stays after its last seat; `None` removes
    /// it.
    SetCapacity {
        /// Maximum members. Present members stay.
        capacity: Option<u32>,
    },
}

impl Operation {
    /// Returns `true` if it may change which clients an operator keeps out.
    pub(crate) fn changes_bans(&self) -> bool {
        matches!(self, Self::Remove { block: Some(_), .. } | Self::Unblock { .. } | Self::Close { .. } | Self::Open)
    }

    /// Returns the highest number of a counter in the operation.
    pub(crate) fn highest_number(&self) -> u64 {
        let of = |seat: &Seat| seat.requester.rank.0.max(seat.status.place());
        match self {
            Self::Join { requester, .. }
            | Self::Leave { requester }
            | Self::Revoke { requester }
            | Self::Drop { requester, .. } => requester.rank.0,
            Self::Claim { seats } => seats.iter().map(of).fold(0, u64::max),
            Self::Restore { seats, confirmed_in: (incarnation, epoch), version, .. } => {
                seats.iter().map(of).chain([*incarnation, *epoch, *version]).fold(0, u64::max)
            }
            Self::List { .. }
            | Self::Find { .. }
            | Self::Remove { .. }
            | Self::Unblock { .. }
            | Self::Close { .. }
            | Self::Open
            | Self::SetCapacity { .. } => 0,
        }
    }
}

/// A request had no result, with the reason for operators and logs: the owner does not answer, or
/// there are too many requests of operators. The operation may have been applied; a repetition is
/// not applied twice.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the room is unavailable: {0}")]
pub struct Unavailable(pub Box<str>);

/// An operation and the room that it is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The room.
    pub room: RoomName,
    /// The operation.
    pub op: Operation,
}

/// A change of the members that is announced to them. Each one raises the room's version by one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Change {
    /// A new member, or a member with new data.
    Joined(Member),
    /// A member left.
    Left {
        /// Id of the former member.
        client: ClientId,
        /// Reason for leaving.
        reason: LeftReason,
    },
}

impl Change {
    /// Returns the id of the client that joined, changed its data or left.
    pub fn client(&self) -> &ClientId {
        match self {
            Self::Joined(member) => &member.client,
            Self::Left { client, .. } => client,
        }
    }
}

/// A member as the other members see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Id of the client.
    pub client: ClientId,
    /// JSON, as the member gave it. `None`: none.
    pub data: Option<Box<str>>,
}

/// Identifies a state of a room. Versions of different incarnations cannot be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stamp {
    /// Identifies a history of the room, see [`OpResult::incarnation`]. 0: none.
    pub incarnation: u64,
    /// Rises with each change, see [`OpResult::version`].
    pub version: u64,
}

/// Reason why an operation had no effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum OpRefusal {
    /// Rooms have no bytes left. Other fields of the result can have their defaults.
    NoBytes,
    /// An operator has blocked the client that joins.
    Blocked {
        /// Time until the block ends.
        rest: Duration,
    },
    /// The room has its maximum of blocked clients.
    TooManyBlocks,
    /// An operator has closed the room that the client joins.
    Closed {
        /// Time until it opens, at least 1 s. `None`: it has no end.
        rest: Option<Duration>,
    },
}

/// Result of an operation.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct OpResult {
    /// Changes when operations of this room may be lost: the room was made anew, or its owner lacks
    /// operations. 0: the room never had a change, or is not known.
    pub incarnation: u64,
    /// Epoch of the owner and backup that carried out the operation. 0: not set yet.
    pub epoch: u64,
    /// The epoch whose state that epoch continues. 0: none, or not set yet.
    pub base: u64,
    /// The room's version now: it rises with each change, and with a restored member. Of a room
    /// with incarnation 0, its epoch.
    pub version: u64,
    /// Maximum members; `None`: no limit.
    pub capacity: Option<u32>,
    /// Number of members.
    pub count: u64,
    /// Number of waiting clients.
    pub waiting: u64,
    /// Changes to announce to the members; the last one made `version`.
    pub changes: Vec<Change>,
    /// Members that receive `changes`, without the first session of `statuses`. An owner's result
    /// has it, but no changes.
    pub informed: u64,
    /// `true` if the operation created the room: its first record, in a room that had no version.
    pub created: bool,
    /// Reason why a join or removal had no effect. `None`: it was carried out.
    pub refused: Option<OpRefusal>,
    /// Rank of the client's last operation, which is above that of a join or leave. It had no
    /// effect. `None`: the operation is no such one.
    pub outranked: Option<Rank>,
    /// Number of blocked clients.
    pub blocks: u64,
    /// `true` if the room is closed.
    pub closed: bool,
    /// Time until it opens, at least 1 s. `None`: it is open, or the closure has no end.
    pub closed_for: Option<Duration>,
    /// `true` if waiting clients may have moved up.
    pub queue_moved: bool,
    /// Nodes that serve members or waiting clients, or served those whose seats an operator ended,
    /// by name. Empty if there is nothing to announce.
    pub nodes: Vec<NodeId>,
    /// Status of each session that the operation names, in its order; `Find` and `Remove` name any
    /// session of a client. Empty for operations on the whole room.
    pub statuses: Vec<SeatStatus>,
    /// One page of members, oldest first, for `List` and for a `Join` whose client is a member now.
    pub members: Vec<Member>,
    /// `true` if further members follow.
    pub more: bool,
    /// `true` if members may be missing: the room was lost, and not all nodes have had time to
    /// restore their seats.
    pub settling: bool,
}

impl OpResult {
    /// Returns the state of the room after the operation.
    pub fn stamp(&self) -> Stamp {
        Stamp { incarnation: self.incarnation, version: self.version }
    }

    /// Returns the highest number of a counter in the result.
    pub(crate) fn highest_number(&self) -> u64 {
        let places = self.statuses.iter().map(|status| status.place());
        let outranked = self.outranked.unwrap_or_default().0;
        places.chain([self.incarnation, self.epoch, self.base, self.version, outranked]).fold(0, u64::max)
    }
}
