//! A session that another process continues: from `Client::detach`, for `Options::session`.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// State that continues a session: the token that proves it, unanswered requests, and delivered
/// messages. [`Client::detach`](crate::Client::detach) creates it. It is serialisable. The mesh
/// keeps a session without a socket for 30 s by default. The next client sends the requests and
/// does not report their outcomes. Use it once, for the same client. Keep it secret.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SavedSession {
    pub(crate) client_id: String,
    /// Token that resumes the session; `None` before the first `welcome`.
    pub(crate) resume: Option<String>,
    /// Number of the next request in this session, from 1.
    pub(crate) next_id: u64,
    /// Sent requests without an answer, in order.
    pub(crate) unanswered: Vec<SavedRequest>,
    /// Requests that were not sent, in order.
    pub(crate) queued: Vec<Box<RawValue>>,
    /// Rooms to rejoin in a new session, in the order joined.
    pub(crate) rooms: Vec<SavedRoom>,
    /// Names (`m`) of the latest received messages, at most 4,096, for deduplication.
    pub(crate) names: Vec<String>,
}

/// A request that was sent and has no answer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct SavedRequest {
    pub(crate) id: u64,
    /// Form on the wire without its number.
    pub(crate) request: Box<RawValue>,
}

/// A room that the client was in or waited for, and the data that it showed, if any.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct SavedRoom {
    pub(crate) room: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) data: Option<Box<RawValue>>,
    /// `true` if the client has no seat in this session, and joins again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) rejoins: bool,
}

impl SavedSession {
    /// Returns the id of the session's client.
    pub fn client_id(&self) -> &str {
        &self.client_id
    }
}
