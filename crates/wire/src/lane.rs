//! Lanes: one stream of batches from each node to each other node. The node's core writes the
//! frames, its shell reads them.
//!
//! A lane is one long HTTP exchange after another. The request has an [`Opening`] as its query. Its
//! body is a run of frames: the length of a batch in four bytes, little-endian, and the batch
//! ([`forward`](crate::forward)). The response starts at once, with the receiver's incarnation in
//! [`INCARNATION_HEADER`]. Its body is a run of acknowledgements: a batch number in eight bytes,
//! little-endian. It confirms the execution of all batches up to that number, so it also shows that
//! the receiver is alive.

use serde::{Deserialize, Serialize};

use crate::codec::DecodeError;
use crate::limits::MAX_BATCH_BYTES;
use crate::{BatchNumber, ExchangeNumber, Incarnation};

/// Path of the endpoint on a node's internal listener.
pub const PATH: &str = "/internal/v1/lane";
/// Response header with the receiver's incarnation: 16 hexadecimal digits.
pub const INCARNATION_HEADER: &str = "signaling-incarnation";
/// Maximum bytes of a batch in a lane, which the caller of [`frame`] keeps. Its two parts,
/// envelopes with outcomes and all other items, can have [`MAX_BATCH_BYTES`] each.
pub const MAX_BYTES: usize = 2 * MAX_BATCH_BYTES;

/// Bytes of a frame before its batch.
pub const LENGTH_BYTES: usize = size_of::<u32>();
const ACKNOWLEDGEMENT_BYTES: usize = size_of::<u64>();

/// The query of the request that opens an exchange.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opening {
    /// Name of the sending node.
    pub sender: String,
    /// `HOST:PORT` of the sender's internal listener, for a receiver whose view lacks the sender.
    /// `None` if the sender's own view lacks it.
    pub address: Option<String>,
    /// The sender's incarnation. One that differs from a known one shows a restart: the receiver
    /// accepts batches from number 1 on, and retransmits its pending messages to the sender.
    #[serde(with = "hexadecimal")]
    pub incarnation: Incarnation,
    /// Number of the exchange among those of all lanes of this incarnation, from 1 on. A higher one
    /// replaces the receiver's exchange of this lane. The receiver rejects others.
    pub exchange: ExchangeNumber,
}

/// Returns a frame with the batch that `append` writes, of at most [`MAX_BYTES`], which is not
/// checked. `capacity`: the expected bytes of the batch.
pub fn frame(capacity: usize, append: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut frame = Vec::with_capacity(LENGTH_BYTES + capacity);
    frame.extend_from_slice(&[0; LENGTH_BYTES]);
    append(&mut frame);
    let length = u32::try_from(frame.len() - LENGTH_BYTES).unwrap_or(u32::MAX);
    if let Some(front) = frame.first_chunk_mut() {
        *front = length.to_le_bytes();
    }
    frame
}

/// Returns the bytes of an acknowledgement of all batches up to `number`.
pub fn acknowledgement(number: BatchNumber) -> [u8; ACKNOWLEDGEMENT_BYTES] {
    number.0.to_le_bytes()
}

/// Reads batches from chunks that begin and end anywhere.
#[derive(Debug, Default)]
pub struct BatchReader {
    partial: Vec<u8>,
}

impl BatchReader {
    /// Passes each batch that is complete with this chunk to `take`.
    ///
    /// # Errors
    /// If a batch is longer than [`MAX_BYTES`], or `take` fails. Batches before it are passed. The
    /// reader is then unusable.
    pub fn read<E: From<DecodeError>>(
        &mut self,
        chunk: &[u8],
        mut take: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let earlier = std::mem::take(&mut self.partial);
        let joined = if earlier.is_empty() { Vec::new() } else { [&earlier, chunk].concat() };
        let mut rest = if earlier.is_empty() { chunk } else { &joined };
        while let Some((length, behind)) = rest.split_first_chunk() {
            let length = u32::from_le_bytes(*length) as usize;
            if length > MAX_BYTES {
                return Err(DecodeError::new(format!("a batch of {length} bytes, the maximum is {MAX_BYTES}")).into());
            }
            let Some((batch, behind)) = behind.split_at_checked(length) else { break };
            take(batch)?;
            rest = behind;
        }
        self.partial = rest.to_vec();
        Ok(())
    }
}

/// Reads acknowledgements from chunks that begin and end anywhere.
#[derive(Debug, Default)]
pub struct AcknowledgementReader {
    partial: Vec<u8>,
}

impl AcknowledgementReader {
    /// Returns the last acknowledgement that is complete with this chunk: the number of the last
    /// executed batch. `None`: none is complete.
    pub fn read(&mut self, chunk: &[u8]) -> Option<BatchNumber> {
        self.partial.extend_from_slice(chunk);
        let (complete, rest) = self.partial.as_chunks();
        let last = complete.last().map(|bytes| BatchNumber(u64::from_le_bytes(*bytes)));
        self.partial = rest.to_vec();
        last
    }
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
