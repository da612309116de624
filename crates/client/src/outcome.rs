//! Outcomes of requests, which methods of `Client` return as a [`Receipt`], and errors of methods.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use signaling_protocol::ErrorCode;
use tokio::sync::oneshot;

use crate::core::Outcome;

/// Future of a request's outcome. `Ok` has a [`Delivered`]: the request was carried out. Dropping
/// the future does not cancel the request. A poll after the outcome panics.
///
/// # Errors
/// Resolves to a [`RequestError`] if the mesh refused, no answer came, or the client was closed.
#[derive(Debug)]
#[must_use = "the receipt has the outcome of the request; use `let _ =` to ignore it"]
pub struct Receipt {
    pub(crate) outcome: oneshot::Receiver<Outcome>,
}

impl Future for Receipt {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        Pin::new(&mut self.outcome).poll(context).map(|outcome| outcome.unwrap_or(Err(RequestError::Closed)))
    }
}

/// A request was carried out. If it was a signal, the recipient's SDK has confirmed it, or the
/// socket of a recipient without an SDK has taken it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Delivered {
    /// Number of members, without the sender, that received a broadcast; `None` for other requests.
    pub members: Option<u64>,
}

/// Error answer of a server to a request, a renewed token, or another message of the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Error code: the text of an [`ErrorCode`], or a code that a later release adds.
    pub code: String,
    /// Explanation of the server, as text.
    pub message: String,
    /// Time after which a retry can succeed; `None` if the server gave none: a wait may not help.
    pub retry_after: Option<Duration>,
}

impl Refusal {
    /// Returns `true` if the refusal has this error code.
    pub fn is(&self, code: ErrorCode) -> bool {
        self.code == code.as_str()
    }
}

/// An accepted request was not carried out, or its outcome is unknown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// The mesh refused it, or gave up a signal (`recipient_unavailable`), which may have arrived.
    #[error("{}: {}", .0.code, .0.message)]
    Refused(Refusal),
    /// No answer came within [`Options::request_timeout`](crate::Options::request_timeout), a limit
    /// of this client, not of the mesh. The time starts when the client accepts the request.
    #[error("{}", if *.sent { "no answer came in time; it may have been delivered" } else { "it was not sent in time" })]
    Expired {
        /// `true` if it was sent, and so may have been delivered. `false`: it waited for a
        /// connection or for answers to earlier requests, and is dropped.
        sent: bool,
    },
    /// The client was closed or detached first. A request that was sent may have been delivered.
    /// After [`Client::detach`](crate::Client::detach) the saved session still contains it.
    #[error("the client is closed; its last state event has the reason")]
    Closed,
}

/// A request was not accepted. Nothing of it was sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The client's queue of unsent requests is full. Its requests or bytes would exceed the
    /// maximum that [`Options::queue`](crate::Options::queue) sets. Wait for earlier outcomes.
    #[error("the queue is full: wait for outcomes of earlier requests")]
    QueueFull,
    /// The message is too large: the server would close the socket. The limit is that of the latest
    /// [`Welcome`](crate::Welcome), 64 KiB before the first one.
    #[error("the message has {bytes} bytes, the server accepts at most {max}")]
    TooLarge {
        /// Size of the whole message as JSON text, not only of its data, in bytes.
        bytes: usize,
        /// Maximum size that the server accepts, in bytes.
        max: usize,
    },
    /// A name is no valid client id or room name: 1 to 128 of `A-Z a-z 0-9 . _ ~ : @ -`.
    #[error("{name:?} {why}")]
    BadName {
        /// The name as given.
        name: String,
        /// Its defect.
        why: signaling_protocol::NameError,
    },
    /// The application's data cannot be written as JSON. Holds the serializer's error as text.
    #[error("the data cannot be written as JSON: {0}")]
    NotJson(String),
    /// There is no connection. Error of [`Client::members`](crate::Client::members) and
    /// [`Client::ice_servers`](crate::Client::ice_servers) alone: other requests are queued.
    #[error("not connected")]
    NotConnected,
    /// The client is in at least 256 rooms already, not counting the room to join. Rooms in which
    /// it waits, and rooms of joins without an answer, count too. Error of
    /// [`Client::join`](crate::Client::join) alone.
    #[error("the client is in the maximum number of rooms")]
    TooManyRooms,
    /// The client is closed.
    #[error("the client is closed")]
    Closed,
}
