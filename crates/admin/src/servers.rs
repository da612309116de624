//! State of servers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Missing;
use crate::preview::Flow;

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

/// A set of nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ViewName {
    pub hash: String,
    pub nodes: usize,
}

impl ViewName {
    /// Creates the short form of a view from the hash of its content.
    #[must_use]
    pub fn new(hash: u64, nodes: usize) -> Self {
        Self { hash: format!("{hash:016x}"), nodes }
    }
}

/// `GET /admin/server`: state of the asked server alone.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Server {
    pub id: String,
    pub role: Role,
    pub version: String,
    pub obstacle: Option<String>,
    /// The asked server's view.
    pub view: ViewName,
    pub clients: usize,
    pub lingering: usize,
    pub held_bytes: usize,
    pub rooms: usize,
    pub edges: Vec<EdgeOnNode>,
    pub started_ms: u64,
    pub view_age_ms: u64,
    pub view_is_stale: bool,
    pub suspects: Vec<String>,
    pub seats: usize,
    pub waiting: usize,
    /// Messages since the process started.
    pub totals: Totals,
    pub latency_us: Vec<(u64, u64)>,
    pub flows: Vec<Flow>,
    pub cpu_us: u64,
    pub resident_bytes: u64,
}

/// Message counts since a process started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    pub messages: u64,
    pub delivered: u64,
    pub unavailable: u64,
}

/// A balancer with a trunk to the reporting node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EdgeOnNode {
    pub edge: Option<String>,
    pub address: Option<String>,
    pub clients: usize,
    pub messages: u64,
}

/// A node of the view.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    pub node: String,
    pub address: String,
    pub draining: bool,
    pub suspect: bool,
    pub server: Option<Server>,
}

/// A balancer with a trunk to some node, or the asked server itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Balancer {
    pub balancer: String,
    pub address: Option<String>,
    pub clients: usize,
    pub trunks: usize,
    pub messages: u64,
    pub server: Option<Server>,
}

/// `GET /admin/nodes`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nodes {
    pub asked: String,
    /// The asked server's view.
    pub view: ViewName,
    pub nodes: Vec<Node>,
    pub balancers: Vec<Balancer>,
    pub missing: Vec<Missing>,
}

/// `POST /admin/drain` and `POST /admin/undrain`, also for another node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Draining {
    pub draining: bool,
}

/// Returns the balancers that the nodes report, sorted by name.
#[must_use]
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
