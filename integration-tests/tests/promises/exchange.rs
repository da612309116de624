//! Any two clients exchange messages, wherever they are attached.

use serde_json::json;
use signaling_integration_tests::{Peer, Relay, TestMesh, metric, until};

#[tokio::test]
async fn clients_exchange_signals_when_attached_anywhere() {
    let mesh = TestMesh::start().await;
    let ids = ["node-0", "node-0", "node-1", "node-2"];
    let ids: Vec<_> = ids.iter().enumerate().map(|(n, node)| mesh.id_owned_by(node, &format!("peer{n}"))).collect();
    let mut peers = mesh.connect(ids.clone()).await;
    for from in 0..ids.len() {
        // A client may send to itself.
        for to in 0..ids.len() {
            let data = json!({ "sdp": format!("{from} to {to}"), "deep": [1, {"x": null}] });
            peers[from].signal(&ids[to], data.clone(), Some(1 + to as u64)).await;
            let got = peers[to].recv().await;
            assert_eq!(got, json!({ "type": "signal", "from": ids[from], "data": data, "id": 1 + to as u64 }));
            assert_eq!(peers[from].recv().await, json!({ "type": "ack", "id": 1 + to as u64 }));
        }
    }
}

#[tokio::test]
async fn direct_client_exchanges_signals_with_any_client() {
    let mesh = TestMesh::start().await;
    let nodes = mesh.mesh.state().nodes;
    let (direct, behind) = (mesh.id_owned_by("node-1", "direct"), mesh.id_owned_by("node-2", "behind"));
    let mut direct_peer = Peer::connect(&nodes[1].public, &direct).await;
    let mut behind_peer = Peer::connect(&mesh.url(), &behind).await;
    behind_peer.signal(&direct, json!("hello"), None).await;
    assert_eq!(direct_peer.recv().await["data"], "hello");
    direct_peer.signal(&behind, json!("hello back"), None).await;
    assert_eq!(behind_peer.recv().await["data"], "hello back");
}

#[tokio::test]
async fn message_is_held_until_its_recipient_connects() {
    let mesh = TestMesh::start().await;
    let (sender, late) = (mesh.id_owned_by("node-0", "sender"), mesh.id_owned_by("node-1", "late"));
    let mut alice = Peer::connect(&mesh.url(), &sender).await;
    for n in 0..3 {
        alice.signal(&late, json!(n), Some(n + 1)).await;
    }
    until(&mesh.node(1), "signaling_held_bytes", "", |bytes| bytes > 0.0).await;
    let mut bob = Peer::connect(&mesh.url(), &late).await;
    for n in 0..3 {
        assert_eq!(bob.recv().await["data"], n);
        assert_eq!(alice.recv().await, json!({ "type": "ack", "id": n + 1 }));
    }
}

#[tokio::test]
async fn message_is_retransmitted_when_the_hold_is_full() {
    /// Room for two of the messages below.
    const LIMIT: usize = 1_500;
    let flags = vec![format!("--hold-bytes={LIMIT}")];
    let mesh = TestMesh::with(|options| (options.nodes, options.node_args) = (1, flags)).await;
    let node = mesh.node(0);
    let mut alice = Peer::connect(&mesh.url(), "alice").await;
    let data = "x".repeat(400);
    for (id, to) in (1..).zip(["bob", "bob", "carol", "dave"]) {
        alice.signal(to, json!(data), Some(id)).await;
    }
    until(&node, "signaling_hold_refused_total", "", |refused| refused >= 2.0).await;
    let held = metric(&node, "signaling_held_bytes", "").await;
    assert!((1_000.0..=1_500.0).contains(&held), "{held}");
    assert_eq!(metric(&node, "signaling_held_bytes_limit", "").await, LIMIT as f64);

    for (name, ids) in [("bob", 1..=2), ("carol", 3..=3), ("dave", 4..=4)] {
        let mut peer = Peer::connect(&mesh.url(), name).await;
        for id in ids {
            assert_eq!(peer.recv().await["id"], id, "{name}");
            assert_eq!(alice.recv().await, json!({ "type": "ack", "id": id }));
        }
    }
}

#[tokio::test]
async fn message_is_acknowledged_when_its_reader_leaves_at_once() {
    let mesh = TestMesh::start().await;
    let mut bob = Peer::connect(&mesh.url(), "bob").await;
    for id in 1..=20_u64 {
        let mut alice = Peer::connect(&mesh.url(), "alice").await;
        bob.signal("alice", json!(1), Some(id)).await;
        alice.recv_type("signal").await;
        if id % 2 == 0 {
            drop(alice);
        } else {
            alice.close().await;
        }
        assert_eq!(bob.recv().await, json!({ "type": "ack", "id": id }));
    }
}

#[tokio::test]
async fn forwards_follow_a_node_to_its_new_address() {
    let mesh = TestMesh::start().await;
    let (alice, bob) = (mesh.id_owned_by("node-0", "alice"), mesh.id_owned_by("node-1", "bob"));
    let mut alice_peer = Peer::connect(&mesh.url(), &alice).await;
    let mut bob_peer = Peer::connect(&mesh.url(), &bob).await;
    alice_peer.signal(&bob, json!("before"), None).await;
    assert_eq!(bob_peer.recv().await["data"], "before");

    let new_address = Relay::to_node(&mesh, "node-1").await;

    new_address.until_used(&mesh, "node-0", "node-1").await;
    alice_peer.signal(&bob, json!("after"), None).await;
    assert_eq!(bob_peer.recv().await["data"], "after");
}
