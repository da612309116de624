//! RFC 6455 frames, server side only, without I/O.
//!
//! A thread reads from all its sockets into one shared scratch buffer and hands the filled part to the
//! socket's [`Decoder`], which unmasks and checks it in place and lends out [`Event`]s that point into
//! it. Only what is unfinished at the end of a read is copied to the heap, and freed again as soon as it
//! is done: an idle client costs the few bytes of a `Decoder` and no buffer. [`encode`] appends
//! unmasked server frames to a buffer of the caller's.
//!
//! No extensions: a compressed frame sets a reserved bit, and that is a [`Violation`].
//!
//! | file | idea |
//! |---|---|
//! | `decode` | the decoder and the input it lends events from |
//! | `message` | one message or frame that spans several reads |
//! | `header` | a frame's first bytes, and which frame may follow which |
//! | `close` | close bodies and codes |
//! | `mask` | unmasking |
//! | `encode` | server frames |
//! | `echo` | what a server says that gives back what it gets: for tests and benchmarks |
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

mod close;
mod decode;
mod echo;
pub mod encode;
mod header;
mod mask;
mod message;

pub use decode::{Decoder, Input};
pub use echo::echo;

/// What one client may send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Largest message in bytes, be it one frame or many.
    pub max_message_bytes: u32,
    /// Most frames that one message may be cut into.
    pub max_fragments: u32,
    /// Whether binary messages are taken; otherwise they are a violation (1003).
    pub binary: bool,
}

impl Default for Limits {
    /// 64 KiB, 64 fragments, text only.
    fn default() -> Self {
        Self { max_message_bytes: 64 * 1024, max_fragments: 64, binary: false }
    }
}

/// What a client said, unmasked and checked, borrowed from the [`Input`] that it was found in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<'a> {
    /// A whole text message: valid UTF-8.
    Text(&'a [u8]),
    /// A whole binary message; only where [`Limits::binary`] allows it.
    Binary(&'a [u8]),
    /// Wants a pong with the same payload, at most 125 bytes.
    Ping(&'a [u8]),
    /// Answers a ping, or comes unasked; at most 125 bytes.
    Pong(&'a [u8]),
    /// The client closes, with the code and reason it gave. Nothing it sends afterwards is looked at.
    Close(Option<u16>, &'a str),
}

/// A client broke the protocol or a limit: close its socket with this code and reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{reason} ({code})")]
pub struct Violation {
    /// The close code to send.
    pub code: u16,
    /// What was wrong, fit for the client to read.
    pub reason: &'static str,
}

impl Violation {
    const fn protocol(reason: &'static str) -> Self {
        Self { code: 1002, reason }
    }

    const fn binary() -> Self {
        Self { code: 1003, reason: "only text messages are spoken here" }
    }

    const fn utf8(reason: &'static str) -> Self {
        Self { code: 1007, reason }
    }

    const fn fragments() -> Self {
        Self { code: 1008, reason: "the message has too many fragments" }
    }

    const fn too_big() -> Self {
        Self { code: 1009, reason: "the message is too big" }
    }
}
