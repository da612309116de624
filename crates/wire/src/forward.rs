//! Batches between nodes, in a [`lane`](crate::lane): the number and the time of the batch, then
//! [`Item`]s. The node's core writes and executes them. TTLs count from the time of their batch.

use std::time::Duration;

use bincode::{BorrowDecode, Decode, Encode};

use crate::codec::{self, DecodeError};
use crate::seats::{RoomChange, SeatState};
use crate::{
    BatchNumber, Credential, Elapsed, MessageNumber, Origin, Rank, RateDebts, RemainingTtl, RoomRequestId, Seq,
    SessionId, SocketId,
};

/// Id of an envelope's outbound queue at the node of its sender. It means nothing to other nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Encode, Decode)]
#[cfg_attr(test, derive(arbitrary::Arbitrary))]
pub struct QueueId(pub u64);

/// A message on its way to the node of its recipient.
#[derive(Debug, Clone, PartialEq, Eq, Encode, BorrowDecode)]
#[cfg_attr(test, derive(arbitrary::Arbitrary))]
pub struct Envelope<'a> {
    /// Client id of the recipient.
    pub to: &'a str,
    /// The sender's session and the message's number in it, which identify the message.
    pub origin: Origin,
    /// Number of the sender's previous message to this recipient that is pending and not expired.
    /// 0: none.
    pub prev_pending: MessageNumber,
    /// Its remaining TTL.
    pub ttl: RemainingTtl,
    /// `false` if it expires at once where its recipient is absent: the client set `ttl_ms` to 0.
    pub may_hold: bool,
    /// `true` if it may be a retransmission. An outcome that is on its way back answers it.
    pub retransmitted: bool,
    /// The message's outbound queue, returned with the outcome.
    pub queue_id: QueueId,
    /// Names of the nodes before the sender of this batch, the node of the message's sender first.
    /// Empty: that node sends the batch.
    pub via: Vec<&'a str>,
    /// JSON text for the recipient.
    pub payload: &'a [u8],
}

/// The outcome of an envelope.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Encode, Decode)]
#[cfg_attr(test, derive(arbitrary::Arbitrary))]
pub enum EnvelopeOutcome {
    /// Written to the recipient's socket, or received by a reliable recipient. Final.
    Written,
    /// Never written to the recipient's socket, and never will be. Final.
    Skipped,
    /// An earlier message is missing, or the reporting node cannot deliver or hold it: retransmit
    /// without the usual wait.
    Retransmit,
    /// Its TTL ended at the node that reports it. Another copy may still be delivered.
    Expired,
}

impl EnvelopeOutcome {
    /// Returns `true` if the outcome cannot change.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Written | Self::Skipped)
    }
}

