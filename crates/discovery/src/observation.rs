//! One server in a source, before `FlapDamper` decides on its membership.

use signaling_protocol::NodeId;

use crate::Subject;
use signaling_membership::Address;

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
    /// It terminates and no longer serves.
    Ending,
    /// It is not ready and may become ready again.
    Unready,
    /// It terminates but still serves.
    Draining,
    /// It serves.
    Serving,
}

impl ServerStatus {
    /// Returns the status for `subject`: unready peers as serving, ending ones as draining.
    pub(crate) fn for_subject(self, subject: Subject) -> Self {
        match (subject, self) {
            (Subject::Peers, Self::Unready) => Self::Serving,
            (Subject::Peers, Self::Ending) => Self::Draining,
            (_, status) => status,
        }
    }
}
