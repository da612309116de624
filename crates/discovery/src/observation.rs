//! One server in a source, before membership is decided.

use signaling_protocol::NodeId;

use crate::Subject;
use signaling_core::Address;

/// One server in a source. A source lists each id once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Observation {
    pub(crate) id: NodeId,
    /// Address of its internal listener. A known id with another address is another server.
    pub(crate) address: Address,
    pub(crate) status: ServerStatus,
}

/// Status of a server, the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ServerStatus {
    /// It terminates and takes no new clients.
    Ending,
    /// It is not ready and may become ready again.
    Unready,
    /// It terminates but still serves.
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