/// One entry of a batch.
#[derive(Debug, Clone, PartialEq, Eq, Encode, BorrowDecode)]
#[cfg_attr(test, derive(arbitrary::Arbitrary))]
pub enum Item<'a> {
    /// A message to deliver, relay or hold.
    Envelope(Envelope<'a>),
    /// The outcome of an envelope, on its way back.
    Outcome {
        /// Queue of the envelope.
        queue_id: QueueId,
        /// Number in the envelope's origin.
        number: MessageNumber,
        /// Outcome of the envelope.
        outcome: EnvelopeOutcome,
        /// Nodes ahead, the node of the message's sender first; empty if this batch goes to it.
        via: Vec<&'a str>,
    },
    /// Messages of a queue are held at the node that reports it, or lack room there. The node of
    /// their sender retransmits them after 5 s instead of 2 s.
    Held {
        /// Queue of the messages.
        queue_id: QueueId,
        /// Nodes ahead, as in `Outcome`.
        via: Vec<&'a str>,
    },
    /// The sender of this batch redirects a queue. The receiver drops the held messages of it.
    Forget {
        /// Client id of the queue's recipient.
        to: &'a str,
        /// Queue of the messages.
        queue_id: QueueId,
    },
    /// Reports that a client is attached at the sender of this batch, or not any more: to its owner
    /// and a stand-in, or to a node that reported an older socket.
    Located {
        /// Id of the client.
        client_id: &'a str,
        /// The client's attachment to the sender of this batch.
        attachment: Attachment,
        /// `true`: the client is attached at the sender of this batch. `false`: not any more.
        here: bool,
    },
    /// A lingering session, for the owner of its client, or a node that sent `RequestSession`.
    Lingering {
        /// Id of the client.
        client_id: &'a str,
        /// Its last attachment.
        attachment: Attachment,
        /// Number of its latest known uplink frame.
        seq: Seq,
        /// The client's credential. `None`: it has none.
        credential: Option<Credential>,
        /// First and last `id` of each run of its delivered signals, ascending, at most 8 runs.
        /// Empty for a plain client.
        delivered: Vec<(u64, u64)>,
        /// Rates that the client had used at the edge of its last socket.
        debts: RateDebts,
        /// Time in which it can be resumed.
        ttl: RemainingTtl,
    },
    /// Requests a session whose ownership its client has proven at the sender of this batch.
    RequestSession {
        /// Id of the client.
        client_id: &'a str,
        /// The requested session.
        session: SessionId,
        /// Rank of its new socket. The receiver closes one with a lower rank with 4410.
        rank: Rank,
    },
    /// The seats of a lingering session, directly after its `Lingering`.
    Seats {
        /// Id of the client.
        client_id: &'a str,
        /// The client's session.
        session: SessionId,
        /// The session's last socket.
        socket: SocketId,
        /// Rank of that socket.
        rank: Rank,
        /// Number of its attachment at the sender of this batch: of seats with one socket the
        /// higher one counts. It rises with each attachment to a node.
        attachment: u64,
        /// One seat for each of its rooms.
        seats: Vec<SeatState<'a>>,
    },
    /// Changes of a room with seats of clients at the receiver of this batch.
    RoomChanged {
        /// Name of the room.
        room: &'a str,
        /// Incarnation of its state. A new one means that changes may be lost.
        incarnation: u64,
        /// Epoch of its owner and backup.
        epoch: u64,
        /// The epoch whose state that epoch continues. 0: none. A receiver that follows another one
        /// may have other changes with the same versions.
        base: u64,
        /// Its version after the changes; each change raises it by one.
        version: u64,
        /// The changes, in order. Empty: only the version is known, or the queue has moved.
        changes: Vec<RoomChange<'a>>,
        /// `true` if waiting clients have new positions.
        queue_moved: bool,
    },
    /// An operation on a room, for the room's owner. The sender repeats it until the result.
    RoomRequest {
        /// Number of the request at the sender of this batch, returned with the result.
        id: RoomRequestId,
        /// Name of the room.
        room: &'a str,
        /// The highest epoch of the room that the requesting node has seen. 0: none.
        epoch: u64,
        /// The operation, a `signaling_rooms::Operation` as [`codec::to_bytes`] writes it.
        op: &'a [u8],
    },
    /// The result of an operation on a room.
    RoomResult {
        /// Number of the request at the receiver of this batch.
        id: RoomRequestId,
        /// The result, a `signaling_rooms::OpResult` as [`codec::to_bytes`] writes it.
        result: &'a [u8],
    },
    /// An operation that a room's owner has applied, for the room's backup.
    RoomLog {
        /// Name of the room.
        room: &'a str,
        /// Place of the operation in the room's log.
        at: LogPosition,
        /// Room time of the operation, in ms.
        time: u64,
        /// The operation, or the loss of a node or of earlier operations, as [`codec::to_bytes`]
        /// writes it.
        entry: &'a [u8],
        /// Node that requested it, and its number there. `None`: the owner acts without a request,
        /// and no node needs the result.
        requester: Option<(&'a str, RoomRequestId)>,
    },
    /// A part of a copy of a room, for its owner or backup. The parts of a copy follow each other.
    RoomCopy {
        /// Name of the room.
        room: &'a str,
        /// The last log entry in the copy.
        at: LogPosition,
        /// The epoch whose state that of `at` continues. 0: none.
        base: u64,
        /// Room time at sending, in ms.
        time: u64,
        /// Number of bytes before this part.
        offset: u64,
        /// Bytes of the room, a `signaling_rooms::Room` as [`codec::to_bytes`] writes it.
        part: &'a [u8],
        /// `true` for the last part.
        last: bool,
    },
    /// Answer to the copy or log entry that begins an epoch, or the refusal of any log entry.
    RoomCopied {
        /// Name of the room.
        room: &'a str,
        /// The epoch.
        epoch: u64,
        /// What the sender of this batch made of it.
        answer: CopyAnswer,
    },
    /// The receiver's copy of a room is not needed any more if its epoch is earlier.
    RoomRetired {
        /// Name of the room.
        room: &'a str,
        /// The epoch.
        epoch: u64,
    },
    /// The sender of this batch has no bytes left for rooms, also as a backup.
    RoomsFull,
    /// Asks the receiver to claim the seats of its sessions in the room with this name, which the
    /// sender took over.
    ClaimSeats(&'a str),
    /// Asks whether the receiver has this view, and for its copies of the sender's rooms.
    ViewQuery {
        /// Hash of the view: ids, addresses and draining states of its nodes.
        view: u64,
        /// Number of the query at the sender of this batch.
        query: u64,
        /// Number of views that the sender of this batch has adopted since its start.
        adoption: u64,
    },
    /// The sender of this batch has the view of a query. Its copies came before.
    ViewConfirmed {
        /// Number of the query.
        query: u64,
        /// Number of views that the sender of this batch has adopted since its start.
        adoption: u64,
        /// Rooms of the receiver in which clients of the sender have seats.
        rooms: Vec<&'a str>,
        /// Nodes outside the view that may own rooms by an earlier one: the sender of this batch
        /// named them in acknowledgements of the last 2.5 s.
        former: Vec<&'a str>,
        /// `false` if further rooms follow.
        last: bool,
    },
    /// One message for several recipients at the receiver of this batch.
    Copies {
        /// The message, to the first recipient.
        envelope: Envelope<'a>,
        /// The other recipients, at least one.
        others: Vec<Recipient<'a>>,
    },
}

impl Item<'_> {
    /// Returns the highest number of a [`Counter`](crate::Counter) in the item, apart from those in
    /// encoded operations, results and rooms. 0: it has none.
    pub fn highest_number(&self) -> u64 {
        match *self {
            Self::Located { attachment, .. } | Self::Lingering { attachment, .. } => attachment.rank.0,
            Self::RequestSession { rank, .. } => rank.0,
            Self::Seats { rank, ref seats, .. } => seats.iter().map(SeatState::highest_number).fold(rank.0, u64::max),
            Self::RoomChanged { incarnation, epoch, base, version, .. } => {
                incarnation.max(epoch).max(base).max(version)
            }
            Self::RoomCopy { at: LogPosition { epoch, .. }, base, .. } => epoch.max(base),
            Self::RoomRequest { epoch, .. }
            | Self::RoomLog { at: LogPosition { epoch, .. }, .. }
            | Self::RoomCopied { epoch, .. }
            | Self::RoomRetired { epoch, .. } => epoch,
            _ => 0,
        }
    }

    /// Counts the time by which its batch is late: shortens its TTL, or adds it to the room time of
    /// a copy. A log entry keeps its time, at which both copies apply it.
    pub fn count_lateness(&mut self, late: Duration) {
        match self {
            Self::Envelope(envelope) | Self::Copies { envelope, .. } => envelope.ttl = envelope.ttl.less(late),
            Self::Lingering { ttl, .. } => *ttl = ttl.less(late),
            Self::RoomCopy { time, .. } => {
                *time = time.saturating_add(u64::try_from(late.as_millis()).unwrap_or(u64::MAX));
            }
            _ => {}
        }
    }
}

/// Attachment of a client to a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cfg_attr(test, derive(arbitrary::Arbitrary))]
pub struct Attachment {
    /// The client's session.
    pub session: SessionId,
    /// The session's socket.
    pub socket: SocketId,
    /// Rank of the socket. It can rise while the socket stays.
    pub rank: Rank,
    /// Number of the session's attachments with this socket, this one included.
    pub number: u32,
}

impl Attachment {
    /// Returns `true` if both are attachments of one socket.
    pub fn is_same_socket(self, other: Self) -> bool {
        self.socket == other.socket
    }

    /// Returns `true` if it is later than another attachment of the client: with the same socket by
    /// the number, else by the rank. Equal ranks, given by two nodes, have the order of the ids.
    pub fn is_later_than(self, other: Self) -> bool {
        match self.is_same_socket(other) {
            true => self.number > other.number,
            false => (self.rank, self.session, self.socket) > (other.rank, other.session, other.socket),
        }
    }
}

/// Answer of a backup to a copy or log entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, BorrowDecode)]
#[cfg_attr(test, derive(arbitrary::Arbitrary))]
pub enum CopyAnswer {
    /// It is the backup now.
    Accepted,
    /// It has another owner in its view, a later copy, or lacks an operation.
    Refused,
    /// It has no majority, or the owner has not confirmed its view. Nothing is known to be lost.
    NotNow,
}

/// Place of an operation in the log of a room. A new owner or another backup begins an epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Encode, Decode)]
#[cfg_attr(test, derive(arbitrary::Arbitrary))]
pub struct LogPosition {
    /// Rises with each change of owner or backup, by any amount.
    pub epoch: u64,
    /// Number of log entries in the epoch so far. A copy that begins the epoch counts as one.
    pub number: u64,
}

/// A recipient of a message after the first one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, BorrowDecode)]
#[cfg_attr(test, derive(arbitrary::Arbitrary))]
pub struct Recipient<'a> {
    /// Client id of the recipient.
    pub to: &'a str,
    /// As in [`Envelope`], for this recipient.
    pub prev_pending: MessageNumber,
    /// The message's outbound queue for this recipient, returned with the outcome.
    pub queue_id: QueueId,
}

