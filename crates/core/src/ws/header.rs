//! Frame headers, and the valid order of frames.

use super::message::Message;
use super::{Limits, Violation};

const LAST: u8 = 0x80;
const RESERVED: u8 = 0x70;
const MASKED: u8 = 0x80;
/// Maximum bytes of a control frame's payload. Longer payloads have an extended length field.
const SHORT: u8 = 125;

/// Content type of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Binary,
}

/// Type of a control frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Control {
    Close,
    Ping,
    Pong,
}

/// Type of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Opcode {
    /// The first or only frame of a message.
    Data(Kind),
    /// A later frame of a message.
    Continuation,
    Control(Control),
}

/// A frame's header that was checked against the protocol and the limits.
#[derive(Debug)]
pub(super) struct Header {
    pub(super) opcode: Opcode,
    /// `true` if the frame ends its message.
    pub(super) last: bool,
    /// Key that masks the payload.
    pub(super) key: [u8; 4],
    /// Bytes of the header.
    pub(super) size: usize,
    /// Bytes of the payload.
    pub(super) payload: usize,
}

impl Header {
    /// Reads the header at the start of `bytes`. `open` is the message in progress, if any. `None`:
    /// it is incomplete. Fails at the first byte that breaks the protocol or a limit.
    pub(super) fn parse(bytes: &[u8], open: Option<&Message>, limits: Limits) -> Result<Option<Self>, Violation> {
        let Some((&first, after)) = bytes.split_first() else {
            return Ok(None);
        };
        if first & RESERVED != 0 {
            return Err(Violation::protocol("a reserved bit is set, but no extension was agreed on"));
        }
        let opcode = Opcode::from_bits(first & 0x0f)?;
        let last = first & LAST != 0;
        opcode.check_order(last, open, limits)?;

        let Some((&second, after)) = after.split_first() else {
            return Ok(None);
        };
        if second & MASKED == 0 {
            return Err(Violation::protocol("a client's frame must be masked"));
        }
        let short = second & !MASKED;
        let is_control = matches!(opcode, Opcode::Control(_));
        if is_control && short > SHORT {
            return Err(Violation::protocol("a control frame is longer than 125 bytes"));
        }
        let Some((length, after)) = read_length(short, after)? else {
            return Ok(None);
        };
        let before = open.map_or(0, |open| open.payload.len() as u64);
        if !is_control && before.saturating_add(length) > limits.max_message_bytes.into() {
            return Err(Violation::TOO_BIG);
        }

        let Some((&key, after)) = after.split_first_chunk() else {
            return Ok(None);
        };
        Ok(Some(Self { opcode, last, key, size: bytes.len() - after.len(), payload: length as usize }))
    }
}

impl Opcode {
    fn from_bits(bits: u8) -> Result<Self, Violation> {
        match bits {
            0 => Ok(Self::Continuation),
            1 => Ok(Self::Data(Kind::Text)),
            2 => Ok(Self::Data(Kind::Binary)),
            8 => Ok(Self::Control(Control::Close)),
            9 => Ok(Self::Control(Control::Ping)),
            10 => Ok(Self::Control(Control::Pong)),
            _ => Err(Violation::protocol("the frame's opcode is reserved")),
        }
    }

    fn check_order(self, last: bool, open: Option<&Message>, limits: Limits) -> Result<(), Violation> {
        match (self, open) {
            (Self::Control(_), _) if !last => Err(Violation::protocol("a control frame is fragmented")),
            (Self::Continuation, None) => Err(Violation::protocol("a continuation has no message to continue")),
            (Self::Data(_), Some(_)) => {
                Err(Violation::protocol("a new message starts before the fragments of the last one end"))
            }
            (Self::Data(Kind::Binary), None) if !limits.binary => Err(Violation::BINARY),
            (Self::Continuation, Some(open)) if open.fragments >= limits.max_fragments => Err(Violation::FRAGMENTS),
            _ => Ok(()),
        }
    }
}

/// Reads the payload's length from 7 bits of the second byte and the 0, 2 or 8 bytes after it.
fn read_length(short: u8, after: &[u8]) -> Result<Option<(u64, &[u8])>, Violation> {
    let (length, least, after) = match short {
        0..=SHORT => return Ok(Some((short.into(), after))),
        126 => match after.split_first_chunk() {
            Some((&bytes, after)) => (u16::from_be_bytes(bytes).into(), u64::from(SHORT) + 1, after),
            None => return Ok(None),
        },
        _ => match after.split_first_chunk() {
            Some((&bytes, after)) => (u64::from_be_bytes(bytes), u64::from(u16::MAX) + 1, after),
            None => return Ok(None),
        },
    };
    if length < least {
        return Err(Violation::protocol("the frame's length is not in its shortest form"));
    }
    Ok(Some((length, after)))
}
