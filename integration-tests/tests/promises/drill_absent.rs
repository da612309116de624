//! Senders to absent recipients get an error in time, and cost a node bounded memory.

use std::time::Duration;

use serde_json::json;
use signaling_integration_tests::{Peer, TestMesh, until};
use signaling_server::process::raise_open_files;
use tokio::task::JoinSet;
use tokio::time::{Instant, interval, sleep_until};

const HOLD: Duration = Duration::from_secs(6);

#[tokio::test]
async fn message_is_held_until_recipient_connects_or_time_ends() {
    let mesh = TestMesh::with_servers((3, 1), &[&format!("--hold-ms={}", HOLD.as_millis())], &[]).await;
    let late = mesh.id_owned_by("node-1", "late");
    let mut sender = mesh.peer_owned_by("node-0", "sender").await;
    let sent = Instant::now();
    sender.signal("absent", json!(1), Some(1)).await;
    for id in 2..=4 {
        sender.signal(&late, json!("hello"), Some(id)).await;
    }
    until(&mesh.node_internal(1), "signaling_held_bytes", "", |bytes| bytes > 0.0).await;

    sleep_until(sent + HOLD / 2).await;
    let mut recipient = mesh.peer(&late).await;
    for id in 2..=4 {
        assert_eq!(recipient.recv().await["id"], id);
        assert_eq!(sender.recv().await, json!({ "type": "ack", "id": id }));
    }
    let error = sender.recv_type("error").await;
    let held = sent.elapsed();
    let unavailable = (&json!("recipient_unavailable"), &json!(1), &json!("absent"));
    assert_eq!((&error["code"], &error["id"], &error["to"]), unavailable);
    assert!((HOLD..HOLD + Duration::from_secs(5)).contains(&held), "{held:?}");
}

/// Senders, and messages of each, all to absent clients.
const WRITERS: u32 = 500;
const EACH: u32 = 200;
const HOLD_BYTES: u64 = 4 * 1024 * 1024;
const SHORT_HOLD: Duration = Duration::from_secs(8);
const WRITING: Duration = Duration::from_secs(8);
/// Memory of a node beyond the hold: for each message in custody, and in all.
const KEPT_BYTES: u64 = 1024;
const SLACK_BYTES: u64 = 32 * 1024 * 1024;
/// Interval of retransmissions of a message without an outcome; 5 s if its destination holds it.
const RETRANSMIT_INTERVAL: Duration = Duration::from_secs(2);
/// Factor of a noisy clock on a rate.
const NOISE: f64 = 1.2;

#[tokio::test]
async fn messages_to_absent_clients_are_bounded_in_memory_and_rate() {
    raise_open_files().unwrap();
    let hold = [format!("--hold-ms={}", SHORT_HOLD.as_millis()), format!("--hold-bytes={HOLD_BYTES}")];
    let mesh = TestMesh::with_servers((3, 1), &hold.each_ref().map(String::as_str), &[]).await;
    let peers = mesh.connect((0..WRITERS).map(|number| format!("writer-{number}"))).await;
    let before = Sample::of(&mesh).await;
    let start = Instant::now();
    let mut writers: JoinSet<_> = peers.into_iter().map(write_to_absent).collect();

    let (mut peak, mut last, mut peak_rate, mut slowest) = (before, before, 0.0_f64, Duration::ZERO);
    let mut last_at = start;
    let mut ticks = interval(Duration::from_millis(500));
    let mut refused = 0;
    while !writers.is_empty() {
        tokio::select! {
            Some(count) = writers.join_next() => refused += count.unwrap(),
            at = ticks.tick() => {
                let asked = Instant::now();
                let sample = Sample::of(&mesh).await;
                slowest = slowest.max(asked.elapsed());
                if at >= last_at + RETRANSMIT_INTERVAL {
                    peak_rate = peak_rate.max((sample.resends - last.resends) / (at - last_at).as_secs_f64());
                    (last, last_at) = (sample, at);
                }
                peak.held = peak.held.max(sample.held);
                peak.rss = peak.rss.max(sample.rss);
            }
        }
    }
    let resends = Sample::of(&mesh).await.resends - before.resends;
    let messages = u64::from(WRITERS * EACH);
    println!(
        "{messages} messages reported after {:?}; bytes held at a node {}, its memory {} to {}; {resends} resends, at most \
         {peak_rate:.0}/s; metrics read within {slowest:?}",
        start.elapsed(),
        peak.held,
        before.rss,
        peak.rss
    );

    assert_eq!(refused, messages, "each message has one outcome");
    assert!(peak.held > 0 && peak.held <= HOLD_BYTES, "{} bytes held at one node", peak.held);
    let nodes = mesh.state().nodes.len() as u64;
    let allowed = HOLD_BYTES + messages * KEPT_BYTES / nodes + SLACK_BYTES;
    assert!(peak.rss - before.rss <= allowed, "a node grew by {} bytes", peak.rss - before.rss);
    let allowed_rate = NOISE * messages as f64 / RETRANSMIT_INTERVAL.as_secs_f64();
    assert!(peak_rate <= allowed_rate, "{peak_rate:.0} resends a second, {allowed_rate:.0} are allowed");
}

async fn write_to_absent(mut peer: Peer) -> u64 {
    let data = "x".repeat(200);
    let mut ticks = interval(WRITING / EACH);
    for n in 0..u64::from(EACH) {
        ticks.tick().await;
        peer.signal(&format!("absent-{n}-of-{}", peer.id), json!(data), Some(n + 1)).await;
    }
    let mut ids = Vec::new();
    while ids.len() < EACH as usize {
        let message = peer.recv_type("error").await;
        assert_eq!(message["code"], "recipient_unavailable", "{message}");
        ids.push(message["id"].as_u64().unwrap());
    }
    ids.sort_unstable();
    ids.dedup();
    ids.len() as u64
}

/// Figures of the nodes: maxima of any node, and the sum of retransmissions.
#[derive(Clone, Copy)]
struct Sample {
    held: u64,
    rss: u64,
    resends: f64,
}

impl Sample {
    async fn of(mesh: &TestMesh) -> Self {
        let max = |values: Vec<f64>| values.into_iter().fold(0.0, f64::max) as u64;
        Self {
            held: max(mesh.metrics("node-", "signaling_held_bytes", "").await),
            rss: max(mesh.metrics("node-", "process_resident_memory_bytes", "").await),
            resends: mesh.sum_over_nodes("signaling_node_retransmissions_total").await,
        }
    }
}
