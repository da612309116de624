//! Registry entries: the node that serves each client, for operators and for cleanup after dead
//! nodes.

use signaling_protocol::{ClientId, NodeId};
use signaling_wire::SessionId;

/// A client's session at the node that registers it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registration {
    /// The client.
    pub client: ClientId,
    /// Its session.
    pub session: SessionId,
    /// `true` if the session is at the node now, `false` if it has ended.
    pub here: bool,
}

/// Location of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The node that serves it.
    pub node: NodeId,
    /// Its session, in hexadecimal.
    pub session: String,
    /// Time when it was registered there, in milliseconds since 1970.
    pub since: u64,
}

/// Result of one cleaning step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cleaned {
    /// Entries removed.
    pub removed: u64,
    /// Entries kept, because their clients are elsewhere or registered again.
    pub kept: u64,
}

/// Position in a node's entries, for [`RedisRegistry::renew`](crate::RedisRegistry::renew). The
/// default value marks both the beginning and the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sweep(pub(crate) u64);
