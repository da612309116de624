//! Direct clients that a new view gives to another node are told so, one by one, and nobody else is disturbed.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use signaling_integration_tests::{Peer, TestMesh};
use tokio::task::JoinSet;
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

    let start = Instant::now();
    mesh.mesh.scale(3).await.unwrap();
    let moved: JoinSet<_> = clients
        .extract_if(.., |(_, id)| mesh.owner(id) == "node-2")
        .map(|(mut peer, id)| async move {
            let goodbye = peer.recv_type("goodbye").await;
            assert!(goodbye["retry_after_ms"].as_u64().unwrap() <= 1_000, "{goodbye}");
            assert_eq!(u16::from(peer.closed().await.unwrap().code), 4006, "{id}");
            start.elapsed()
        })
        .collect();
    let closed = moved.join_all().await;

    assert!(closed.len() > 5 && clients.len() > 20, "{} of {CLIENTS} move", closed.len());
    let (first, last) = (closed.iter().min().unwrap(), closed.iter().max().unwrap());
    assert!(*last - *first > WINDOW / 3, "they go one by one: {closed:?}");
    for (peer, _) in &mut clients {
        peer.send_text(r#"{"type":"ping"}"#).await;
        peer.recv_type("pong").await;
    }
}

/// Clients at the nodes that own them.
async fn direct_clients(mesh: &TestMesh) -> Vec<(Peer, String)> {
    let nodes = mesh.mesh.state().nodes;
    let mut clients = Vec::new();
    for number in 0..CLIENTS {
        let id = format!("client-{number}");
        let node = nodes.iter().find(|node| node.id == mesh.owner(&id)).unwrap();
        clients.push((Peer::connect(&node.public, &id).await, id));
    }
    clients
}