/// Starts a batch: appends its number, and the time since its exchange began, to `out`.
pub fn start(out: &mut Vec<u8>, number: BatchNumber, elapsed: Elapsed) {
    codec::append(out, &(number, elapsed));
}

/// Reads the number of a batch, and the time since its exchange began. `bytes` then starts at the
/// first item.
///
/// # Errors
/// If one of them is damaged.
pub fn open(bytes: &mut &[u8]) -> Result<(BatchNumber, Elapsed), DecodeError> {
    codec::take(bytes)
}

codec::frames!(Item);

#[cfg(test)]
mod tests {
    use super::*;

    fn attachment(socket: u8, rank: u64, number: u32) -> Attachment {
        Attachment { session: SessionId([socket; 16]), socket: SocketId([socket; 8]), rank: Rank(rank), number }
    }

    #[test]
    fn attachments_of_one_socket_have_the_order_of_numbers() {
        // A node that admitted the socket before gave it a higher rank.
        let (first, second) = (attachment(1, 9, 1), attachment(1, 5, 2));
        assert!(second.is_later_than(first) && !first.is_later_than(second));
        let raised = attachment(1, 9, 2);
        assert!(!raised.is_later_than(second) && !second.is_later_than(raised), "it is the same attachment");
    }

    #[test]
    fn attachments_of_two_sockets_have_the_order_of_ranks() {
        let (former, later) = (attachment(2, 5, 7), attachment(1, 6, 1));
        assert!(later.is_later_than(former) && !former.is_later_than(later));
        let equal = attachment(3, 6, 1);
        assert!(equal.is_later_than(later) && !later.is_later_than(equal));
    }
}
