//! What the page is sent: the whole mesh at one moment, as one server sees it.

use serde::Serialize;
use signaling_protocol::NodeId;

use crate::status::Role;
use crate::story::Story;

/// The whole mesh at one moment.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Snapshot {
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
    /// The server that asked all others.
    pub by: NodeId,
    /// All together.
    pub mesh: Sum,
    /// Each, nodes first, then by name.
    pub servers: Vec<Server>,
    /// What has happened lately, oldest first.
    pub stories: Vec<Story>,
}

/// What all servers that answer come to.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Sum {
    /// Sessions with a socket, as the nodes count them.
    pub clients: u64,
    /// Sessions without one that can be resumed.
    pub lingering: u64,
    /// Seats in rooms.
    pub seats: u64,
    /// Places in lines.
    pub waiting: u64,
    /// Requests a second that nodes took; none before the second look.
    pub messages_per_s: Option<f64>,
    /// Messages a second that were delivered.
    pub delivered_per_s: Option<f64>,
    /// Messages a second that were given up.
    pub unavailable_per_s: Option<f64>,
    /// The p99 of the time from an edge's reading a message until it was known there that it was delivered, in microseconds, over the last ten
    /// seconds; none if nothing was sent.
    pub p99_us: Option<u64>,
}

/// One server at that moment. Figures of one that is silent are its last.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Server {
    /// Its name.
    pub id: NodeId,
    /// What it does.
    pub role: Role,
    /// How it is.
    #[serde(flatten)]
    pub state: State,
    /// Who does not rely on it.
    pub suspected_by: Vec<NodeId>,
    /// If its view of the mesh is not that of the collecting server: since how many milliseconds.
    pub other_view_ms: Option<u64>,
    /// Whether the source of its views cannot be read.
    pub is_stale: bool,
    /// How long ago that was last read well, in milliseconds.
    pub discovery_age_ms: u64,
    /// Its release.
    pub version: String,
    /// For how long it runs, in milliseconds; none if it was never asked.
    pub up_ms: Option<u64>,
    /// Its clients.
    pub clients: u64,
    /// Those of a node's own public listener.
    pub direct_clients: u64,
    /// Sessions without a socket that can be resumed.
    pub lingering: u64,
    /// Rooms with somebody at this node.
    pub rooms: u64,
    /// Seats in rooms of its clients.
    pub seats: u64,
    /// Messages from its clients a second.
    pub messages_per_s: Option<f64>,
    /// Messages delivered a second.
    pub delivered_per_s: Option<f64>,
    /// Cores that its process uses: 1 is one of them.
    pub cpu: Option<f64>,
    /// Its resident memory.
    pub resident_bytes: u64,
    /// Of an edge: as in [`Sum::p99_us`].
    pub p99_us: Option<u64>,
}

/// How a server is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum State {
    /// It takes work.
    Serving,
    /// It hands over what it has.
    Draining,
    /// It takes no work.
    Unready {
        /// Why.
        why: String,
    },
    /// It should answer, and does not.
    Silent {
        /// For so many milliseconds.
        silent_ms: u64,
        /// What comes instead.
        why: String,
    },
    /// A balancer that answers nodes, which alone tell of it: nothing leads to its internal listener from here.
    Indirect {
        /// For so many milliseconds.
        silent_ms: u64,
    },
    /// It does not answer, and nobody names it any more.
    Gone {
        /// For so many milliseconds.
        silent_ms: u64,
    },
}
