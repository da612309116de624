//! A message that spans several reads or frames, which `decode` collects on the heap. `header`
//! checks the order and the limits of its frames, and this module its UTF-8.

use super::header::{Header, Kind};
use super::mask::unmask;
use super::{Limits, Violation};

/// An incomplete message.
#[derive(Debug)]
pub(super) struct Message {
    /// Text or binary. Only text is checked for UTF-8.
    pub(super) kind: Kind,
    /// Unmasked bytes so far, at most [`Limits::max_message_bytes`].
    pub(super) payload: Vec<u8>,
    /// Bytes of valid UTF-8. At most 3 bytes after them wait for the rest of their character.
    checked: usize,
    /// Frames so far, including an incomplete one.
    pub(super) fragments: u32,
    frame: Option<Frame>,
}

/// A frame with an incomplete payload.
#[derive(Debug)]
struct Frame {
    /// Bytes of the payload that have not arrived.
    remaining: usize,
    /// Masking key, rotated for the next byte.
    key: [u8; 4],
    /// `true` if the frame ends its message.
    last: bool,
}

/// State of a message after it has taken some bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// The present frame is incomplete. The whole input was taken.
    InFrame,
    /// The frame is complete, the message is not. The rest of the input starts a header.
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

    /// Starts the frame of `header`. The frame before it must be complete.
    pub(super) fn begin_frame(&mut self, header: &Header) {
        self.fragments = self.fragments.saturating_add(1);
        self.frame = Some(Frame { remaining: header.payload, key: header.key, last: header.last });
    }

    /// Takes the present frame's bytes from the start of `input`, and unmasks them in place.
    /// Returns their number and the state of the message. Without a present frame it takes none.
    ///
    /// Fails with 1007 if a text contains invalid UTF-8, or ends within a character.
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
            Frame { remaining: 1.., .. } => Taken::InFrame,
            Frame { last: false, .. } => Taken::Fragment,
            Frame { last: true, .. } => Taken::Whole,
        };
        if taken != Taken::InFrame {
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

/// Returns the number of valid UTF-8 bytes at the start of `text`. The last character may be
/// incomplete, unless the text is `complete`. Fails on other invalid bytes with 1007.
pub(super) fn check_text(text: &[u8], complete: bool) -> Result<usize, Violation> {
    match std::str::from_utf8(text) {
        Ok(text) => Ok(text.len()),
        Err(error) if error.error_len().is_none() && !complete => Ok(error.valid_up_to()),
        Err(_) => Err(Violation::utf8("the text is not valid UTF-8")),
    }
}
