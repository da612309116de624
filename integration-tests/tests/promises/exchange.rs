//! Any two clients exchange messages, wherever they are attached.

use serde_json::json;
use signaling_integration_tests::{Peer, TestMesh, exchange, metric, until};

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
    let direct = mesh.id_owned_by("node-1", "direct");
    let mut direct = Peer::connect(&mesh.state().nodes[1].url, &direct).await;
    let mut behind = mesh.peer_at("node-2", "behind").await;
    exchange((&mut behind, &mut direct), &json!("hello"), 1).await;
    exchange((&mut direct, &mut behind), &json!("hello back"), 1).await;
}

#[tokio::test]
async fn message_is_retransmitted_when_the_hold_is_full() {
    /// Room for two of the messages below.
    const LIMIT: usize = 1_500;
    let mesh = TestMesh::of((1, 1), &[&format!("--hold-bytes={LIMIT}")], &[]).await;
    let node = mesh.node(0);
    let mut alice = mesh.peer("alice").await;
    let data = "x".repeat(400);
    for (id, to) in (1..).zip(["bob", "bob", "carol", "dave"]) {
        alice.signal(to, json!(data), Some(id)).await;
    }
    until(&node, "signaling_hold_refused_total", "", |refused| refused >= 2.0).await;
    let held = metric(&node, "signaling_held_bytes", "").await;
    assert!((1_000.0..=1_500.0).contains(&held), "{held}");
    assert_eq!(metric(&node, "signaling_held_bytes_limit", "").await, LIMIT as f64);

    for (name, ids) in [("bob", 1..=2), ("carol", 3..=3), ("dave", 4..=4)] {
        let mut peer = mesh.peer(name).await;
        for id in ids {
            assert_eq!(peer.recv().await["id"], id, "{name}");
            assert_eq!(alice.recv().await, json!({ "type": "ack", "id": id }));
        }
    }
}

#[tokio::test]
async fn message_is_acknowledged_when_its_reader_leaves_at_once() {
    let mesh = TestMesh::start().await;
    let mut bob = mesh.peer("bob").await;
    for id in 1..=20_u64 {
        let mut alice = mesh.peer("alice").await;
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
