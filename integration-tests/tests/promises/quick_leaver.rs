//! A message that reached its recipient's socket is acknowledged, though its reader leaves at once.

use serde_json::json;
use signaling_integration_tests::{Peer, TestMesh};

#[tokio::test]
async fn a_message_that_was_written_is_acknowledged_though_its_reader_leaves_at_once() {
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
