//! A server that an operator drains loses its clients gracefully, and gets clients again once it is
//! undrained.

use std::time::Duration;

use serde_json::json;
use signaling_integration_tests::{Head, Peer, TestMesh, admin, becomes, get, metric, refused, stays, talk, until};

const CLIENTS: usize = 30;
/// Drain time in milliseconds. The balancer closes its clients over this time less 1 s.
const DRAIN_MS: u64 = 2_000;

#[tokio::test]
async fn drained_node_hands_off_its_clients_until_undrained() {
    let mesh = TestMesh::start().await;
    let node = mesh.node_internal(0);
    let ids = (0..CLIENTS).map(|number| mesh.id_owned_by("node-0", &format!("client{number}")));
    let mut peers = mesh.connect(ids).await;
    becomes(&node, "signaling_sessions", CLIENTS).await;

    assert_eq!(admin(&node, "POST", "drain").await, json!({ "draining": true }));
    assert_eq!(get(&node, "/readyz").await.status, 503);
    becomes(&node, "signaling_sessions", 0).await;
    mesh.until_handed_off(CLIENTS).await;
    talk(&mut peers, "while it drains").await;

    assert_eq!(admin(&node, "POST", "undrain").await, json!({ "draining": false }));
    assert_eq!(get(&node, "/readyz").await.status, 200);
    becomes(&node, "signaling_sessions", CLIENTS).await;
    mesh.until_handed_off(2 * CLIENTS).await;
    talk(&mut peers, "after it").await;
}

#[tokio::test]
async fn drained_balancer_closes_its_clients_until_undrained() {
    let (mesh, balancer, peers) = balancer_with_clients().await;

    // Any node passes it on.
    assert_eq!(admin(&mesh.node_internal(1), "POST", "nodes/balancer-0/drain").await, json!({ "draining": true }));
    assert_eq!(get(&balancer, "/readyz").await.status, 503);
    let refusal = refused(&mesh.address(), Head::connect("newcomer"), (503, "draining")).await;
    assert!(refusal.header("retry-after").is_some(), "{refusal:?}");
    for mut peer in peers {
        peer.until_sent_away(1001).await;
    }

    admin(&balancer, "POST", "undrain").await;
    assert_eq!(get(&balancer, "/readyz").await.status, 200);
    let mut peers = mesh.connect(["client-0", "client-1"].map(str::to_owned)).await;
    talk(&mut peers, "again").await;
}

#[tokio::test]
async fn undrain_keeps_the_clients_that_are_not_closed_yet() {
    let (_mesh, balancer, _peers) = balancer_with_clients().await;
    let sockets = async || metric(&balancer, "signaling_client_sockets", "").await;

    admin(&balancer, "POST", "drain").await;
    until(&balancer, "signaling_client_sockets", "", |sockets| sockets < CLIENTS as f64).await;
    admin(&balancer, "POST", "undrain").await;

    let left = sockets().await;
    assert!(left > 0.0);
    let stay = Duration::from_millis(DRAIN_MS);
    stays("no client is closed any more", stay, async || sockets().await == left).await;
}

/// Returns a mesh of three nodes, the internal listener of its balancer, and the clients of that.
async fn balancer_with_clients() -> (TestMesh, String, Vec<Peer>) {
    let mesh = TestMesh::with_servers((3, 1), &[], &[&format!("--drain-ms={DRAIN_MS}")]).await;
    let peers = mesh.connect((0..CLIENTS).map(|number| format!("client-{number}"))).await;
    let balancer = mesh.balancer_internal();
    (mesh, balancer, peers)
}
