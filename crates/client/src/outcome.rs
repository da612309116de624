//! What became of a request.

use std::time::Duration;

use signaling_protocol::ErrorCode;

/// A request was carried out. A signal: its recipient has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Delivered {
    /// Of a broadcast: how many members got it.
    pub members: Option<u64>,
}

/// What a server said of a request that it did not carry out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// One of the protocol's error codes, or one that a later release has added.
    pub code: String,
    /// For people.
    pub message: String,
    /// After which time it makes sense to try once more, if the server said so.
    pub retry_after: Option<Duration>,
}

impl Refusal {
    /// Whether it is for this reason.
    #[must_use]
    pub fn is(&self, code: ErrorCode) -> bool {
        self.code == code.as_str()
    }
}

/// A request that was taken was not carried out, as far as is known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// The mesh said no: above all `recipient_unavailable`.
    #[error("{}: {}", .0.code, .0.message)]
    Refused(Refusal),
    /// No answer came in time.
    #[error("{}", if *.sent { "no answer came in time; it may have been delivered" } else { "there was no connection in time" })]
    Expired {
        /// Whether it had left, and may have been delivered.
        sent: bool,
    },
    /// The client was closed first. What had left may have been delivered.
    #[error("the client is closed")]
    Closed,
}

/// A request was not taken. Nothing of it was sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// So many requests wait already: wait for the outcome of some.
    #[error("the queue is full")]
    QueueFull,
    /// The server would close the socket over it.
    #[error("the message has {bytes} bytes, and the server takes {max}")]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The largest that the server takes.
        max: usize,
    },
    /// A client id or a room's name that is none.
    #[error("{name:?} {why}")]
    BadName {
        /// The name.
        name: String,
        /// What is wrong with it.
        why: signaling_protocol::NameError,
    },
    /// The data cannot be written as JSON.
    #[error("not JSON: {0}")]
    NotJson(String),
    /// Only for what makes no sense later: `members` and `ice_servers` are asked for on an open connection.
    #[error("not connected")]
    NotConnected,
    /// The client is in as many rooms as it may be.
    #[error("in as many rooms as a client may be")]
    TooManyRooms,
    /// The client is closed.
    #[error("the client is closed")]
    Closed,
}
