//! Batches between nodes: the number of the batch, and a run of [`Item`]s.

use bincode::{BorrowDecode, Decode, Encode};

use crate::codec::{self, DecodeError};
use crate::seats::{RoomChange, SeatState};
use crate::{BatchNumber, MessageNumber, Origin, RemainingTtl, Seq, SessionId};

/// The outbound queue of an envelope, at the node of its sender. Other nodes and incarnations do
/// not know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Encode, Decode)]
#[cfg_attr(test, derive(arbitrary::Arbitrary))]
pub struct QueueId(pub u64);

/// A message on its way to the node of its recipient.
#[derive(Debug, Clone, PartialEq, Eq, Encode, BorrowDecode)]
#[cfg_attr(test, derive(arbitrary::Arbitrary))]
pub struct Envelope<'a> {
    /// The recipient.
    pub to: &'a str,
    /// The name of the message.
    pub origin: Origin,
    /// The sender's previous pending number to this recipient, or 0.
    pub prev_pending: MessageNumber,
    /// Its remaining TTL.
    pub ttl: RemainingTtl,
    /// Whether it can be held for an absent recipient.
    pub may_hold: bool,
    /// Whether it may be a retransmission. An outcome that is on its way back answers it.
    pub retransmitted: bool,
    /// Returned with the outcome.
    pub queue_id: QueueId,
    /// Nodes before the sender of this batch, the message's own node first.
    pub via: Vec<&'a str>,
    /// JSON text for the recipient.
    pub payload: &'a [u8],
}

/// The outcome of an envelope.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Encode, Decode)]
#[cfg_attr(test, derive(arbitrary::Arbitrary))]
pub enum EnvelopeOutcome {
    /// Written to the recipient's socket. Final.
    Written,
    /// Never written to that socket, and never will be. Final.
    Skipped,
    /// An earlier message is missing, or the holder gives it up: retransmit now.
    Retransmit,
    /// Its TTL ended here.
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
        /// Its queue.
        queue_id: QueueId,
        /// Its number in the origin.
        number: MessageNumber,
        /// Its outcome.
        outcome: EnvelopeOutcome,
        /// Nodes ahead, the message's own node first; empty if this batch goes to that node.
        via: Vec<&'a str>,
    },
    /// Messages of a queue are held at the sender of this batch, or would be with more room.
    /// Retransmit them late.
    Held {
        /// Its queue.
        queue_id: QueueId,
        /// Nodes ahead, as for an outcome.
        via: Vec<&'a str>,
    },
    /// The sender of this batch redirects a queue. Its held messages here are not needed any more.
    Forget {
        /// The recipient.
        to: &'a str,
        /// The queue.
        queue_id: QueueId,
    },
    /// Reports to the owner of a client that the client is attached at the sender, or not any more.
    Located {
        /// The client.
        client_id: &'a str,
        /// Its session.
        session: SessionId,
        /// Time at which the session's socket was accepted. The later session stays.
        accepted_at_us: u64,
        /// Whether it is attached there.
        here: bool,
    },
    /// A lingering session, for the owner of its client.
    Lingering {
        /// The client.
        client_id: &'a str,
        /// Its session.
        session: SessionId,
        /// Time at which its last socket was accepted.
        accepted_at_us: u64,
        /// Number of its latest uplink frame.
        seq: Seq,
        /// Time in which it can be resumed.
        ttl: RemainingTtl,
    },
    /// Requests a session: its client has proven at the sender of this batch that it owns the
    /// session.
    RequestSession {
        /// The client.
        client_id: &'a str,
        /// The session.
        session: SessionId,
        /// Time at which the client's new socket was accepted. An older socket of the session must
        /// close.
        accepted_at_us: u64,
    },
    /// The seats of a lingering session, right behind its `Lingering`.
    Seats {
        /// The client.
        client_id: &'a str,
        /// The session.
        session: SessionId,
        /// When its last socket was accepted.
        accepted_at_us: u64,
        /// The seats.
        seats: Vec<SeatState<'a>>,
    },
    /// Changes of a room with members at the receiver of this batch.
    RoomChanged {
        /// The room.
        room: &'a str,
        /// Its incarnation. A new one means that the store lost changes.
        incarnation: u64,
        /// Its version after the changes; each change raises it by one.
        version: u64,
        /// The changes, in order.
        changes: Vec<RoomChange<'a>>,
        /// Whether the waiting queue has moved.
        queue_moved: bool,
    },
    /// One message for several recipients at the receiver of this batch.
    Copies {
        /// The message, to the first of them.
        envelope: Envelope<'a>,
        /// The other recipients.
        others: Vec<Recipient<'a>>,
    },
}

/// Another recipient of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, BorrowDecode)]
#[cfg_attr(test, derive(arbitrary::Arbitrary))]
pub struct Recipient<'a> {
    /// The recipient.
    pub to: &'a str,
    /// The sender's previous pending number to this recipient, or 0.
    pub prev_pending: MessageNumber,
    /// Returned with the outcome.
    pub queue_id: QueueId,
}

/// Starts a batch in `out`.
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
