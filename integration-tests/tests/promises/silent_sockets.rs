//! Thousands of sockets that never finish their handshake are closed within 8 s and counted. They
//! affect no other client. A client that answers no ping is closed too.

use std::time::Duration;

use signaling_integration_tests::raw_socket::PING;
use signaling_integration_tests::{
    Chatter, Head, RawSocket, TestMesh, becomes, connect, connect_from, ends, eventually, metric,
};
use signaling_server::process::raise_open_files;
use tokio::io::AsyncWriteExt as _;
use tokio::task::JoinSet;
use tokio::time::{Instant, interval};

const SOURCE_ADDRESSES: u8 = 5;
const SOCKETS_PER_ADDRESS: usize = 1_000;
/// Milliseconds until a silent socket is closed: 5 s, and the work of closing 5,000 sockets.
const CLOSED_AFTER: std::ops::Range<u128> = 4_900..8_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_thousand_unfinished_handshakes_are_closed_in_time() {
    raise_open_files().unwrap();
    let mesh = TestMesh::start().await;
    let open_files = async || mesh.balancer_metric("process_open_fds", "").await;
    let before = open_files().await;
    let talk = Chatter::start(&mesh).await;
    let address = mesh.address();
    let mut sources = JoinSet::new();
    let request = Head::connect("nobody").to_string();
    for n in 1..=SOURCE_ADDRESSES {
        let text = if n % 2 == 0 { &request[..request.len() - 2] } else { "" };
        sources.spawn(source([127, 0, 0, n], address.clone(), text.to_owned()));
    }
    let waits: Vec<_> = sources.join_all().await.concat();
    let talk = talk.stop().await;

    assert_eq!(waits.len(), usize::from(SOURCE_ADDRESSES) * SOCKETS_PER_ADDRESS);
    let (soonest, latest) = (waits.iter().min().unwrap(), waits.iter().max().unwrap());
    assert!(CLOSED_AFTER.contains(&soonest.as_millis()), "the first after {soonest:?}");
    assert!(CLOSED_AFTER.contains(&latest.as_millis()), "the last after {latest:?}");

    assert!(talk.messages > 100, "{talk:?}");
    assert!(talk.p99 < Duration::from_millis(250), "{talk:?}");
    assert!(talk.slowest < Duration::from_secs(2), "{talk:?}");

    let all = waits.len() as f64;
    eventually("all to be counted", async || mesh.refused_connects("timeout").await == all).await;
    eventually("the balancer to close its descriptors", async || open_files().await <= before).await;
}

#[tokio::test]
async fn slow_request_is_closed_at_the_handshake_limit() {
    let mesh = TestMesh::with_servers((1, 1), &[], &[]).await;
    let mut stream = connect(&mesh.url()).await;
    let start = Instant::now();
    let mut pace = interval(Duration::from_millis(200));
    for byte in Head::connect("nobody").with("X", &"x".repeat(1_000)).to_string().bytes() {
        pace.tick().await;
        if stream.write_all(&[byte]).await.is_err() || ends(&mut stream, Duration::ZERO).await {
            break;
        }
    }
    assert!(CLOSED_AFTER.contains(&start.elapsed().as_millis()), "after {:?}", start.elapsed());
}

#[tokio::test]
async fn client_is_closed_when_it_answers_no_ping() {
    /// The shortest heartbeat interval.
    const HEARTBEAT: Duration = Duration::from_secs(5);
    /// Time limit of the answer to a ping.
    const ANSWER: Duration = Duration::from_secs(10);
    let flag = format!("--heartbeat-ms={}", HEARTBEAT.as_millis());
    let mesh = TestMesh::with_servers((1, 1), &[&flag], &[&flag]).await;
    let mut lively = mesh.peer("lively").await;
    assert_eq!(lively.welcome["heartbeat_ms"], 5_000);
    let lively = tokio::spawn(async move { lively.discard_input().await });

    let start = Instant::now();
    let mut idle = RawSocket::connect(&mesh.address(), "idle").await;
    assert_eq!(idle.frame().await.0, PING);
    assert!(start.elapsed() >= HEARTBEAT, "after {:?}", start.elapsed());
    assert_eq!(idle.closed().await.0, 4004);
    assert!(start.elapsed() >= HEARTBEAT + ANSWER, "after {:?}", start.elapsed());

    let balancer = mesh.balancer_internal();
    becomes(&balancer, "signaling_client_closes_total", 1).await;
    assert_eq!(metric(&balancer, "signaling_client_closes_total", "code=\"4004\"").await, 1.0);
    assert!(!lively.is_finished());
}

/// Opens the sockets of one address, each of which sends `text`. Returns the time that each stayed
/// open.
async fn source(local: [u8; 4], address: String, text: String) -> Vec<Duration> {
    let mut sockets = JoinSet::new();
    for _ in 0..SOCKETS_PER_ADDRESS {
        let mut stream = connect_from(local, &address).await;
        let start = Instant::now();
        stream.write_all(text.as_bytes()).await.unwrap();
        sockets.spawn(async move {
            assert!(ends(&mut stream, Duration::from_secs(30)).await, "never closed");
            start.elapsed()
        });
    }
    sockets.join_all().await
}
