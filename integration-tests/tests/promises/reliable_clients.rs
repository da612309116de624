//! A reliable client has a message once it sent `received`, not once the message was written. A
//! retransmission requests the answer again.

use std::time::Duration;

use serde_json::json;
use signaling_integration_tests::{Peer, TestMesh};
use tokio::time::timeout;

#[tokio::test]
async fn message_is_acked_when_its_recipient_sends_received() {
    let mesh = TestMesh::start().await;
    let (reliable, mut bob) = pair(&mesh).await;
    let plain = mesh.peer("carol").await;
    for (number, mut sender) in (0..).zip([reliable, plain]) {
        for id in 1..=3 {
            sender.signal("bob", json!(id), Some(id)).await;
        }
        let mut names = Vec::new();
        for id in 1..=3 {
            let message = bob.recv().await;
            assert_eq!((&message["n"], &message["data"]), (&json!(3 * number + id), &json!(id)));
            assert_eq!(message["id"], id);
            names.push(message["m"].clone());
        }
        names.dedup();
        assert_eq!(names.len(), 3, "{names:?}");
        // Far longer than an ack takes.
        assert!(timeout(Duration::from_secs(1), sender.recv()).await.is_err());

        bob.received(3 * number + 2).await;
        assert_eq!(sender.recv().await, json!({ "type": "ack", "id": 1 }));
        assert_eq!(sender.recv().await, json!({ "type": "ack", "id": 2 }));
        assert!(sender.has_nothing().await);
        bob.received(3 * number + 3).await;
        assert_eq!(sender.recv().await, json!({ "type": "ack", "id": 3 }));
    }
}

#[tokio::test]
async fn socket_left_without_1000_keeps_session_and_request_ids() {
    let mesh = TestMesh::start().await;
    for (code, is_kept) in [(None, true), (Some(1001), true), (Some(4001), true), (Some(1000), false)] {
        let (mut alice, mut bob) = pair(&mesh).await;
        alice.signal("bob", json!("once"), Some(1)).await;
        assert_eq!(bob.recv().await["data"], "once");
        let token = alice.resume_token();
        alice.close_with(code).await;

        let mut alice = Peer::open(&mesh.url(), "alice", &format!("&resume={token}&reliable=1")).await.unwrap();
        assert_eq!(alice.welcome["resumed"], is_kept, "after {code:?}");
        if is_kept {
            alice.signal("bob", json!("once"), Some(1)).await;
            bob.received(1).await;
            assert_eq!(alice.recv().await, json!({ "type": "ack", "id": 1 }), "after {code:?}");
            assert!(bob.has_nothing().await, "after {code:?}");
        }
        alice.close().await;
        bob.close().await;
    }
}

async fn pair(mesh: &TestMesh) -> (Peer, Peer) {
    let connect = async |id: &str| Peer::open(&mesh.url(), id, "&reliable=1").await.unwrap();
    (connect("alice").await, connect("bob").await)
}
