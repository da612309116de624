//! A session for another process to continue.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// State that continues a session: the token that proves it, requests without an answer, and
/// messages already delivered.
///
/// [`Client::detach`](crate::Client::detach) creates it. It is serialisable, and valid as long as
/// the mesh keeps a session without a socket (30 s by default). Use it once, for the same client.
/// Keep it secret.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SavedSession {
    pub(crate) client_id: String,
    pub(crate) resume: Option<String>,
    pub(crate) next_id: u64,
    pub(crate) unanswered: Vec<SavedRequest>,
    pub(crate) queued: Vec<Box<RawValue>>,
    pub(crate) rooms: Vec<SavedRoom>,
    pub(crate) names: Vec<String>,
}

/// A request that was sent and has no answer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct SavedRequest {
    pub(crate) id: u64,
    pub(crate) request: Box<RawValue>,
}

/// A room that the client was in, with the data it showed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct SavedRoom {
    pub(crate) room: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) data: Option<Box<RawValue>>,
}

impl SavedSession {
    /// Returns the id of the session's client.
    #[must_use]
    pub fn client_id(&self) -> &str {
        &self.client_id
    }
}
