//! Registry entries: the serving node of each client, for operators and cleanup after dead nodes.

use signaling_protocol::{ClientId, NodeId};
use signaling_wire::SessionId;

/// A client's session at the node that registers it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registration {
    /// Id of the client.
    pub client: ClientId,
    /// Its session.
    pub session: SessionId,
    /// `true` if the session is at the node now, `false` if it has ended.
    pub here: bool,
}

/// Location of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Name of the node that serves it.
    pub node: NodeId,
    /// Its session, in hexadecimal.
    pub session: String,
    /// Time when it was registered there, in milliseconds since 1970.
    pub since: u64,
}

/// Result of the cleanup after one dead node, or of one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cleaned {
    /// Number of removed entries.
    pub removed: u64,
    /// Number of kept entries, because their clients are elsewhere or registered again.
    pub kept: u64,
}

/// Position in a node's entries, for
/// [`RedisRegistry::renew_entries`](crate::RedisRegistry::renew_entries). The default value marks
/// both the beginning and the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sweep(pub(crate) u64);
