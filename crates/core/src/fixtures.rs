//! Views, nodes, and clients at an edge, for the unit tests of several modules.

use std::sync::Arc;
use std::time::{Instant, UNIX_EPOCH};

use signaling_protocol::{ClientId, NodeId};
use signaling_wire::{Incarnation, SessionId, SocketId, resume};

use crate::edge::{ClientKey, ConnectRequest, EdgeCore, LinkKey, Newcomer};
use crate::node::{NodeCore, Settings};
use signaling_membership::{NodeEntry, View};

/// Returns a view of these nodes. A node with the prefix `-` drains.
pub(crate) fn view(nodes: &[&str]) -> Arc<View> {
    let member = |marked: &&str| {
        let id = marked.trim_start_matches('-');
        let address = format!("{id}:1").parse().unwrap();
        NodeEntry { id: NodeId::new(id).unwrap(), address, draining: marked.starts_with('-'), zone: None }
    };
    Arc::new(View::new(nodes.iter().map(member)).unwrap())
}

/// Returns a node whose view has `nodes`, without clients.
pub(crate) fn mesh_node(id: &str, nodes: &[&str]) -> NodeCore {
    let now = Instant::now();
    let settings =
        Settings::new(NodeId::new(id).unwrap(), Incarnation([0; 8]), resume::Key::new([1; 32]), (now, UNIX_EPOCH));
    let mut node = NodeCore::new(settings);
    node.set_view(now, view(nodes));
    node
}

/// Adds the client with this number to an edge, and attaches it to a link.
pub(crate) fn attach_client(core: &mut EdgeCore, now: Instant, link: LinkKey, number: u8) -> ClientKey {
    let client_id = ClientId::new(&format!("client-{number}")).unwrap();
    let (session, socket, request) = (SessionId([number; 16]), SocketId([number; 8]), ConnectRequest::default());
    let newcomer = Newcomer { client_id, session, socket, since_ms: 1, reliable: false, request };
    let client = core.connect(now, newcomer, None);
    core.attach(now, client, link);
    client
}
