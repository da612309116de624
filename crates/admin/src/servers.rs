//! How servers are.

use serde::{Deserialize, Serialize};

use crate::Missing;
use crate::preview::Flow;

/// Which kind of server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// It owns clients and routes their messages.
    Node,
    /// It holds clients' sockets.
    Balancer,
}

/// A set of nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ViewName {
    /// A hash of its content: servers with the same one see the same nodes.
    pub hash: String,
    /// How many nodes.
    pub nodes: usize,
}

impl ViewName {
    /// Names a view by the hash of its content.
    #[must_use]
    pub fn new(hash: u64, nodes: usize) -> Self {
        Self { hash: format!("{hash:016x}"), nodes }
    }
}

/// `GET /admin/server`: the server that was asked, and no other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Server {
    /// Its name.
    pub id: String,
    /// What it is.
    pub role: Role,
    /// Its release.
    pub version: String,
    /// Why it takes no work now; none: it does.
    pub obstacle: Option<String>,
    /// What it sees of the mesh.
    pub view: ViewName,
    /// Clients: with a session at this node, or with a socket at this balancer.
    pub clients: usize,
    /// Sessions without a socket that wait for their clients here.
    pub lingering: usize,
    /// Bytes that wait for absent recipients here.
    pub held_bytes: usize,
    /// Rooms that somebody here is in.
    pub rooms: usize,
    /// The balancers that a node has a trunk from, with its clients there.
    pub edges: Vec<EdgeAt>,
    /// When its process started, in milliseconds since 1970 by its own clock. A restart changes it.
    pub started_ms: u64,
    /// Milliseconds since it last read its discovery source.
    pub view_age_ms: u64,
    /// Whether `view_age_ms` is so high that the source must have failed.
    pub view_is_stale: bool,
    /// Nodes that it suspects, sorted.
    pub suspects: Vec<String>,
    /// Seats of a node's clients as members of rooms.
    pub seats: usize,
    /// Seats of a node's clients in waiting queues.
    pub waiting: usize,
    /// Messages since the process started.
    pub totals: Totals,
    /// Delivered messages since the process started, by the time from the edge that read a message until the edge had its
    /// delivery outcome. Pairs of an upper bound in microseconds and a count; the lower bound is the bound of the pair before.
    pub latency_us: Vec<(u64, u64)>,
    /// Clients that a balancer has moved between nodes since the process started.
    pub flows: Vec<Flow>,
    /// User and system CPU time of the process, in microseconds.
    pub cpu_us: u64,
    /// Resident memory of the process, in bytes.
    pub resident_bytes: u64,
}

/// Messages since a process started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// At a node: requests of its clients. At a balancer: messages read from clients.
    pub messages: u64,
    /// At a node: delivered messages of its clients. At a balancer: messages written to clients.
    pub delivered: u64,
    /// At a node: messages of its clients with the outcome unavailable.
    pub unavailable: u64,
}

/// A balancer, as a node sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EdgeAt {
    /// Its name; none: the node's own listener.
    pub edge: Option<String>,
    /// Its internal listener, as far as the node can tell.
    pub address: Option<String>,
    /// How many of its clients this node serves.
    pub clients: usize,
    /// Messages from its trunks that are open now.
    pub messages: u64,
}

/// A node of the view.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// Its name.
    pub node: String,
    /// Its internal listener, as other servers reach it.
    pub address: String,
    /// Whether discovery, or the node itself, says that it takes no clients any more.
    pub draining: bool,
    /// Whether the server that was asked does not rely on it now.
    pub suspect: bool,
    /// What it says of itself; none: it does not answer.
    pub server: Option<Server>,
}

/// A balancer that some node has a trunk from, or that was asked itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Balancer {
    /// Its name.
    pub balancer: String,
    /// Its internal listener, where it is drained, as far as a node can tell.
    pub address: Option<String>,
    /// Its clients, as far as nodes say.
    pub clients: usize,
    /// How many nodes have a trunk from it.
    pub trunks: usize,
    /// Messages from its trunks that are open now.
    pub messages: u64,
    /// Its own answer; none: it does not answer the server that was asked.
    pub server: Option<Server>,
}

/// `GET /admin/nodes`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nodes {
    /// The server that was asked, by whose view this is.
    pub asked: String,
    /// What it sees.
    pub view: ViewName,
    /// By name.
    pub nodes: Vec<Node>,
    /// By name.
    pub balancers: Vec<Balancer>,
    /// Nodes that did not answer.
    pub missing: Vec<Missing>,
}

/// `POST /admin/drain` and `POST /admin/undrain`, and the same of another node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Draining {
    /// Whether the server is out of service now.
    pub draining: bool,
}

/// The balancers that nodes speak of.
#[must_use]
pub fn balancers<'a>(nodes: impl Iterator<Item = &'a Server>) -> Vec<Balancer> {
    let mut known: Vec<Balancer> = Vec::new();
    for EdgeAt { edge, address, clients, messages } in nodes.flat_map(|node| &node.edges) {
        let Some(name) = edge else { continue };
        match known.iter_mut().find(|balancer| balancer.balancer == *name) {
            Some(balancer) => {
                balancer.clients += clients;
                balancer.messages += messages;
                balancer.address = balancer.address.take().or_else(|| address.clone());
                balancer.trunks += 1;
            }
            None => {
                let (balancer, address) = (name.clone(), address.clone());
                let (clients, messages) = (*clients, *messages);
                known.push(Balancer { balancer, address, clients, trunks: 1, messages, server: None });
            }
        }
    }
    known.sort_by(|a, b| a.balancer.cmp(&b.balancer));
    known
}
