//! Direct clients that their node cannot keep, because it drains or a new view moves them, receive
//! a `goodbye` one by one. Other clients do not notice.

use std::time::Duration;

use serde_json::json;
use signaling_integration_tests::{Head, Peer, TestMesh, admin, refused};
use tokio::task::JoinSet;
use tokio::time::Instant;

const CLIENTS: usize = 60;
const WINDOW: Duration = Duration::from_secs(3);
/// Drain time of a node. It closes its direct clients over half of this time less 1 s:
/// [`WINDOW`].
const DRAIN: Duration = Duration::from_secs(8);

#[tokio::test]
async fn reassigned_direct_clients_are_closed_over_the_window() {
    let mesh = TestMesh::with_servers((2, 0), &[&format!("--reassign-window-ms={}", WINDOW.as_millis())], &[]).await;
    let mut clients = direct_clients(&mesh).await;

    let start = Instant::now();
    mesh.scale(3).await.unwrap();
    let moved = clients.extract_if(.., |peer| mesh.owner(&peer.id) == "node-2").collect();
    let closed = are_closed(moved, 4006, start).await;

    assert!(closed.len() > 5 && clients.len() > 20, "{} of {CLIENTS} move", closed.len());
    assert_one_by_one(&closed);
    are_undisturbed(&mut clients).await;
}

#[tokio::test]
async fn drained_node_closes_direct_clients_until_undrained() {
    let mesh = TestMesh::with_servers((2, 0), &[&format!("--drain-ms={}", DRAIN.as_millis())], &[]).await;
    let node = mesh.state().nodes[1].clone();
    let mut clients = direct_clients(&mesh).await;
    let there: Vec<_> = clients.extract_if(.., |peer| mesh.owner(&peer.id) == node.id).collect();
    let id = there[0].id.clone();

    assert_eq!(admin(&node.internal, "POST", "drain").await, json!({ "draining": true }));
    refused(&node.url, Head::connect("newcomer"), (503, "draining")).await;
    assert_one_by_one(&are_closed(there, 1001, Instant::now()).await);

    assert_eq!(admin(&node.internal, "POST", "undrain").await, json!({ "draining": false }));
    clients.push(Peer::connect(&node.url, &id).await);
    are_undisturbed(&mut clients).await;
}

/// Waits until each client is closed with this code and a `goodbye`. Returns the times since
/// `start`.
async fn are_closed(clients: Vec<Peer>, code: u16, start: Instant) -> Vec<Duration> {
    let closing = clients.into_iter().map(|mut peer| async move {
        peer.until_sent_away(code).await;
        start.elapsed()
    });
    closing.collect::<JoinSet<_>>().join_all().await
}

fn assert_one_by_one(closed: &[Duration]) {
    let (first, last) = (closed.iter().min().unwrap(), closed.iter().max().unwrap());
    assert!(*last - *first > WINDOW / 3, "they are closed one by one: {closed:?}");
}

async fn are_undisturbed(clients: &mut [Peer]) {
    for peer in clients {
        assert!(peer.has_nothing().await, "{}", peer.id);
    }
}

async fn direct_clients(mesh: &TestMesh) -> Vec<Peer> {
    let nodes = mesh.state().nodes;
    let mut clients = Vec::new();
    for number in 0..CLIENTS {
        let id = format!("client-{number}");
        let node = nodes.iter().find(|node| node.id == mesh.owner(&id)).unwrap();
        clients.push(Peer::connect(&node.url, &id).await);
    }
    clients
}
