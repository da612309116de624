//! The decoder of one client's bytes, the input that lends events to the event loop, and the body
//! of a close frame.

use std::ops::Range;

use super::header::{Control, Header, Kind, Opcode};
use super::mask::unmask;
use super::message::{Message, Taken, check_text};
use super::{Event, Limits, Violation};

/// Finds one client's messages in its bytes.
///
/// It has 32 bytes, and uses the heap only for unfinished messages. After a [`Violation`] or a
/// close it ignores all further bytes.
#[derive(Debug, Default)]
pub struct Decoder {
    message: Option<Box<Message>>,
    /// Unparsed bytes: an incomplete header or control frame, or the rest of a dropped input.
    rest: Box<[u8]>,
    stopped_early: bool,
    closed: bool,
}

/// The bytes of one read, which a [`Decoder`] processes.
///
/// Take events until there are none. An input that is dropped earlier leaves its remaining bytes
/// with the decoder, see [`Decoder::has_backlog`].
#[derive(Debug)]
pub struct Input<'a> {
    decoder: &'a mut Decoder,
    bytes: Bytes<'a>,
    /// Bytes before this position are processed.
    at: usize,
    /// The latest message from the heap. It lives until the next message is requested.
    gathered: Vec<u8>,
    limits: Limits,
    drained: bool,
}

#[derive(Debug)]
enum Bytes<'a> {
    /// The caller's buffer.
    Lent(&'a mut [u8]),
    /// The rest of the last input, followed by the caller's bytes.
    Joined(Vec<u8>),
}

/// Position of an event's payload.
enum Found {
    Gathered(Kind),
    Whole(Kind, Range<usize>),
    Control(Control, Range<usize>),
}

impl Decoder {
    /// Starts to decode `input`, the bytes of one read. They are unmasked in place, or copied after
    /// the bytes that the last input left.
    pub fn feed<'a>(&'a mut self, input: &'a mut [u8], limits: Limits) -> Input<'a> {
        let bytes = if self.rest.is_empty() {
            Bytes::Lent(input)
        } else {
            let mut joined = std::mem::take(&mut self.rest).into_vec();
            joined.extend_from_slice(input);
            Bytes::Joined(joined)
        };
        Input { decoder: self, bytes, at: 0, gathered: Vec::new(), limits, drained: false }
    }

    /// Returns `true` if a frame or message is incomplete, as far as its bytes are decoded. The
    /// caller limits the time for it.
    pub fn unfinished(&self) -> bool {
        self.message.is_some() || (!self.rest.is_empty() && !self.stopped_early)
    }

    /// Returns the bytes allocated for an incomplete message and unparsed input.
    pub fn held(&self) -> usize {
        self.rest.len() + self.message.as_ref().map_or(0, |message| message.payload.capacity())
    }

    /// Returns `true` if the last input was dropped before all its events were taken. Feed an empty
    /// slice to continue. Each further read that is fed instead adds to the backlog.
    pub fn has_backlog(&self) -> bool {
        self.stopped_early
    }

    fn close(&mut self) {
        *self = Self { closed: true, ..Self::default() };
    }
}

