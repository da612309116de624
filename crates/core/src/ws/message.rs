//! A message that spans several reads or frames, collected on the heap by the decoder.

use super::header::{Header, Kind};
use super::mask::unmask;
use super::{Limits, Violation};

/// An incomplete message.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) kind: Kind,
    /// Unmasked bytes so far.
    pub(super) payload: Vec<u8>,
    /// Bytes of valid UTF-8. At most 3 bytes after them wait for the rest of their character.
    checked: usize,
    /// Frames so far.
    pub(super) fragments: u32,
    frame: Option<Frame>,
}

/// A frame with an incomplete payload.
#[derive(Debug)]
struct Frame {
    remaining: usize,
    key: [u8; 4],
    last: bool,
}

/// State of a message after it has taken some bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// The present frame is incomplete.
    Wanting,
    /// The frame is complete, the message is not.
    Fragment,
    /// The message is complete.
    Whole,
}

impl Message {
    pub(super) fn new(kind: Kind) -> Self {
        Self { kind, payload: Vec::new(), checked: 0, fragments: 0, frame: None }
    }

    /// Returns `true` if the payload of the present frame is incomplete.
    pub(super) fn in_frame(&self) -> bool {
        self.frame.is_some()
    }

    /// Starts the frame of `header`.
    pub(super) fn begin_frame(&mut self, header: &Header) {
        self.fragments = self.fragments.saturating_add(1);
        self.frame = Some(Frame { remaining: header.payload, key: header.key, last: header.last });
    }

    /// Takes, unmasks and counts the present frame's bytes in `input`. Fails if a text is no UTF-8.
    pub(super) fn take(&mut self, input: &mut [u8], limits: Limits) -> Result<(usize, Taken), Violation> {
        let Some(frame) = &mut self.frame else {
            return Ok((0, Taken::Fragment));
        };
        let count = frame.remaining.min(input.len());
        let piece = &mut input[..count];
        frame.key = unmask(piece, frame.key);

        let ceiling = if frame.last { self.payload.len() + frame.remaining } else { limits.max_message_bytes as usize };
        grow(&mut self.payload, count, ceiling);
        self.payload.extend_from_slice(piece);
        frame.remaining -= count;

        let taken = match frame {
            Frame { remaining: 1.., .. } => Taken::Wanting,
            Frame { last: false, .. } => Taken::Fragment,
            Frame { last: true, .. } => Taken::Whole,
        };
        if taken != Taken::Wanting {
            self.frame = None;
        }
        if self.kind == Kind::Text {
            self.checked += check_text(&self.payload[self.checked..], taken == Taken::Whole)?;
        }
        Ok((count, taken))
    }
}

/// Makes room for `more` bytes by doubling, but never above `ceiling`. An announced length alone
/// costs nothing, and no message takes more than its limit.
fn grow(payload: &mut Vec<u8>, more: usize, ceiling: usize) {
    let needed = payload.len() + more;
    if needed > payload.capacity() {
        let target = (payload.capacity() * 2).min(ceiling).max(needed);
        payload.reserve_exact(target - payload.len());
    }
}

/// Returns the number of valid UTF-8 bytes at the start of `text`. Fails on invalid bytes. The last
/// character may be incomplete unless the text is `complete`.
pub(super) fn check_text(text: &[u8], complete: bool) -> Result<usize, Violation> {
    match std::str::from_utf8(text) {
        Ok(text) => Ok(text.len()),
        Err(error) if error.error_len().is_none() && !complete => Ok(error.valid_up_to()),
        Err(_) => Err(Violation::utf8("the text is not valid UTF-8")),
    }
}
