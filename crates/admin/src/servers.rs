//! How servers are.

use serde::{Deserialize, Serialize};

use crate::Missing;

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
}

/// A balancer, as a node sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EdgeAt {
    /// Its name; none: the node's own listener.
    pub edge: Option<String>,
    /// Its internal listener, as far as the node can tell.
    #[serde(default)]
    pub address: Option<String>,
    /// How many of its clients this node serves.
    pub clients: usize,
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
    /// Whether the node that was asked does not rely on it now.
    pub suspect: bool,
    /// What it says of itself; none: it does not answer.
    pub server: Option<Server>,
}

/// A balancer that some node has a trunk from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Balancer {
    /// Its name.
    pub balancer: String,
    /// Its internal listener, where it is drained, as far as a node can tell.
    #[serde(default)]
    pub address: Option<String>,
    /// Its clients, as far as nodes say.
    pub clients: usize,
    /// How many nodes have a trunk from it.
    pub trunks: usize,
}

/// `GET /admin/nodes`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nodes {
    /// The node that was asked, by whose view this is.
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
    for EdgeAt { edge, address, clients } in nodes.flat_map(|node| &node.edges) {
        let Some(name) = edge else { continue };
        match known.iter_mut().find(|balancer| balancer.balancer == *name) {
            Some(balancer) => {
                balancer.clients += clients;
                balancer.address = balancer.address.take().or_else(|| address.clone());
                balancer.trunks += 1;
            }
            None => {
                known.push(Balancer { balancer: name.clone(), address: address.clone(), clients: *clients, trunks: 1 });
            }
        }
    }
    known.sort_by(|a, b| a.balancer.cmp(&b.balancer));
    known
}
