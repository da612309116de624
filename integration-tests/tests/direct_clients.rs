//! Direct clients that a new view gives to another node are told so, one by one, and nobody else is disturbed.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use futures_util::future::join_all;
use signaling_integration_tests::{Peer, TestMesh};
use tokio::time::Instant;

const CLIENTS: usize = 60;
const WINDOW: Duration = Duration::from_secs(3);

#[tokio::test]
async fn those_whom_a_new_node_owns_are_sent_there_over_the_window() {
    let mesh = TestMesh::with(|options| {
        (options.nodes, options.balancers) = (2, 0);
        options.node_args = vec![format!("--reassign-window-ms={}", WINDOW.as_millis())];
    })
    .await;
    let mut clients = direct_clients(&mesh).await;
    let before = Instant::now();
    mesh.mesh.scale(3).await.unwrap();

    let moved = clients.extract_if(.., |(_, id)| mesh.owner(id) == "node-2");
    let closed = join_all(moved.map(async |(mut peer, id)| {
        let goodbye = peer.recv_type("goodbye").await;
        assert!(goodbye["retry_after_ms"].as_u64().unwrap() <= 1_000, "{goodbye}");
        assert_eq!(u16::from(peer.closed().await.unwrap().code), 4006, "{id}");
        before.elapsed()
    }))
    .await;

    assert!(closed.len() > 5 && clients.len() > 20, "{} of {CLIENTS} move", closed.len());
    let (first, last) = (closed.iter().min().unwrap(), closed.iter().max().unwrap());
    assert!(*last - *first > WINDOW / 3, "they go one by one: {closed:?}");
    join_all(clients.iter_mut().map(async |(peer, _)| is_served(peer).await)).await;
}

/// Clients at the nodes that own them.
async fn direct_clients(mesh: &TestMesh) -> Vec<(Peer, String)> {
    let nodes = mesh.mesh.state().nodes;
    let clients = (0..CLIENTS).map(|number| {
        let id = format!("client-{number}");
        let node = nodes.iter().find(|node| node.id == mesh.owner(&id)).unwrap();
        async move { (Peer::connect(&node.public, &id).await, id) }
    });
    join_all(clients).await
}

async fn is_served(peer: &mut Peer) {
    peer.send_text(r#"{"type":"ping"}"#).await;
    peer.recv_type("pong").await;
}
