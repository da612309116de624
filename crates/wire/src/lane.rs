//! Lanes: one stream of batches from each node to each other node. The node's core writes the
//! batches, its shell reads them.
//!
//! A lane is one long HTTP exchange after another. The request has [`VERSION`] in
//! [`VERSION_HEADER`] and an [`Opening`] as its query. The response starts at once, with the
//! receiver's incarnation in a header. Both bodies are runs of frames: a byte for the
//! kind, and the content of a [`Frame`]. Numbers are little-endian.
//!
//! The sender's batches and the receiver's acknowledgements of them go opposite ways. A receiver
//! whose view lacks the sender returns its own batches in the response, behind the number of the
//! exchange that they form. Their acknowledgements are in the request.

use serde::{Deserialize, Serialize};

use crate::codec::DecodeError;
use crate::limits::MAX_BATCH_BYTES;
use crate::{BatchNumber, ExchangeNumber, Incarnation};

/// Path of the endpoint on a node's internal listener.
pub const PATH: &str = "/internal/v1/lane";
/// Request header with the version of the frames and of their batches.
pub const VERSION_HEADER: &str = "signaling-lane";
/// The version of the frames and of their batches.
pub const VERSION: &str = "signaling-lane.v1";
/// Maximum bytes of a batch in a lane, which the caller of [`frame`] keeps. Its two parts,
/// envelopes with outcomes and all other items, can have [`MAX_BATCH_BYTES`] each.
pub const MAX_BYTES: usize = 2 * MAX_BATCH_BYTES;

/// Bytes of a frame before its batch: the kind, and the length of the batch.
pub const HEAD_BYTES: usize = 1 + size_of::<u32>();
const BATCH: u8 = 1;
const ACKNOWLEDGEMENT: u8 = 2;
const EXCHANGE: u8 = 3;
/// An acknowledgement that names its receiver.
const NAMING_ACKNOWLEDGEMENT: u8 = 4;

/// The query of the request that opens an exchange.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opening {
    /// Name of the sending node.
    pub sender: String,
    /// The sender's incarnation. One that differs from a known one shows a restart: the receiver
    /// accepts batches from number 1 on, and retransmits its pending messages to the sender.
    #[serde(with = "hexadecimal")]
    pub incarnation: Incarnation,
    /// Number of the exchange among those of all lanes of this incarnation, from 1 on. A higher one
    /// replaces the receiver's exchange of this lane. The receiver rejects others.
    pub exchange: ExchangeNumber,
}

/// The content of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frame<'a> {
    /// A batch ([`forward`](crate::forward)), of at most [`MAX_BYTES`].
    Batch(&'a [u8]),
    /// The receiver is alive, and has executed batches. Also has the number of the receiver's
    /// [`Counter`](crate::Counter).
    Acknowledgement(Acknowledgement, u64),
    /// Begins an exchange in a response: the batches behind it belong to the exchange with this
    /// number of the receiver, as if it had opened a lane to the sender.
    Exchange(ExchangeNumber),
}

/// Confirms the execution of batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Acknowledgement {
    /// All batches up to this one are executed.
    pub number: BatchNumber,
    /// `true` if the view of the node that sends this has the node that receives it.
    pub names_you: bool,
}

/// Returns a frame with the batch that `append` writes, of at most [`MAX_BYTES`], which is not
/// checked. `capacity`: the expected bytes of the batch.
pub fn frame(capacity: usize, append: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut frame = Vec::with_capacity(HEAD_BYTES + capacity);
    frame.extend_from_slice(&[BATCH, 0, 0, 0, 0]);
    append(&mut frame);
    let length = u32::try_from(frame.len() - HEAD_BYTES).unwrap_or(u32::MAX);
    if let Some((_, length_at)) = frame.split_first_mut()
        && let Some(front) = length_at.first_chunk_mut()
    {
        *front = length.to_le_bytes();
    }
    frame
}

/// Returns a [`Frame::Acknowledgement`].
pub fn acknowledgement(of: Acknowledgement, counter: u64) -> Vec<u8> {
    let mut frame = numbered(if of.names_you { NAMING_ACKNOWLEDGEMENT } else { ACKNOWLEDGEMENT }, of.number.0);
    frame.extend_from_slice(&counter.to_le_bytes());
    frame
}

/// Returns a [`Frame::Exchange`].
pub fn exchange(number: ExchangeNumber) -> Vec<u8> {
    numbered(EXCHANGE, number.0)
}

fn numbered(kind: u8, number: u64) -> Vec<u8> {
    [&[kind][..], &number.to_le_bytes()].concat()
}

/// Reads frames from chunks that begin and end anywhere.
#[derive(Debug, Default)]
pub struct FrameReader {
    partial: Vec<u8>,
}

impl FrameReader {
    /// Passes each frame that is complete with this chunk to `take`.
    ///
    /// # Errors
    /// If a frame is of an unknown kind, a batch is longer than [`MAX_BYTES`], or `take` fails.
    /// Frames before it are passed. The reader is then unusable.
    pub fn read<E: From<DecodeError>>(
        &mut self,
        chunk: &[u8],
        mut take: impl FnMut(Frame<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let earlier = std::mem::take(&mut self.partial);
        let joined = if earlier.is_empty() { Vec::new() } else { [&earlier, chunk].concat() };
        let mut rest = if earlier.is_empty() { chunk } else { &joined };
        while let Some((frame, behind)) = first(rest)? {
            take(frame)?;
            rest = behind;
        }
        self.partial = rest.to_vec();
        Ok(())
    }
}

/// Returns the first frame and the bytes behind it. `None`: it is not complete.
fn first(bytes: &[u8]) -> Result<Option<(Frame<'_>, &[u8])>, DecodeError> {
    let Some((kind, rest)) = bytes.split_first() else { return Ok(None) };
    if *kind == BATCH {
        let Some((length, rest)) = rest.split_first_chunk() else { return Ok(None) };
        let length = u32::from_le_bytes(*length) as usize;
        if length > MAX_BYTES {
            return Err(DecodeError::new(format!("a batch of {length} bytes, the maximum is {MAX_BYTES}")));
        }
        return Ok(rest.split_at_checked(length).map(|(batch, rest)| (Frame::Batch(batch), rest)));
    }
    let mut rest = rest;
    let mut number = || {
        let (number, behind) = rest.split_first_chunk()?;
        rest = behind;
        Some(u64::from_le_bytes(*number))
    };
    let frame = match *kind {
        ACKNOWLEDGEMENT | NAMING_ACKNOWLEDGEMENT => number().zip(number()).map(|(batch, counter)| {
            let of = Acknowledgement { number: BatchNumber(batch), names_you: *kind == NAMING_ACKNOWLEDGEMENT };
            Frame::Acknowledgement(of, counter)
        }),
        EXCHANGE => number().map(|exchange| Frame::Exchange(ExchangeNumber(exchange))),
        kind => return Err(DecodeError::new(format!("a frame of the unknown kind {kind}"))),
    };
    Ok(frame.map(|frame| (frame, rest)))
}

/// Incarnations as text.
mod hexadecimal {
    use serde::{Deserialize as _, Deserializer, Serializer, de};

    use crate::Incarnation;

    pub(super) fn serialize<S: Serializer>(incarnation: &Incarnation, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(incarnation)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Incarnation, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}
