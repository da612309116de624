//! RFC 6455 frames, server side only, without I/O.
//!
//! The edge's shell reads from all sockets into one scratch buffer. It passes the filled part to
//! the socket's [`Decoder`], which unmasks and checks it in place. The [`Event`]s borrow from the
//! buffer. Only unfinished data at the end of a read is copied to the heap, and freed once it is
//! complete. So an idle client costs the few bytes of a `Decoder` and no buffer. [`encode`] appends
//! unmasked server frames to a buffer of the edge's core.
//!
//! Extensions are not supported. A compressed frame sets a reserved bit, which is a [`Violation`].
//!
//! | file | content |
//! |---|---|
//! | `decode` | the decoder, the input that lends events, and close bodies |
//! | `message` | one message or frame that spans several reads |
//! | `header` | frame headers, and the valid order of frames |
//! | `mask` | unmasking |
//! | `encode` | server frames |
//!
//! ```
//! use signaling_core::ws::{Decoder, Event, Limits};
//!
//! let mut decoder = Decoder::default();
//! let mut scratch = *b"\x81\x82\x01\x02\x03\x04ik";
//! let mut input = decoder.feed(&mut scratch, Limits::default());
//! while let Some(event) = input.next()? {
//!     assert_eq!(event, Event::Text(b"hi"));
//! }
//! # Ok::<(), signaling_core::ws::Violation>(())
//! ```

mod decode;
pub mod encode;
mod header;
mod mask;
mod message;

pub use decode::{Decoder, Input};

/// Limits for the messages of one client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum bytes of a message, in one frame or several. More are a violation (1009).
    pub max_message_bytes: u32,
    /// Maximum frames of one message. More are a violation (1008).
    pub max_fragments: u32,
    /// `true` if binary messages are accepted. Otherwise they are a violation (1003).
    pub binary: bool,
}

impl Default for Limits {
    /// Returns 64 KiB, 64 fragments, text only.
    fn default() -> Self {
        Self { max_message_bytes: 64 * 1024, max_fragments: 64, binary: false }
    }
}

/// An unmasked and checked item from a client, borrowed from its [`Input`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<'a> {
    /// A whole text message in valid UTF-8.
    Text(&'a [u8]),
    /// A whole binary message. It needs [`Limits::binary`].
    Binary(&'a [u8]),
    /// A ping. Its pong carries the same payload of at most 125 bytes.
    Ping(&'a [u8]),
    /// A pong, the answer to a ping or unsolicited, with at most 125 bytes.
    Pong(&'a [u8]),
    /// The client closes with this code and reason. `None`: no code, and an empty reason. Further
    /// bytes are ignored.
    Close(Option<u16>, &'a str),
}

/// A violation of the protocol or a limit. Close the client's socket with this code and reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{reason} ({code})")]
pub struct Violation {
    /// The close code to send, such as 1002.
    pub code: u16,
    /// Description of the fault, for the client.
    pub reason: &'static str,
}

impl Violation {
    const BINARY: Self = Self { code: 1003, reason: "only text messages are accepted" };
    const FRAGMENTS: Self = Self { code: 1008, reason: "the message has too many fragments" };
    const TOO_BIG: Self = Self { code: 1009, reason: "the message is too big" };

    const fn protocol(reason: &'static str) -> Self {
        Self { code: 1002, reason }
    }

    const fn utf8(reason: &'static str) -> Self {
        Self { code: 1007, reason }
    }
}
