//! A backlog from a pause of the nodes continues in batches of a size that the other end accepts.

use std::time::Duration;

use serde_json::{Value, json};
use signaling_integration_tests::TestMesh;
use tokio::time::sleep;

/// Each writes as much as its edge keeps for it: 20 MB in all, more than the system's buffers and
/// one trunk message hold.
const CLIENTS: usize = 120;
const MESSAGES: u64 = 3;
const BYTES: usize = 55_000;
/// Shorter than the time after which the nodes are suspect.
const PAUSE: Duration = Duration::from_millis(1_200);

#[tokio::test]
async fn backlog_of_paused_nodes_arrives_when_they_resume() {
    let mesh = TestMesh::start().await;
    let name = |number: usize| format!("client-{}", number % CLIENTS);
    let mut peers = mesh.connect((0..CLIENTS).map(name)).await;
    let nodes = ["node-0", "node-1", "node-2"];
    for node in nodes {
        mesh.pause(node).await.unwrap();
    }
    let resume = async {
        sleep(PAUSE).await;
        for node in nodes {
            mesh.resume(node).await.unwrap();
        }
    };
    let text = "x".repeat(BYTES);
    let write = async {
        for (number, peer) in peers.iter_mut().enumerate() {
            for id in 1..=MESSAGES {
                peer.signal(&name(number + 1), json!(text), Some(id)).await;
            }
        }
    };
    tokio::join!(resume, write);

    for peer in &mut peers {
        let (mut signals, mut acks) = (Vec::new(), Vec::new());
        while signals.len() + acks.len() < 2 * MESSAGES as usize {
            let message = peer.recv().await;
            let into = if message["type"] == "signal" { &mut signals } else { &mut acks };
            into.push(message["id"].clone());
        }
        assert_eq!(signals, (1..=MESSAGES).map(Value::from).collect::<Vec<_>>(), "in the sender's order");
        assert_eq!(acks.len(), signals.len());
    }
    let refused = mesh.metrics("", "signaling_trunks_ended_total", "protocol_error").await;
    assert!(refused.iter().all(|&count| count == 0.0), "no end refused a batch: {refused:?}");
}