impl Input<'_> {
    /// Returns the next event. `None`: the input has no further complete message or control frame,
    /// or a close or violation came before.
    ///
    /// # Errors
    /// Returns a [`Violation`] at the first wrong byte, once the events before it are taken.
    #[expect(clippy::should_implement_trait, reason = "each event borrows from the input, which no `Iterator` can do")]
    pub fn next(&mut self) -> Result<Option<Event<'_>>, Violation> {
        self.gathered = Vec::new();
        if self.decoder.closed {
            return Ok(None);
        }
        match self.find() {
            Ok(Some(found)) => self.lend(found).map(Some),
            Ok(None) => {
                self.drained = true;
                Ok(None)
            }
            Err(violation) => {
                self.decoder.close();
                Err(violation)
            }
        }
    }

    fn find(&mut self) -> Result<Option<Found>, Violation> {
        loop {
            let bytes = &mut self.bytes.as_mut_slice()[self.at..];
            if let Some(message) = self.decoder.message.as_mut().filter(|message| message.in_frame()) {
                let (count, taken) = message.take(bytes, self.limits)?;
                self.at += count;
                match taken {
                    Taken::InFrame => return Ok(None),
                    Taken::Fragment => continue,
                    Taken::Whole => return Ok(self.gather()),
                }
            }

            let Some(header) = Header::parse(bytes, self.decoder.message.as_deref(), self.limits)? else {
                return Ok(None);
            };
            let payload = bytes.get_mut(header.size..header.size + header.payload);
            match (header.opcode, payload) {
                (Opcode::Data(kind), Some(payload)) if header.last => {
                    unmask(payload, header.key);
                    if kind == Kind::Text {
                        check_text(payload, true)?;
                    }
                    return Ok(Some(Found::Whole(kind, self.pass(&header))));
                }
                (Opcode::Control(control), Some(payload)) => {
                    unmask(payload, header.key);
                    let place = self.pass(&header);
                    if control == Control::Close {
                        self.decoder.close();
                    }
                    return Ok(Some(Found::Control(control, place)));
                }
                (Opcode::Control(_), None) => return Ok(None),
                (Opcode::Data(kind), _) => {
                    let message = self.decoder.message.insert(Box::new(Message::new(kind)));
                    message.begin_frame(&header);
                    self.at += header.size;
                }
                (Opcode::Continuation, _) => {
                    if let Some(message) = &mut self.decoder.message {
                        message.begin_frame(&header);
                    }
                    self.at += header.size;
                }
            }
        }
    }

    /// Moves past a whole frame and returns the range of its payload.
    fn pass(&mut self, header: &Header) -> Range<usize> {
        let start = self.at + header.size;
        self.at = start + header.payload;
        start..self.at
    }

    /// Moves a complete message out of the decoder.
    fn gather(&mut self) -> Option<Found> {
        let Message { kind, payload, .. } = *self.decoder.message.take()?;
        self.gathered = payload;
        Some(Found::Gathered(kind))
    }

    fn lend(&mut self, found: Found) -> Result<Event<'_>, Violation> {
        let (kind, payload) = match found {
            Found::Gathered(kind) => (kind, self.gathered.as_slice()),
            Found::Whole(kind, place) => (kind, &self.bytes.as_slice()[place]),
            Found::Control(control, place) => {
                let body = &self.bytes.as_slice()[place];
                return match control {
                    Control::Close => read_close(body),
                    Control::Ping => Ok(Event::Ping(body)),
                    Control::Pong => Ok(Event::Pong(body)),
                };
            }
        };
        Ok(match kind {
            Kind::Text => Event::Text(payload),
            Kind::Binary => Event::Binary(payload),
        })
    }
}

impl Drop for Input<'_> {
    fn drop(&mut self) {
        if !self.decoder.closed {
            self.decoder.rest = self.bytes.as_slice()[self.at..].into();
            self.decoder.stopped_early = !self.drained && !self.decoder.rest.is_empty();
        }
    }
}

impl Bytes<'_> {
    fn as_slice(&self) -> &[u8] {
        match self {
            Self::Lent(bytes) => bytes,
            Self::Joined(bytes) => bytes,
        }
    }

    fn as_mut_slice(&mut self) -> &mut [u8] {
        match self {
            Self::Lent(bytes) => bytes,
            Self::Joined(bytes) => bytes,
        }
    }
}

/// Reads an unmasked close body: nothing, or a code and a reason. Fails with 1002 for one byte or a
/// reserved code, and with 1007 for a reason that is not UTF-8.
fn read_close(body: &[u8]) -> Result<Event<'_>, Violation> {
    let Some((&code, reason)) = body.split_first_chunk() else {
        return match body {
            [] => Ok(Event::Close(None, "")),
            _ => Err(Violation::protocol("the body of a close frame has only one byte")),
        };
    };
    let code = u16::from_be_bytes(code);
    if !may_be_sent(code) {
        return Err(Violation::protocol("the close code may not be sent"));
    }
    let reason = std::str::from_utf8(reason).map_err(|_| Violation::utf8("the close reason is not valid UTF-8"))?;
    Ok(Event::Close(Some(code), reason))
}

/// Returns `true` if a client may send the close code. RFC 6455 section 7.4 and its registry
/// reserve 1004 to 1006 and codes from 1015 on. Libraries and applications use 3000 to 4999.
fn may_be_sent(code: u16) -> bool {
    matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999)
}

#[cfg(test)]
mod tests;
