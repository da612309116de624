//! The report of a node about itself, for operator routes, and the names of its trunks' edges.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use http::HeaderMap;
use signaling_admin::servers::{EdgeOnNode, Server, Totals};
use signaling_protocol::NodeId;
use signaling_server::admin::handlers::view_name;
use signaling_server::mesh_status::ServerStatus;
use signaling_wire::trunk::{EDGE_HEADER, INTERNAL_PORT_HEADER};

use super::{DirectEdge, Node};

/// State of the operator routes on the node's own thread.
pub struct Floor {
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
        let base = self.status.report();
        let latencies = |direct: &DirectEdge| direct.edge.with_core(|core| core.delays().counts().collect());
        let latency_us: Vec<_> = self.direct.as_ref().map(latencies).unwrap_or_default();
        self.node.with_core_ref(|core| {
            let (counts, rooms) = (core.counts(), core.room_figures());
            let mut suspects: Vec<_> = core.suspects().map(|node| node.as_str().to_owned()).collect();
            suspects.sort_unstable();
            Server {
                view: view_name(core.view()),
                clients: core.sessions(),
                lingering: core.lingering(),
                held_bytes: core.held_bytes(),
                rooms: rooms.rooms,
                edges: self.node.edges(),
                suspects,
                seats: rooms.members,
                waiting: rooms.waiting,
                totals: Totals {
                    messages: counts.requests,
                    delivered: counts.delivered,
                    unavailable: counts.unavailable,
                },
                latency_us,
                ..base
            }
        })
    }
}

/// Name that an edge sent when it opened its trunk.
#[derive(Debug, Clone)]
pub(super) struct EdgeName {
    /// Name of the balancer.
    pub(super) id: NodeId,
    /// Expected address of its internal listener; `None` if the edge sent no valid port.
    internal: Option<SocketAddr>,
}

impl EdgeName {
    /// Reads the name from the headers of a trunk request of `from`; `None` without a valid name.
    pub(super) fn read(headers: &HeaderMap, from: IpAddr) -> Option<Self> {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let port = text(INTERNAL_PORT_HEADER).and_then(|port| port.parse().ok());
        let internal = port.map(|port| SocketAddr::new(from.to_canonical(), port));
        Some(Self { id: NodeId::new(text(EDGE_HEADER)?).ok()?, internal })
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
            let name = state.edges.values().find(|name| Some(name.id.as_str()) == edge);
            let address = name.and_then(|name| name.internal).map(|address| address.to_string());
            EdgeOnNode { edge: edge.map(str::to_owned), address, clients, messages }
        };
        totals.into_iter().map(edge_at).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(headers: &[(&'static str, &str)], from: &str) -> Option<(String, Option<String>)> {
        let headers = headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
        let name = EdgeName::read(&headers, from.parse().unwrap())?;
        Some((name.id.to_string(), name.internal.map(|address| address.to_string())))
    }

    #[test]
    fn edge_address_is_trunk_source_with_its_port() {
        let headers = [(EDGE_HEADER, "balancer-0"), (INTERNAL_PORT_HEADER, "7900")];
        let known = |address: &str| Some(("balancer-0".to_owned(), Some(address.to_owned())));
        assert_eq!(read(&headers, "10.0.0.5"), known("10.0.0.5:7900"));
        assert_eq!(read(&headers, "::ffff:10.0.0.5"), known("10.0.0.5:7900"));
        assert_eq!(read(&headers, "fd00::5"), known("[fd00::5]:7900"));
    }

    #[test]
    fn edge_without_a_valid_port_or_name_has_none() {
        assert_eq!(read(&[(EDGE_HEADER, "balancer-0")], "10.0.0.5"), Some(("balancer-0".to_owned(), None)));
        assert_eq!(read(&[(EDGE_HEADER, "balancer-0"), (INTERNAL_PORT_HEADER, "x")], "10.0.0.5").unwrap().1, None);
        assert_eq!(read(&[(INTERNAL_PORT_HEADER, "7900")], "10.0.0.5"), None);
        assert_eq!(read(&[(EDGE_HEADER, "a b")], "10.0.0.5"), None);
    }
}
