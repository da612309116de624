//! Inputs and outputs of a translator, which stands between a client and its session. The edge's
//! core (`core/edge/dialects.rs`) calls it.

use std::fmt;
use std::time::Instant;

use signaling_protocol::CloseCode;

use crate::dialect::SERVICE_RESTART;
use crate::event::{AnswerKind, Event, IgnoredReason};

/// Something that happened to a client or its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input<'a> {
    /// A native message of the mesh as JSON text. The first is `welcome`.
    Mesh(&'a [u8]),
    /// Content of a text message of the client. The edge has checked that it is UTF-8.
    Text(&'a [u8]),
    /// Content of a binary message of the client.
    Binary(&'a [u8]),
    /// A Pong of the client, whichever Ping it answers.
    Pong,
    /// Time has reached [`Translate::deadline`].
    Tick,
}

/// Effects of an input. The edge carries them out in order of the fields.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Out {
    /// Native requests to the mesh as JSON texts: one uplink frame each.
    pub requests: Vec<String>,
    /// Text frames to the client. The edge confirms the input's message of the mesh once the socket
    /// has taken all output up to here. With a `close` it never does.
    pub frames: Vec<String>,
    /// `true`: the edge pings the client, and passes its answer as [`Input::Pong`]. While the edge
    /// does not read the client, the edge passes a `Pong` at once.
    pub ping: bool,
    /// Close frame behind the frames, which ends the session. `None`: the socket stays open.
    pub close: Option<Close>,
    /// Events, each with its number of occurrences.
    pub events: Vec<(Event, u32)>,
}

impl Out {
    pub(crate) fn count(&mut self, event: Event) {
        match self.events.iter_mut().find(|(counted, _)| *counted == event) {
            Some((_, count)) => *count = count.saturating_add(1),
            None => self.events.push((event, 1)),
        }
    }

    /// Counts an input without effect.
    pub(crate) fn ignore(&mut self, reason: IgnoredReason) {
        self.count(Event::Ignored(reason));
    }

    /// Adds a frame and counts it as an answer of this kind.
    pub(crate) fn answer(&mut self, kind: AnswerKind, frame: String) {
        self.frames.push(frame);
        self.count(Event::Answered(kind));
    }

    /// Removes all content, so that the edge can use the allocations again.
    pub fn clear(&mut self) {
        let Self { requests, frames, ping, close, events } = self;
        requests.clear();
        frames.clear();
        *ping = false;
        *close = None;
        events.clear();
    }
}

/// Maximum bytes of a close frame's reason: the frame has 125, two of them for the code.
pub(crate) const MAX_REASON_BYTES: usize = 123;

/// A close frame. The session ends with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Close {
    /// Code. `None`: the close frame is empty, without code and reason.
    pub code: Option<CloseCode>,
    /// Reason of at most 123 bytes. Empty without a code.
    pub reason: String,
}

impl Close {
    /// An empty close frame. The client sees 1005.
    pub const EMPTY: Self = Self::new(None);
    /// 1013: the mesh cannot serve the client now.
    pub const TRY_AGAIN: Self = Self::new(Some(CloseCode::TRY_AGAIN));
    /// 1012: the client must reconnect. Pixel Streaming gets it in place of `TRY_AGAIN`.
    pub const RESTART: Self = Self::new(Some(SERVICE_RESTART));

    /// Creates a close frame without a reason.
    pub(crate) const fn new(code: Option<CloseCode>) -> Self {
        Self { code, reason: String::new() }
    }

    /// Creates a close frame with a reason, which is cut after 123 bytes at most.
    pub(crate) fn with_reason(code: CloseCode, reason: &str) -> Self {
        Self { code: Some(code), reason: reason[..reason.floor_char_boundary(MAX_REASON_BYTES)].to_owned() }
    }
}

/// Translator of one dialect.
pub trait Translate: fmt::Debug + Send + Sync {
    /// Handles an input, and adds its effects to `out`.
    fn input(&mut self, now: Instant, input: Input<'_>, out: &mut Out);

    /// Returns the time of the next [`Input::Tick`]. `None`: none is needed.
    fn deadline(&self) -> Option<Instant> {
        None
    }

    /// Returns `true` while the edge must not read from the client: too many of its messages wait,
    /// or have no outcome. A message that the edge has read already may be dropped as over a limit.
    fn is_full(&self) -> bool;

    /// Returns the frame that the edge writes every 5 s while it does not read from the client.
    /// `None`: the client does not need one.
    fn paused_frame(&self) -> Option<&'static str> {
        None
    }

    /// Returns the frame that reports an error to the client, before the edge closes its socket for
    /// a message that is too large. `None`: the dialect has no such frame.
    fn error_frame(&self, _reason: &str) -> Option<String> {
        None
    }

    /// Returns the approximate size of the state that grows with messages, in bytes.
    fn retained_bytes(&self) -> usize;
}

/// The translator of one socket.
pub type Translator = Box<dyn Translate>;
