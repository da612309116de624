//! One server as a source shows it, before membership is decided.

use signaling_protocol::NodeId;

use crate::Subject;
use signaling_core::Address;

/// One server as a source shows it now. A source names each id once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Observation {
    pub(crate) id: NodeId,
    /// Where its internal listener is. Another address under a known id is another server.
    pub(crate) address: Address,
    pub(crate) status: ServerStatus,
}

/// Status of a server, the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ServerStatus {
    /// It ends and takes no new clients.
    Ending,
    /// It is not ready, and may become so again.
    Unready,
    /// It ends, and still serves.
    Draining,
    /// It serves.
    Serving,
}

impl ServerStatus {
    /// Returns the status without readiness, which does not count for peers.
    pub(crate) fn of(self, subject: Subject) -> Self {
        match (subject, self) {
            (Subject::Peers, Self::Unready) => Self::Serving,
            (Subject::Peers, Self::Ending) => Self::Draining,
            (_, status) => status,
        }
    }
}
