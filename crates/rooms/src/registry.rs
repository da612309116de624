//! Which node serves whom, for operators, and for cleaning up behind nodes that died.

use signaling_protocol::{ClientId, NodeId};
use signaling_wire::SessionId;

/// A client's session at the node that registers it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registration {
    /// The client.
    pub client: ClientId,
    /// Its session.
    pub session: SessionId,
    /// Whether it is here now, or has gone.
    pub here: bool,
}

/// Where a client is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The node that serves it.
    pub node: NodeId,
    /// Its session, in hexadecimal.
    pub session: String,
    /// When it came there, milliseconds since 1970.
    pub since: u64,
}

/// What a step of cleaning has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cleaned {
    /// Entries removed.
    pub removed: u64,
    /// Entries left alone: those clients are elsewhere, or registered anew.
    pub kept: u64,
}

/// A position in the entries of a node, for [`RedisRegistry::renew`](crate::RedisRegistry::renew). The default is the beginning, and
/// the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sweep(pub(crate) u64);
