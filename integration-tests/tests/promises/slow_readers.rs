//! A plain client that reads nothing is closed as too slow, and unwritten messages wait until it
//! resumes.

use std::time::Duration;

use serde_json::json;
use signaling_integration_tests::{Head, Peer, RawSocket, TestMesh, until};
use tokio::net::TcpSocket;
use tokio::time::{Instant, timeout};

/// Milliseconds until an unread socket is closed: 10 s, and the next sweep.
const CLOSED_AFTER: std::ops::Range<u64> = 9_500..13_000;
/// Time without an ack after which none is expected.
const UNWRITTEN: Duration = Duration::from_secs(2);
/// More than the buffers of two sockets hold.
const MAX_MESSAGES: u64 = 1_000;
/// Waiting messages of a client that does not read: at most the sender's messages without an
/// outcome.
const BEHIND: u64 = 3;

#[tokio::test]
async fn unreading_client_is_closed_and_resumes_without_loss() {
    let mesh = TestMesh::with_balancer_flags(2, &["--message-rate=200/0"]).await;
    let mut alice = mesh.peer("alice").await;
    let mut bob = reads_little(&mesh, "bob").await;
    let resume = bob.message().await["resume"].as_str().unwrap().to_owned();

    let mut first_unwritten = 0;
    for id in 1..=MAX_MESSAGES {
        send(&mut alice, id).await;
        let Ok(answer) = timeout(UNWRITTEN, alice.recv()).await else {
            first_unwritten = id;
            break;
        };
        assert_eq!(answer, json!({ "type": "ack", "id": id }));
    }
    assert!(first_unwritten > 1, "the kernel takes some for a client that does not read, and not everything");
    let (full, last) = (Instant::now() - UNWRITTEN, first_unwritten + BEHIND);
    for id in first_unwritten + 1..=last {
        send(&mut alice, id).await;
    }
    assert!(alice.has_nothing().await);
    until(&mesh.balancer_internal(), "signaling_client_closes_total", "code=\"4002\"", |closes| closes == 1.0).await;
    let after = full.elapsed();
    assert!(CLOSED_AFTER.contains(&(after.as_millis() as u64)), "after {after:?}");
    drop(bob);

    let mut bob = Peer::open(&mesh.url(), "bob", &format!("&resume={resume}")).await.unwrap();
    assert_eq!(bob.welcome["resumed"], true);
    for id in first_unwritten..=last {
        assert_eq!(bob.recv().await["id"], id);
        assert_eq!(alice.recv().await, json!({ "type": "ack", "id": id }));
    }
}

async fn send(alice: &mut Peer, id: u64) {
    alice.signal("bob", json!("x".repeat(60_000)), Some(id)).await;
}

/// Connects a client with small socket buffers.
async fn reads_little(mesh: &TestMesh, id: &str) -> RawSocket {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(8 * 1024).unwrap();
    let stream = socket.connect(mesh.address().parse().unwrap()).await.unwrap();
    RawSocket::over(stream, Head::connect(id).to_string().as_bytes()).await
}
