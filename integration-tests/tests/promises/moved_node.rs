//! A node that comes back at another address is found there.

use serde_json::json;
use signaling_integration_tests::cut::Forwards;
use signaling_integration_tests::{Peer, TestMesh};

#[tokio::test]
async fn forwards_follow_a_node_to_its_new_address() {
    let mesh = TestMesh::start().await;
    let (alice, bob) = (mesh.id_owned_by("node-0", "alice"), mesh.id_owned_by("node-1", "bob"));
    let mut alice_peer = Peer::connect(&mesh.url(), &alice).await;
    let mut bob_peer = Peer::connect(&mesh.url(), &bob).await;
    alice_peer.signal(&bob, json!("before"), None).await;
    assert_eq!(bob_peer.recv().await["data"], "before");

    let new_address = Forwards::to(&mesh, "node-1").await;

    new_address.until_used(&mesh, "node-0").await;
    alice_peer.signal(&bob, json!("after"), None).await;
    assert_eq!(bob_peer.recv().await["data"], "after");
}
