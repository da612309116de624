//! A session that was put aside, for another process to go on with.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// What a client needs to go on with its session: the token that proves it, what has no answer yet, and what was delivered
/// already. Made by [`Client::detach`](crate::Client::detach), serialisable, good for as long as the mesh keeps a session
/// without a socket (30 s unless the operator says otherwise), and for one client: use it once. Keep it secret.
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

/// A room that the client was in, and what it showed there.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct SavedRoom {
    pub(crate) room: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) data: Option<Box<RawValue>>,
}

impl SavedSession {
    /// Whose session it is.
    #[must_use]
    pub fn client_id(&self) -> &str {
        &self.client_id
    }
}
