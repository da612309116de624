//! The report of a node about itself, for operator routes, and the names of its trunks' edges.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use http::HeaderMap;
use signaling_admin::servers::{EdgeOnNode, Server, Totals};
use signaling_server::mesh_status::ServerStatus;
use signaling_server::proofs::Opener;
use signaling_wire::trunk::INTERNAL_PORT_HEADER;

use crate::{DirectEdge, Node};

/// State of the operator routes on the node's own thread.
pub(crate) struct Floor {
    /// The node.
    pub node: Node,
    /// Its own edge; `None`: it has no public listener.
    pub direct: Option<DirectEdge>,
    /// The part of a report that all servers share.
    pub status: ServerStatus,
}

impl Floor {
    /// Returns the answer to `GET /admin/server`.
    pub(super) fn report(&self) -> Server {
        let latencies = |direct: &DirectEdge| direct.edge.with_core(|core| core.delays().counts().collect());
        let latency_us: Vec<_> = self.direct.as_ref().map(latencies).unwrap_or_default();
        self.node.with_core_ref(|core| {
            let (counts, rooms) = (core.counts(), core.rooms().figures());
            Server {
                clients: core.sessions(),
                lingering: core.lingering(),
                held_bytes: core.held_bytes(),
                rooms: rooms.rooms,
                edges: self.node.edges(),
                journal: self.node.journal_state(),
                seats: rooms.members,
                waiting: rooms.waiting,
                totals: Totals {
                    messages: counts.requests,
                    delivered: counts.delivered,
                    unavailable: counts.unavailable,
                },
                latency_us,
                ..self.status.report(core.peers().view(), core.peers().suspects())
            }
        })
    }
}

/// The balancer behind a trunk.
#[derive(Debug, Clone)]
pub(super) struct EdgeServer {
    /// Its name, and the secret that it has proven.
    pub(super) opener: Opener,
    /// Expected address of its internal listener, for operators; `None` if it sent no valid port.
    internal: Option<SocketAddr>,
}

impl EdgeServer {
    /// Reads the port from the headers of a trunk request that `opener` has sent from an address.
    pub(super) fn read(opener: Opener, headers: &HeaderMap, from: IpAddr) -> Self {
        let port = headers.get(INTERNAL_PORT_HEADER).and_then(|port| port.to_str().ok()?.parse().ok());
        Self { opener, internal: port.map(|port| SocketAddr::new(from.to_canonical(), port)) }
    }
}

impl Node {
    /// Returns edges of this node's trunks, sorted by name; unnamed ones and its own count as one.
    fn edges(&self) -> Vec<EdgeOnNode> {
        let state = self.0.borrow();
        let mut totals: BTreeMap<Option<&str>, (usize, u64)> = BTreeMap::new();
        for (edge, clients, messages) in state.core.edges() {
            let total = totals.entry(edge).or_default();
            *total = (total.0 + clients, total.1 + messages);
        }
        let edge_at = |(edge, (clients, messages)): (Option<&str>, (usize, u64))| {
            let server = state.edges.values().find(|server| Some(server.opener.server.as_str()) == edge);
            let address = server.and_then(|server| server.internal).map(|address| address.to_string());
            EdgeOnNode { edge: edge.map(str::to_owned), address, clients, messages }
        };
        totals.into_iter().map(edge_at).collect()
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderName;
    use signaling_protocol::NodeId;
    use signaling_server::MeshSecret;

    use super::*;

    #[test]
    fn edge_address_is_trunk_source_with_its_port() {
        let read = |port: &'static str, from: &str| {
            let headers =
                HeaderMap::from_iter([(HeaderName::from_static(INTERNAL_PORT_HEADER), port.parse().unwrap())]);
            let secret = MeshSecret::new("00".repeat(32)).unwrap();
            let opener = Opener { server: NodeId::new("balancer-0").unwrap(), secret };
            EdgeServer::read(opener, &headers, from.parse().unwrap()).internal.map(|address| address.to_string())
        };
        assert_eq!(read("7900", "10.0.0.5").as_deref(), Some("10.0.0.5:7900"));
        assert_eq!(read("7900", "::ffff:10.0.0.5").as_deref(), Some("10.0.0.5:7900"));
        assert_eq!(read("7900", "fd00::5").as_deref(), Some("[fd00::5]:7900"));
        assert_eq!(read("x", "10.0.0.5"), None);
    }
}
