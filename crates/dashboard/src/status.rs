//! What one server says of itself. Other releases of the mesh may say more or less: what is missing counts as nothing, what is
//! unknown is passed over.

use serde::{Deserialize, Serialize};
use signaling_protocol::NodeId;

/// What `GET /dashboard/status` answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Its stable name.
    pub id: NodeId,
    /// What it does in the mesh.
    pub role: Role,
    /// The release that it runs.
    #[serde(default)]
    pub version: String,
    /// When it started, in milliseconds since 1970 by its own clock: a restart changes it.
    #[serde(default)]
    pub started_ms: u64,
    /// Why it takes no work, if so.
    #[serde(default)]
    pub obstacle: Option<String>,
    /// The view that it goes by.
    #[serde(default)]
    pub view: ViewStatus,
    /// Nodes that it does not rely on now.
    #[serde(default)]
    pub suspects: Vec<NodeId>,
    /// How much it does and has done.
    #[serde(default)]
    pub figures: Figures,
    /// What the operating system says of its process.
    #[serde(default)]
    pub process: Process,
    /// What has happened there lately, oldest first.
    #[serde(default)]
    pub happenings: Vec<Happening>,
}

impl Status {
    /// Of a server that has not said anything.
    pub(crate) fn nothing_of(id: NodeId, role: Role) -> Self {
        Self {
            id,
            role,
            version: String::new(),
            started_ms: 0,
            obstacle: None,
            view: ViewStatus::default(),
            suspects: Vec::new(),
            figures: Figures::default(),
            process: Process::default(),
            happenings: Vec::new(),
        }
    }
}

/// What a server does in the mesh.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// A signaling node.
    Node,
    /// Holds clients' sockets for nodes.
    Balancer,
}

/// The view that a server goes by.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ViewStatus {
    /// Equal for equal views.
    pub hash: String,
    /// How long ago its source was last read well, in milliseconds.
    pub age_ms: u64,
    /// Whether that is so long ago that something must be wrong with it.
    pub is_stale: bool,
    /// The nodes in it.
    pub nodes: Vec<ViewedNode>,
}

/// A node as a view names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ViewedNode {
    /// Its name.
    pub id: NodeId,
    /// Where its internal listener is.
    pub address: String,
    /// Whether it is there, but no candidate for clients.
    #[serde(default)]
    pub draining: bool,
}

/// How much a server does now, and has done.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Figures {
    /// At a node: sessions with a socket. At a balancer: sessions of its edge.
    pub clients: u64,
    /// Of a node's clients, those of its own public listener.
    pub direct_clients: u64,
    /// Sessions without a socket that can be resumed.
    pub lingering: u64,
    /// Rooms that somebody at this node is in, or waits for.
    pub rooms: u64,
    /// Seats in rooms of this node's clients.
    pub seats: u64,
    /// Their places in lines.
    pub waiting: u64,
    /// Counts that only grow while the process lives.
    pub totals: Totals,
    /// How long messages that were delivered took from the edge that read them until that was known there: pairs of an upper bound in
    /// microseconds and how many took less, and no less than the bound before. They only grow.
    pub delays: Vec<(u64, u64)>,
    /// At a node: the balancers whose trunks come here.
    pub edges: Vec<EdgeFigures>,
}

/// Counts that only grow while the process lives.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Totals {
    /// At a node: requests of its clients. At a balancer: messages read from clients.
    pub messages: u64,
    /// At a node: messages of its clients that were delivered. At a balancer: messages written to clients.
    pub delivered: u64,
    /// At a node: messages of its clients that were given up.
    pub unavailable: u64,
    /// Requests answered by an error; at a balancer: messages above the rate.
    pub refused: u64,
    /// Sessions moved to another node behind their open socket.
    pub handoffs: u64,
}

/// What a node knows of one balancer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EdgeFigures {
    /// Its name.
    pub id: NodeId,
    /// Where its internal listener should be: where its trunk comes from, with the port that it named.
    #[serde(default)]
    pub address: Option<String>,
    /// Its clients at this node.
    #[serde(default)]
    pub clients: u64,
    /// Messages that came by its trunk since that is up.
    #[serde(default)]
    pub messages: u64,
}

/// What the operating system says of a process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Process {
    /// User and system CPU time used, in microseconds.
    pub cpu_us: u64,
    /// Resident memory.
    pub resident_bytes: u64,
}

/// Something that happened at a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Happening {
    /// When, in milliseconds since 1970 by that server's clock.
    pub at_ms: u64,
    /// What.
    #[serde(flatten)]
    pub what: What,
}

/// What happened, as the server saw it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum What {
    /// The server came up.
    Started,
    /// It can take work.
    Ready,
    /// It cannot.
    Unready {
        /// Why.
        why: String,
    },
    /// Its view has a node that was not in it.
    Joined {
        /// The node.
        node: NodeId,
    },
    /// Its view has lost a node.
    Left {
        /// The node.
        node: NodeId,
    },
    /// Its view says of a node that it drains.
    Drains {
        /// The node.
        node: NodeId,
    },
    /// Its view says of a node that it drains no more.
    Serves {
        /// The node.
        node: NodeId,
    },
    /// It does not rely on a node any more.
    Suspects {
        /// The node.
        node: NodeId,
    },
    /// It relies on a node again.
    Trusts {
        /// The node.
        node: NodeId,
    },
    /// The source of its views cannot be read.
    Stale,
    /// It can be read again.
    Fresh,
    /// Clients were sent from one node to another.
    Moved {
        /// Where they were.
        from: String,
        /// Whose they are now.
        to: String,
        /// How many.
        clients: u64,
    },
    /// A server does not answer whoever collects.
    Silent {
        /// The server.
        node: NodeId,
    },
    /// A server that drained is not there any more.
    Stopped {
        /// The server.
        node: NodeId,
    },
    /// One that was silent answers again.
    Answers {
        /// The server.
        node: NodeId,
    },
    /// It is another process than before.
    Restarted {
        /// The server.
        node: NodeId,
    },
    /// Something that this release has no word for.
    #[serde(other)]
    Unknown,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn what_another_release_says_less_or_more_is_no_error() {
        let text = r#"{"id":"node-0","role":"node","novel":1,"figures":{"clients":3},
            "happenings":[{"at_ms":5,"what":"left","node":"node-1"},{"at_ms":6,"what":"sang","song":"x"}]}"#;
        let status: Status = serde_json::from_str(text).unwrap();
        assert_eq!((status.figures.clients, status.figures.totals.messages), (3, 0));
        let node = NodeId::new("node-1").unwrap();
        let happenings =
            [Happening { at_ms: 5, what: What::Left { node } }, Happening { at_ms: 6, what: What::Unknown }];
        assert_eq!(status.happenings, happenings);
    }

    #[test]
    fn a_status_is_read_as_it_was_written() {
        let id = NodeId::new("balancer-0").unwrap();
        let moved = What::Moved { from: "a".into(), to: "b".into(), clients: 7 };
        let status = Status {
            id: id.clone(),
            role: Role::Balancer,
            version: "1".into(),
            started_ms: 1,
            obstacle: Some("starting".into()),
            view: ViewStatus::default(),
            suspects: vec![id],
            figures: Figures { delays: vec![(64, 2)], ..Figures::default() },
            process: Process::default(),
            happenings: vec![Happening { at_ms: 9, what: moved }],
        };
        assert_eq!(serde_json::from_str::<Status>(&serde_json::to_string(&status).unwrap()).unwrap(), status);
    }
}
