//! Batches that nodes send each other: `POST /internal/v1/forward`, and the answers, which look the same.
//!
//! A batch is one version byte, a [`Header`], and a run of [`Item`]s. Its answer says that it was received (not that
//! anything was delivered), and brings back what fates are ready by then.

use bincode::{BorrowDecode, Decode, Encode};

use crate::codec::{self, DecodeError};
use crate::seats::{RoomChange, Seat};
use crate::{Incarnation, Origin, RemainingTtl, SessionId};

/// Path of the endpoint on a node's internal listener.
pub const PATH: &str = "/internal/v1/forward";
/// First byte of every batch.
pub const VERSION: u8 = 1;

/// What stands in front of the items.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, BorrowDecode)]
pub struct Header<'a> {
    /// The node that sends the batch.
    pub sender: &'a str,
    /// The sender's incarnation: after a restart it knows nothing of what it sent before.
    pub incarnation: Incarnation,
    /// The lane between the two nodes; one batch of a lane is under way at a time.
    pub lane: u8,
    /// Counts the batches of this incarnation and lane, so that a retry is recognised.
    pub number: u64,
    /// Hash of the view that the sender routes by.
    pub view: u64,
}

/// Names, at the node that serves its sender, the queue that an envelope stands in; means nothing to others. Another
/// incarnation of that node does not know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Encode, Decode)]
pub struct QueueId(pub u64);

/// A message on its way to the node that serves its recipient.
#[derive(Debug, Clone, PartialEq, Eq, Encode, BorrowDecode)]
pub struct Envelope<'a> {
    /// The recipient.
    pub to: &'a str,
    /// The message's name.
    pub origin: Origin,
    /// The sender's last earlier number to this recipient that may still come, or 0.
    pub prev_pending: u64,
    /// How long it may still be held.
    pub left: RemainingTtl,
    /// Whether it may wait for a recipient that is absent.
    pub may_hold: bool,
    /// Whether it may have been sent before: then a fate that is on its way back already answers it.
    pub repeat: bool,
    /// What its fate must bring back.
    pub queue_id: QueueId,
    /// Nodes it has been at before the one that sent this batch, the sender's own first.
    pub via: Vec<&'a str>,
    /// JSON text for the recipient.
    pub payload: &'a [u8],
}

/// What became of an envelope.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Encode, Decode)]
pub enum EnvelopeOutcome {
    /// Written to the recipient's socket. Final.
    Written,
    /// Never written to that socket, and never will be. Final.
    Skipped,
    /// An earlier one is missing, or the holder gives it back: send again at once.
    Retransmit,
    /// Its time was over at this destination.
    Expired,
}

impl EnvelopeOutcome {
    /// Whether nothing else can become of the message.
    #[must_use]
    pub fn is_final(self) -> bool {
        matches!(self, Self::Written | Self::Skipped)
    }
}

/// One entry of a batch.
#[derive(Debug, Clone, PartialEq, Eq, Encode, BorrowDecode)]
pub enum Item<'a> {
    /// Deliver, pass on or hold this.
    Envelope(Envelope<'a>),
    /// The fate of an envelope, going back the way it came.
    Outcome {
        /// Its queue.
        queue_id: QueueId,
        /// Its number in the origin.
        number: u64,
        /// What became of it.
        fate: EnvelopeOutcome,
        /// Nodes still ahead, the sender's own first; none if this batch goes to that one.
        via: Vec<&'a str>,
    },
    /// An envelope of that queue waits at the sender of this batch for its recipient, or would if there were room: no need
    /// to repeat it soon.
    Held {
        /// Its queue.
        queue_id: QueueId,
        /// Nodes still ahead, as for a fate.
        via: Vec<&'a str>,
    },
    /// The sender of this batch sends that queue elsewhere now: what of it still waits here is not wanted any more.
    Forget {
        /// The recipient.
        to: &'a str,
        /// The queue.
        queue_id: QueueId,
    },
    /// A client of whom the receiver of this batch may think that it owns it is attached at the sender, or is no longer.
    Located {
        /// The client.
        client_id: &'a str,
        /// Its session.
        session: SessionId,
        /// When that session's socket was accepted: of two sessions the later stays.
        accepted_at_us: u64,
        /// Whether it is there now.
        here: bool,
    },
    /// A session without a socket, for the node that owns its client now.
    Lingering {
        /// The client.
        client_id: &'a str,
        /// Its session.
        session: SessionId,
        /// When its last socket was accepted.
        accepted_at_us: u64,
        /// Number of its latest uplink frame.
        seq: u64,
        /// How much longer it can be resumed.
        left: RemainingTtl,
    },
    /// A client has come to the sender of this batch with proof of that session: whoever has it hands it over.
    RequestSession {
        /// The client.
        client_id: &'a str,
        /// The session.
        session: SessionId,
        /// When the client's new socket was accepted: an older one that the session has must go.
        accepted_at_us: u64,
    },
    /// The places in rooms of a session that lingers; stands right behind its `Lingering`.
    Seats {
        /// The client.
        client_id: &'a str,
        /// The session.
        session: SessionId,
        /// When its last socket was accepted.
        accepted_at_us: u64,
        /// Its places.
        seats: Vec<Seat<'a>>,
    },
    /// A room has changed, and somebody in it is at the receiver of this batch.
    RoomChanged {
        /// The room.
        room: &'a str,
        /// Its incarnation: the store may have lost what others had.
        incarnation: u64,
        /// Its version after these changes, each of which raised it by one.
        version: u64,
        /// What has changed, in order.
        changes: Vec<RoomChange<'a>>,
        /// Whether those who wait have moved up.
        line_moved: bool,
    },
    /// One message for several recipients at the receiver of this batch.
    Copies {
        /// The message, to the first of them.
        envelope: Envelope<'a>,
        /// The others.
        others: Vec<Recipient<'a>>,
    },
}

/// Another recipient of the same message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, BorrowDecode)]
pub struct Recipient<'a> {
    /// Who.
    pub to: &'a str,
    /// The sender's last earlier number to this recipient that may still come, or 0.
    pub prev_pending: u64,
    /// What its fate must bring back.
    pub queue_id: QueueId,
}

/// Starts a batch or an answer in `out`.
pub fn start(out: &mut Vec<u8>, header: &Header<'_>) {
    out.push(VERSION);
    codec::append(out, header);
}

/// Reads the front of a batch; `bytes` then starts at the first item.
///
/// # Errors
/// If the version is unknown or the header damaged.
pub fn open<'a>(bytes: &mut &'a [u8]) -> Result<Header<'a>, DecodeError> {
    match bytes.split_first() {
        Some((&VERSION, rest)) => *bytes = rest,
        Some((other, _)) => return Err(DecodeError::new(format!("version {other}, this release speaks {VERSION}"))),
        None => return Err(DecodeError::new("an empty batch")),
    }
    codec::take(bytes)
}

impl<'a> Item<'a> {
    /// Writes the item behind what `out` has.
    pub fn append(&self, out: &mut Vec<u8>) {
        codec::append(out, self);
    }

    /// Takes one item from the front of `bytes`.
    ///
    /// # Errors
    /// If the bytes are damaged.
    pub fn take(bytes: &mut &'a [u8]) -> Result<Self, DecodeError> {
        codec::take(bytes)
    }
}
