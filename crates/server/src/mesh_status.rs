//! Status of this server and of all reachable servers, for `/admin/server` and `/admin/nodes`. The
//! operators' handlers of both servers call it.

use std::rc::Rc;
use std::time::Duration;

use ::http::Method;
use signaling_admin::Missing;
use signaling_admin::servers::{Balancer, Node, Nodes, Role, Server, balancers};
use signaling_discovery::Discovery;
use signaling_membership::{NodeEntry, View};
use signaling_protocol::NodeId;
use tokio::time::timeout;

use crate::admin::BETWEEN_SERVERS;
use crate::admin::handlers::view_name;
use crate::server_client::{ServerClient, TOTAL_TIMEOUT};
use crate::{Common, Health, process, unix_time};

/// Maximum time for a server's report, which comes from its memory. Short, since the dashboard
/// requests all reports once a second.
pub const REPORT_TIMEOUT: Duration = Duration::from_millis(700);

/// Source of this server's own report. It stays on the server's thread, as it is not `Send`.
pub struct ServerStatus {
    id: NodeId,
    role: Role,
    started_ms: u64,
    stale_after: Option<Duration>,
    health: Health,
    discovery: Rc<Discovery>,
}

impl ServerStatus {
    /// Returns the status of a server that starts now.
    pub fn new(common: &Common, role: Role, health: Health, discovery: Rc<Discovery>) -> Self {
        let (id, stale_after) = (common.id.clone(), common.discovery.stale_after());
        Self { id, role, started_ms: millis(unix_time()), stale_after, health, discovery }
    }

    /// Returns the current report, with the view in use and its suspect nodes. The fields that
    /// depend on the role are 0 or empty: the caller adds clients, messages and the like.
    pub fn report<'a>(&self, view: &View, suspects: impl Iterator<Item = &'a NodeId>) -> Server {
        let age = self.discovery.age();
        let mut suspects: Vec<_> = suspects.map(|node| node.as_str().to_owned()).collect();
        suspects.sort_unstable();
        Server {
            id: self.id.as_str().to_owned(),
            role: self.role,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            obstacle: self.health.obstacle().map(str::to_owned),
            view: view_name(view),
            suspects,
            started_ms: self.started_ms,
            view_age_ms: millis(age),
            view_is_stale: self.stale_after.is_some_and(|limit| age > limit),
            cpu_us: process::cpu().map_or(0, |cpu| u64::try_from(cpu.as_micros()).unwrap_or(u64::MAX)),
            resident_bytes: process::resident_bytes().unwrap_or_default(),
            ..Server::default()
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Requests reports of the nodes of `view`, within 5 s together and at most 700 ms each. `own` is
/// the report of this server, `edges` has those of the balancers that it knows of. Each member of
/// the view and each balancer with a trunk to a node is listed, without a report as `server: None`.
/// `missing` has the reason of each node without one, or with another server at its address.
pub async fn ask_all(
    client: &ServerClient,
    view: &View,
    own: Server,
    edges: impl Future<Output = Vec<Server>>,
) -> Nodes {
    let path = format!("{BETWEEN_SERVERS}/server");
    let client = client.at_most(REPORT_TIMEOUT);
    let asked = client.request_all::<Server>(view, &own.id, Method::GET, &path);
    let (mut nodes, mut reports) = tokio::join!(asked, edges);
    // After a restart a server may have the address of another one.
    let others = nodes.answers.extract_if(.., |(id, server)| server.id != id.as_str());
    let other = |(id, server): (NodeId, Server)| Missing {
        node: id.to_string(),
        why: format!("{} answers at its address", server.id),
    };
    nodes.missing.extend(others.map(other));
    nodes.missing.sort();
    reports.extend(nodes.answers.into_iter().map(|(_, server)| server));
    reports.push(own.clone());

    let mut balancers = balancers(reports.iter());
    if own.role == Role::Balancer && balancers.iter().all(|balancer| balancer.balancer != own.id) {
        let (balancer, clients) = (own.id.clone(), own.clients);
        balancers.push(Balancer { balancer, address: None, clients, trunks: 0, messages: 0, server: None });
        balancers.sort_by(|one, other| one.balancer.cmp(&other.balancer));
    }
    let report = |id: &str| reports.iter().find(|server| server.id == id).cloned();
    for balancer in &mut balancers {
        balancer.server = report(&balancer.balancer);
    }

    let node = |member: &NodeEntry| {
        let (node, server) = (member.id.as_str().to_owned(), report(member.id.as_str()));
        let reports_drain = server.as_ref().is_some_and(|server| server.obstacle.as_deref() == Some(Health::DRAINING));
        let (suspect, draining) = (own.suspects.contains(&node), member.draining || reports_drain);
        let (address, zone) = (member.address.as_str().to_owned(), member.zone.clone().map(String::from));
        Node { node, address, zone, draining, suspect, server }
    };
    let (nodes, missing) = (view.members().iter().map(node).collect(), nodes.missing);
    Nodes { asked: own.id, view: own.view, nodes, balancers, missing }
}

/// Path below [`BETWEEN_SERVERS`] at which a node returns the reports of the balancers with trunks
/// to it.
pub const EDGES: &str = "/edges";

/// Requests the reports of balancers from the nodes of `view`, one after the other, until one
/// answers within 700 ms. Returns none if no node does within 5 s.
pub async fn ask_for_edges(client: &ServerClient, view: &View) -> Vec<Server> {
    let path = format!("{BETWEEN_SERVERS}{EDGES}");
    let client = client.at_most(REPORT_TIMEOUT);
    let first_answer = async {
        for node in view.members() {
            if let Ok(edges) = client.request_json(node, Method::GET, &path).await {
                return edges;
            }
        }
        Vec::new()
    };
    timeout(TOTAL_TIMEOUT, first_answer).await.unwrap_or_default()
}

#[cfg(test)]
mod tests;
