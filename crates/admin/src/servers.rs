//! Answers about the state of servers. Each reports itself; the asked one merges the reports.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Missing;

/// Role of a server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Owns clients and routes their messages.
    #[default]
    Node,
    /// Holds client sockets.
    Balancer,
}

/// Short form of a view: a hash (16 hexadecimal digits), equal for equal views, and the node count.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ViewName {
    pub hash: String,
    pub nodes: usize,
}

impl ViewName {
    /// Creates the short form of a view from the hash of its content.
    pub fn new(hash: u64, nodes: usize) -> Self {
        Self { hash: format!("{hash:016x}"), nodes }
    }
}

/// `GET /admin/server`: the asked server, of release `version`. Fields of the other role are 0 or
/// empty.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Server {
    pub id: String,
    pub role: Role,
    pub version: String,
    /// Reason why it is not ready, as text; `None`: it is ready.
    pub obstacle: Option<String>,
    /// The asked server's view.
    pub view: ViewName,
    /// Clients with a socket; at a balancer also clients that wait for one.
    pub clients: usize,
    /// Lingering sessions at the node: they have no socket and can be resumed.
    pub lingering: usize,
    /// Bytes that the node holds for absent recipients, with 160 more for each message.
    pub held_bytes: usize,
    /// Rooms with seats of the node's clients, as members or waiting.
    pub rooms: usize,
    /// Edges with a trunk to the node, sorted by name, and its own listener.
    pub edges: Vec<EdgeOnNode>,
    /// Unix time of the process start, in ms, by the server's clock.
    pub started_ms: u64,
    /// Time since the last successful read of the discovery source, in ms.
    pub view_age_ms: u64,
    /// `true` if `view_age_ms` is so high that the source must have failed. A static list never is.
    pub view_is_stale: bool,
    /// Names of the nodes that it suspects, sorted.
    pub suspects: Vec<String>,
    /// State of the node's room journal: `up`, or why it is not written. `None`: it has none.
    pub journal: Option<String>,
    /// Seats of the node's clients as members of rooms.
    pub seats: usize,
    /// Seats of the node's clients in waiting queues.
    pub waiting: usize,
    /// Messages since the process started.
    pub totals: Totals,
    /// Delivered messages and successful room commands of this server's own sockets since the
    /// start, by the time from the read until the outcome: upper bounds in µs of the buckets in
    /// use, each with its count. A bound exceeds the time by at most an eighth and 9 µs. The last
    /// bucket, up to 69 s, has all longer times. Empty at a node without a public listener.
    pub latency_us: Vec<(u64, u64)>,
    /// Handoffs of a balancer since the process started.
    pub flows: Vec<Flow>,
    /// User and system time of the process in µs; 0: unknown.
    pub cpu_us: u64,
    /// Resident memory of the process; 0: unknown.
    pub resident_bytes: u64,
}

/// Message counts since a process started. A node counts its clients' requests, with refused and
/// retransmitted ones, as `messages`. `delivered` and `unavailable` are the outcomes of their
/// messages: with and without a confirmed delivery. A broadcast has one outcome for each member.
/// A balancer counts messages read from clients (`messages`) and those of peers queued for them
/// (`delivered`); `unavailable` is 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    pub messages: u64,
    pub delivered: u64,
    pub unavailable: u64,
}

/// Number of handoffs of clients from the node `from` to the node `to`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flow {
    pub from: String,
    pub to: String,
    pub clients: u64,
}

/// A balancer with trunks to the reporting node. `edge` is its name; `None` for the node's own
/// listener. `address` is its internal listener, `IP:PORT`; `None`: the edge sent no port. The node
/// serves `clients` of it, and received `messages` over trunks that are open now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EdgeOnNode {
    pub edge: Option<String>,
    pub address: Option<String>,
    pub clients: usize,
    pub messages: u64,
}

/// A node of the view. `address` is its internal listener, `HOST:PORT`. `zone`: `None` if discovery
/// names none. `draining`: discovery or the node itself reports a drain. `suspect`: it fails checks
/// of the asked server. `server` is its own report; `None`: [`Nodes::missing`] has the reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    pub node: String,
    pub address: String,
    pub zone: Option<String>,
    pub draining: bool,
    pub suspect: bool,
    pub server: Option<Server>,
}

/// A balancer with a trunk to some node, or the asked server itself. Nodes report its `address`
/// (`None`: none does), and the sums of `clients` and `messages`. `trunks` is the number of nodes
/// that report it; at 0 `clients` is its own number. `server` is its own report; `None`: it has no
/// trunk to the node that asks it, or did not answer in time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Balancer {
    pub balancer: String,
    pub address: Option<String>,
    pub clients: usize,
    pub trunks: usize,
    pub messages: u64,
    pub server: Option<Server>,
}

/// `GET /admin/nodes` of the server `asked`: nodes and balancers by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nodes {
    pub asked: String,
    /// The asked server's view.
    pub view: ViewName,
    pub nodes: Vec<Node>,
    pub balancers: Vec<Balancer>,
    pub missing: Vec<Missing>,
}

/// `POST /admin/drain` and `POST /admin/undrain`, also for another node: `true` after a drain. The
/// drain goes on after the answer. A stopping server answers an undrain with 409.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Draining {
    pub draining: bool,
}

/// Returns the balancers that the nodes report, sorted by name, with sums over the nodes and
/// `server: None`. Edges without a name are left out.
pub fn balancers<'a>(nodes: impl Iterator<Item = &'a Server>) -> Vec<Balancer> {
    let mut by_name: BTreeMap<&str, Balancer> = BTreeMap::new();
    for EdgeOnNode { edge, address, clients, messages } in nodes.flat_map(|node| &node.edges) {
        let Some(name) = edge else { continue };
        let new = || Balancer { balancer: name.clone(), ..Balancer::default() };
        let balancer = by_name.entry(name).or_insert_with(new);
        balancer.clients += clients;
        balancer.messages += messages;
        balancer.trunks += 1;
        balancer.address = balancer.address.take().or_else(|| address.clone());
    }
    by_name.into_values().collect()
}
