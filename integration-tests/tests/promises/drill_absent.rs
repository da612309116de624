//! Senders to absent recipients get an error in time, and delay no other message.

use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use signaling_integration_tests::{Peer, TestMesh, until};
use signaling_load::raise_descriptor_limit;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, interval, sleep_until, timeout};
use tokio_tungstenite::tungstenite::Message;

/// Maximum delay of a message to a live recipient with `DRILL_STRICT=1`.
const STRICT: Duration = Duration::from_millis(100);
/// Maximum delay on a slow or shared machine: far below the hold time.
const LOOSE: Duration = Duration::from_secs(2);
/// More than the numbers that an edge keeps from the oldest message without an outcome.
const MESSAGES: u32 = 2_000;
const SENDING: Duration = Duration::from_secs(10);
const LIVE: u32 = 20;
/// Messages to live clients per message to the absent one.
const ABSENT_EVERY: u32 = 50;
const PING_EVERY: u32 = 40;
/// Ids of messages to the absent client begin here.
const ABSENT_IDS: u64 = 1_000_000;
const HOLD: Duration = Duration::from_secs(20);

enum Event {
    Arrived(u64),
    Acked(u64),
    Pong,
}

#[tokio::test]
async fn absent_recipient_does_not_delay_live_ones() {
    let mesh = TestMesh::start().await;
    let (events, mut heard) = mpsc::channel(16 * MESSAGES as usize);
    let mut tasks = JoinSet::new();
    let mut live = Vec::new();
    for number in 0..LIVE {
        let id = format!("live-{number}");
        let mut peer = mesh.peer(&id).await;
        let events = events.clone();
        tasks.spawn(async move {
            loop {
                let Some(n) = peer.recv_type("signal").await["data"]["n"].as_u64() else { continue };
                events.send((Event::Arrived(n), Instant::now())).await.unwrap();
            }
        });
        live.push(id);
    }
    let (mut sink, mut stream) = mesh.peer("sender").await.socket.split();
    tasks.spawn(async move {
        while let Some(Ok(frame)) = stream.next().await {
            let Message::Text(text) = frame else { continue };
            let message: Value = serde_json::from_str(&text).unwrap();
            let event = match (message["type"].as_str(), message["id"].as_u64()) {
                (Some("ack"), Some(id)) => Event::Acked(id),
                (Some("pong"), _) => Event::Pong,
                (Some("error"), Some(ABSENT_IDS..)) => continue,
                _ => panic!("{message}"),
            };
            events.send((event, Instant::now())).await.unwrap();
        }
    });

    let start = Instant::now();
    let due = |n: u64| start + SENDING.mul_f64(n as f64 / f64::from(MESSAGES));
    let mut pings = Vec::new();
    for n in 0..u64::from(MESSAGES) {
        sleep_until(due(n)).await;
        if n.is_multiple_of(ABSENT_EVERY.into()) {
            let message = json!({ "type": "signal", "to": "absent", "id": ABSENT_IDS + n, "data": {} });
            sink.send(Message::text(message.to_string())).await.unwrap();
        }
        if n.is_multiple_of(PING_EVERY.into()) {
            sink.send(Message::text(r#"{"type":"ping"}"#)).await.unwrap();
            pings.push(Instant::now());
        }
        let to = &live[n as usize % live.len()];
        let message = json!({ "type": "signal", "to": to, "id": n + 1, "data": { "n": n } });
        sink.send(Message::text(message.to_string())).await.unwrap();
    }

    let (mut arrived, mut acked, mut pongs) = (Vec::new(), Vec::new(), Vec::new());
    let all = async {
        while arrived.len() + acked.len() < 2 * MESSAGES as usize || pongs.len() < pings.len() {
            match heard.recv().await.unwrap() {
                (Event::Arrived(n), at) => arrived.push(at - due(n)),
                (Event::Acked(id), at) => acked.push(at - due(id - 1)),
                (Event::Pong, at) => pongs.push(at),
            }
        }
    };
    let all_came = timeout(HOLD + Duration::from_secs(10), all).await.is_ok();
    let worst = |times: &[Duration]| times.iter().max().copied().unwrap_or_default();
    let worst_pong = pings.iter().zip(&pongs).map(|(ping, pong)| *pong - *ping).max().unwrap();
    let full = mesh.of_balancer("signaling_client_read_pauses_total", "").await;
    let (arrival, ack) = (worst(&arrived), worst(&acked));
    println!("{MESSAGES} messages: worst arrival {arrival:?}, worst ack {ack:?}, worst pong {worst_pong:?}");

    assert!(all_came, "not all messages to live peers arrived and were acked");
    assert_eq!((arrived.len(), acked.len()), (MESSAGES as usize, MESSAGES as usize), "each once");
    assert_eq!(full, 0.0, "the sender's socket was left unread");
    let limit = if std::env::var("DRILL_STRICT").as_deref() == Ok("1") { STRICT } else { LOOSE };
    let waited = arrival.max(ack).max(worst_pong);
    assert!(waited <= limit, "a message to a live peer, its ack or a pong took {waited:?}, more than {limit:?}");
}

#[tokio::test]
async fn message_is_held_until_recipient_connects_or_time_ends() {
    let mesh = TestMesh::start().await;
    let late = mesh.id_owned_by("node-1", "late");
    let mut sender = mesh.peer_at("node-0", "sender").await;
    let sent = Instant::now();
    sender.signal("absent", json!(1), Some(1)).await;
    for id in 2..=4 {
        sender.signal(&late, json!("hello"), Some(id)).await;
    }
    until(&mesh.node(1), "signaling_held_bytes", "", |bytes| bytes > 0.0).await;

    sleep_until(sent + Duration::from_secs(5)).await;
    let mut recipient = mesh.peer(&late).await;
    for id in 2..=4 {
        assert_eq!(recipient.recv().await["id"], id);
        assert_eq!(sender.recv().await, json!({ "type": "ack", "id": id }));
    }
    is_reported_after(HOLD, sent, &mut sender).await;
}

#[tokio::test]
async fn message_is_held_for_the_hold_time_of_the_flag() {
    let mesh = TestMesh::of((3, 1), &["--hold-ms=1500"], &[]).await;
    let mut sender = mesh.peer("sender").await;
    let sent = Instant::now();
    sender.signal("absent", json!(1), Some(1)).await;
    is_reported_after(Duration::from_millis(1_500), sent, &mut sender).await;
}

async fn is_reported_after(hold: Duration, sent: Instant, sender: &mut Peer) {
    let error = sender.recv_type("error").await;
    let held = sent.elapsed();
    println!("reported after {held:?} of the {hold:?} that a message is held");
    let unavailable = (&json!("recipient_unavailable"), &json!(1), &json!("absent"));
    assert_eq!((&error["code"], &error["id"], &error["to"]), unavailable);
    assert!((hold..hold + Duration::from_secs(5)).contains(&held), "{held:?}");
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
/// Minimum interval of retransmissions of a message; 5 s if it is known to be held.
const RETRANSMIT_INTERVAL: Duration = Duration::from_secs(2);
/// Factor of a noisy clock on a rate.
const NOISE: f64 = 1.2;

#[tokio::test]
async fn messages_to_absent_clients_are_bounded_in_memory_and_rate() {
    raise_descriptor_limit().unwrap();
    let hold = [format!("--hold-ms={}", SHORT_HOLD.as_millis()), format!("--hold-bytes={HOLD_BYTES}")];
    let mesh = TestMesh::of((3, 1), &hold.each_ref().map(String::as_str), &[]).await;
    let mut writers = JoinSet::new();
    let (begin, begun) = tokio::sync::watch::channel(false);
    for number in 0..WRITERS {
        let peer = mesh.peer(&format!("writer-{number}")).await;
        let mut begun = begun.clone();
        writers.spawn(async move {
            begun.wait_for(|begun| *begun).await.unwrap();
            write_to_absent(peer, number).await
        });
    }
    let before = Sample::of(&mesh).await;
    let start = Instant::now();
    begin.send_replace(true);

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

async fn write_to_absent(mut peer: Peer, number: u32) -> u64 {
    let data = "x".repeat(200);
    let mut ticks = interval(WRITING / EACH);
    for n in 0..u64::from(EACH) {
        ticks.tick().await;
        peer.signal(&format!("absent-{number}-{n}"), json!(data), Some(n + 1)).await;
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
            resends: mesh.total("signaling_node_retransmissions_total").await,
        }
    }
}
