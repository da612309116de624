//! Any two clients exchange messages, wherever they are attached.

use serde_json::json;
use signaling_integration_tests::{Peer, TestMesh, exchange};

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
    let mut behind = mesh.peer_owned_by("node-2", "behind").await;
    exchange((&mut behind, &mut direct), &json!("hello"), 1).await;
    exchange((&mut direct, &mut behind), &json!("hello back"), 1).await;
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
