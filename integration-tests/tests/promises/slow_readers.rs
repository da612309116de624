//! A plain client that reads nothing is closed as too slow, and unwritten messages wait until it
//! resumes.

use std::time::Duration;

use serde_json::json;
use signaling_integration_tests::{Head, Peer, RawSocket, TestMesh};
use tokio::net::TcpSocket;
use tokio::time::{Instant, timeout};

/// Milliseconds until an unread socket is closed: 10 s, and the next sweep.
const CLOSED_AFTER: std::ops::Range<u64> = 9_500..13_000;
const CLOSE_TIMEOUT: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// More than the buffers of two sockets hold.
const MAX_MESSAGES: u64 = 1_000;
/// Maximum messages of a sender without an outcome.
const MAX_PENDING: u64 = 4;

#[tokio::test]
async fn unreading_client_is_closed_and_resumes_without_loss() {
    let mesh = TestMesh::with_servers((2, 1), &[], &["--message-rate=200/0"]).await;
    let mut alice = mesh.peer("alice").await;
    // With a small buffer the kernel takes little for a client that does not read.
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(8 * 1024).unwrap();
    let stream = socket.connect(mesh.address().parse().unwrap()).await.unwrap();
    let mut bob = RawSocket::over(stream, Head::connect("bob").to_string().as_bytes()).await;
    let resume = bob.message().await["resume"].as_str().unwrap().to_owned();

    let closes = async || mesh.balancer_metric("signaling_client_closes_total", "code=\"4002\"").await;
    let (mut sent, mut written, mut last_ack) = (0, 0, Instant::now());
    while closes().await == 0.0 {
        while sent < written + MAX_PENDING {
            sent += 1;
            alice.signal("bob", json!("x".repeat(60_000)), Some(sent)).await;
        }
        assert!(sent < MAX_MESSAGES, "the kernel takes everything for a client that does not read");
        assert!(last_ack.elapsed() < CLOSE_TIMEOUT, "the client is not closed");
        if let Ok(answer) = timeout(POLL_INTERVAL, alice.recv()).await {
            written += 1;
            last_ack = Instant::now();
            assert_eq!(answer, json!({ "type": "ack", "id": written }));
        }
    }
    assert!(written > 0, "the kernel takes some for a client that does not read");
    let after = last_ack.elapsed();
    assert!(CLOSED_AFTER.contains(&(after.as_millis() as u64)), "after {after:?}");
    drop(bob);

    let mut bob = Peer::open(&mesh.url(), "bob", &format!("&resume={resume}")).await.unwrap();
    assert_eq!(bob.welcome["resumed"], true);
    for id in written + 1..=sent {
        assert_eq!(bob.recv().await["id"], id);
        assert_eq!(alice.recv().await, json!({ "type": "ack", "id": id }));
    }
}
