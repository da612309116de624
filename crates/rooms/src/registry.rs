//! Which node serves whom, for operators, and for cleaning up behind nodes that died.

use std::future::Future;
use std::time::Duration;

use signaling_protocol::{ClientId, NodeId};
use signaling_wire::SessionId;

use crate::StoreError;

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

/// A position in the entries of a node, for [`Registry::renew`]. The default is the beginning, and
/// the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sweep(pub(crate) u64);

/// Where clients are, with the reverse mapping.
pub trait Registry {
    /// Registers clients that came to a node, and takes back those that left it unless they are elsewhere by now. The reverse
    /// entry is written before the forward one: what the cleaner does not know would stay.
    fn register(&self, node: &NodeId, changes: &[Registration]) -> impl Future<Output = Result<(), StoreError>>;

    /// The node lives. Says whether the registry knew it: if not, it has lost everything.
    fn beat(&self, node: &NodeId) -> impl Future<Output = Result<bool, StoreError>>;

    /// Renews the lifetime of about a thousand entries of a node. Continues after `from`, and
    /// returns where the next step continues: [`Sweep::default`] once all entries have been
    /// renewed.
    fn renew(&self, node: &NodeId, from: Sweep) -> impl Future<Output = Result<Sweep, StoreError>>;

    /// Nodes that were not heard of for `silent`, by name.
    fn silent_nodes(&self, silent: Duration) -> impl Future<Output = Result<Vec<NodeId>, StoreError>>;

    /// Removes what a node left that was not heard of for `silent`, in small steps. Only one cleaner works on it at a time: the
    /// others are told `None`, and so is one that was overtaken because it stood still, or because the node came back.
    fn clean(&self, dead: &NodeId, silent: Duration) -> impl Future<Output = Result<Option<Cleaned>, StoreError>>;

    /// Where a client is, if anywhere.
    fn find(&self, client: &ClientId) -> impl Future<Output = Result<Option<Entry>, StoreError>>;
}
