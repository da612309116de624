//! Phases of a session, from its upgrade request to its removal. The edge's core changes them.
//!
//! ```text
//! connect ─> Waiting ──admitted──> Accepted ──opened──> Open ──ended──> Closed ─> removed
//!               │                      └────────socket lost────────────────^
//!               └─refused or socket lost─> removed
//! ```

use signaling_protocol::CloseCode;
use signaling_wire::trunk::DetachReason;

/// The state of a session and its socket.
#[derive(Debug, PartialEq, Eq)]
pub enum SessionPhase {
    /// No node has admitted the client. A refusal or the loss of the socket removes the session.
    Waiting,
    /// A node has admitted the client. The shell answers the upgrade request.
    Accepted {
        /// Close code, text and cause of an end that happens as soon as the socket is open.
        pending_end: Option<Box<(CloseCode, Box<str>, DetachReason)>>,
    },
    /// The socket is open.
    Open {
        /// `true`: the socket is not read, because `Session::must_wait` returned `true`.
        paused: bool,
        /// `true`: the client has shut its side down. Earlier bytes may be unread.
        half_closed: bool,
    },
    /// The socket is closed. The session is removed once `Session::is_over` returns `true`.
    Closed {
        /// Cause of the socket's end.
        reason: DetachReason,
        /// `true`: when the socket closed, no node served the session or its node was releasing it.
        /// The next node must attach it once, so that the client can resume there. Always `false`
        /// for the cause `Left`.
        must_attach: bool,
    },
}

impl SessionPhase {
    /// Phase of a socket that has just opened.
    pub(super) const OPENED: Self = Self::Open { paused: false, half_closed: false };

    pub(super) fn is_open(&self) -> bool {
        matches!(self, Self::Open { .. })
    }

    /// Returns `true` if the socket is open and the edge does not read it.
    pub(super) fn is_paused(&self) -> bool {
        matches!(self, Self::Open { paused: true, .. })
    }

    /// Returns the reason why the socket closed. `None`: it is not closed.
    pub(super) fn closed(&self) -> Option<DetachReason> {
        if let Self::Closed { reason, .. } = *self { Some(reason) } else { None }
    }

    /// Returns `true` once the socket's end is decided, and after it.
    pub(super) fn is_ending(&self) -> bool {
        matches!(self, Self::Accepted { pending_end: Some(_) } | Self::Closed { .. })
    }

    /// Pauses or resumes reading. Returns `true` if that is a change of an open socket.
    pub(super) fn set_paused(&mut self, pause: bool) -> bool {
        match self {
            Self::Open { paused, .. } => std::mem::replace(paused, pause) != pause,
            _ => false,
        }
    }
}
