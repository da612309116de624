//! Batches between nodes, in a [`lane`](crate::lane): the number of the batch, then [`Item`]s. The
//! node's core writes and executes them.

use bincode::{BorrowDecode, Decode, Encode};

use crate::codec::{self, DecodeError};
use crate::seats::{RoomChange, SeatState};
use crate::{BatchNumber, Credential, MessageNumber, Origin, RemainingTtl, RoomRequestId, Seq, SessionId};

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
    /// Number of the sender's previous pending message to this recipient. 0: none.
    pub prev_pending: MessageNumber,
    /// Its remaining TTL.
    pub ttl: RemainingTtl,
    /// `true` if it can be held for an absent recipient.
    pub may_hold: bool,
    /// `true` if it may be a retransmission. An outcome that is on its way back answers it.
    pub retransmitted: bool,
    /// The message's outbound queue, returned with the outcome.
    pub queue_id: QueueId,
    /// Names of the nodes before the sender of this batch, the message's own node first.
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
    /// Never written to that socket, and never will be. Final.
    Skipped,
    /// An earlier message is missing, or the holder gives it up: retransmit now.
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
        /// Nodes ahead, the message's own node first; empty if this batch goes to that node.
        via: Vec<&'a str>,
    },
    /// Messages of a queue are held at this batch's sender, or lack room. Retransmit them late.
    Held {
        /// Queue of the messages.
        queue_id: QueueId,
        /// Nodes ahead, as for an outcome.
        via: Vec<&'a str>,
    },
    /// The sender of this batch redirects a queue. Its held messages here are not needed any more.
    Forget {
        /// Client id of the queue's recipient.
        to: &'a str,
        /// Queue of the messages.
        queue_id: QueueId,
    },
    /// Reports to the owner of a client that the client is attached at the sender, or not any more.
    Located {
        /// Id of the client.
        client_id: &'a str,
        /// The client's session.
        session: SessionId,
        /// Time at which the session's socket was accepted, in microseconds since 1970. The later
        /// one stays.
        accepted_at_us: u64,
        /// `true`: the client is attached at the sender of this batch. `false`: not any more.
        here: bool,
    },
    /// A lingering session, for the owner of its client.
    Lingering {
        /// Id of the client.
        client_id: &'a str,
        /// The client's session.
        session: SessionId,
        /// Time at which its last socket was accepted, in microseconds since 1970.
        accepted_at_us: u64,
        /// Number of its latest uplink frame.
        seq: Seq,
        /// The client's credential. `None`: it has none.
        credential: Option<Credential>,
        /// First and last `id` of each run of its delivered signals, ascending.
        delivered: Vec<(u64, u64)>,
        /// Time in which it can be resumed.
        ttl: RemainingTtl,
    },
    /// Requests a session whose ownership its client has proven at the sender of this batch.
    RequestSession {
        /// Id of the client.
        client_id: &'a str,
        /// The requested session.
        session: SessionId,
        /// Time at which its new socket was accepted, in microseconds since 1970. An older one must
        /// close.
        accepted_at_us: u64,
    },
    /// The seats of a lingering session, directly after its `Lingering`.
    Seats {
        /// Id of the client.
        client_id: &'a str,
        /// The client's session.
        session: SessionId,
        /// Time at which its last socket was accepted, in microseconds since 1970.
        accepted_at_us: u64,
        /// Its turn at the sender of this batch, see `signaling_rooms::Requester`.
        turn: u64,
        /// One seat for each of its rooms.
        seats: Vec<SeatState<'a>>,
    },
    /// Changes of a room with members at the receiver of this batch.
    RoomChanged {
        /// Name of the room.
        room: &'a str,
        /// Incarnation of its state. A new one means that the store may have lost changes.
        incarnation: u64,
        /// Epoch of its owner and backup. 0: the room is in a store.
        epoch: u64,
        /// Its version after the changes; each change raises it by one.
        version: u64,
        /// The changes, in order.
        changes: Vec<RoomChange<'a>>,
        /// `true` if waiting clients have new positions.
        queue_moved: bool,
    },
    /// An operation on a room, for the room's owner.
    RoomRequest {
        /// Number of the request at the sender of this batch, returned with the result.
        id: RoomRequestId,
        /// Name of the room.
        room: &'a str,
        /// The highest epoch of the room that the requesting node has seen. 0: none.
        epoch: u64,
        /// The operation, as [`codec::to_bytes`] writes it.
        op: &'a [u8],
    },
    /// The result of an operation on a room.
    RoomResult {
        /// Number of the request at the receiver of this batch.
        id: RoomRequestId,
        /// The result, as [`codec::to_bytes`] writes it.
        result: &'a [u8],
    },
    /// An operation that a room's owner has applied, for the room's backup.
    RoomLog {
        /// Name of the room.
        room: &'a str,
        /// Place of the operation in the room's log.
        at: LogPosition,
        /// Time of the operation, in milliseconds since 1970.
        now: u64,
        /// The operation, as [`codec::to_bytes`] writes it.
        entry: &'a [u8],
        /// Node that requested it, and its number there. `None`: the owner itself, which needs no
        /// result.
        requester: Option<(&'a str, RoomRequestId)>,
    },
    /// A part of a copy of a room, for its owner or backup. The parts of a copy follow each other.
    RoomCopy {
        /// Name of the room.
        room: &'a str,
        /// The last log entry in the copy.
        at: LogPosition,
        /// Number of bytes before this part.
        offset: u64,
        /// Bytes of the room, as [`codec::to_bytes`] writes it.
        part: &'a [u8],
        /// `true` for the last part.
        last: bool,
    },
    /// Answer of a backup: it has the copy that begins an epoch, or refuses the log of that epoch.
    RoomCopied {
        /// Name of the room.
        room: &'a str,
        /// The epoch.
        epoch: u64,
        /// `false`: the backup follows another node, or lacks an operation.
        accepted: bool,
    },
    /// The receiver's copy of a room is not needed any more if its epoch is earlier.
    RoomRetired {
        /// Name of the room.
        room: &'a str,
        /// The epoch.
        epoch: u64,
    },
    /// Asks the receiver to claim the seats of its sessions in the room with this name, which the
    /// sender took over.
    ClaimSeats(&'a str),
    /// Asks whether the receiver has this view, and for its copies of the sender's rooms.
    ViewQuery {
        /// Hash of the view's nodes and of which of them drain.
        view: u64,
        /// Number of the query at the sender of this batch.
        query: u64,
        /// Number of views that the sender has adopted.
        adoption: u64,
    },
    /// The sender of this batch has the view of a query. Its copies came before.
    ViewConfirmed {
        /// Number of the query.
        query: u64,
        /// Number of views that the sender has adopted.
        adoption: u64,
        /// Rooms of the receiver in which clients of the sender have seats.
        rooms: Vec<&'a str>,
        /// `false` if further rooms follow.
        last: bool,
    },
    /// One message for several recipients at the receiver of this batch.
    Copies {
        /// The message, to the first of them.
        envelope: Envelope<'a>,
        /// The other recipients.
        others: Vec<Recipient<'a>>,
    },
}

/// Place of an operation in the log of a room. A new owner or another backup begins an epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Encode, Decode)]
#[cfg_attr(test, derive(arbitrary::Arbitrary))]
pub struct LogPosition {
    /// Rises with each change of owner or backup.
    pub epoch: u64,
    /// Number of log entries in the epoch so far, and of the copy that begins it, if one does.
    pub number: u64,
}

/// Another recipient of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, BorrowDecode)]
#[cfg_attr(test, derive(arbitrary::Arbitrary))]
pub struct Recipient<'a> {
    /// Client id of the recipient.
    pub to: &'a str,
    /// Number of the sender's previous pending message to this recipient. 0: none.
    pub prev_pending: MessageNumber,
    /// The message's outbound queue for this recipient, returned with the outcome.
    pub queue_id: QueueId,
}

/// Starts a batch: appends its number to `out`.
pub fn start(out: &mut Vec<u8>, number: BatchNumber) {
    codec::append(out, &number);
}

/// Reads the number of a batch. `bytes` then starts at the first item.
///
/// # Errors
/// If the number is damaged.
pub fn open(bytes: &mut &[u8]) -> Result<BatchNumber, DecodeError> {
    codec::take(bytes)
}

codec::frames!(Item);
