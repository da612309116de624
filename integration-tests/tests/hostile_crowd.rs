//! A crowd that means harm: 5,000 handshakes that never end from 50 addresses, and 2,000 clients that say much and read nothing.
//! A thousand good clients go on with 5,000 messages a second.
//!
//! It takes the whole machine for two minutes, so it is run by hand, best with optimised servers:
//!
//! ```text
//! cargo build --release --bins
//! SIGNALING_BIN_DIR=$PWD/target/release cargo test -p signaling-integration-tests --test hostile_crowd -- --ignored --nocapture
//! ```

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use serde_json::{Value, json};
use signaling_integration_tests::TestMesh;
use signaling_integration_tests::http::{Head, read_answer};
use signaling_integration_tests::load::mesh_load_within;
use signaling_integration_tests::metrics::metric;
use signaling_integration_tests::raw_socket::{TEXT, connect_from, frame};
use signaling_server::limits::raise_open_files;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpSocket;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{interval, sleep};

const ADDRESSES: u8 = 50;
const HANDSHAKES_PER_ADDRESS: usize = 100;
const DEAF: usize = 2_000;
/// How often a handshake gets another byte, and a deaf client says something.
const DRIP: Duration = Duration::from_secs(1);
/// How often one of those who write to the deaf does.
const WRITE_EVERY: Duration = Duration::from_millis(20);
const WRITERS: usize = 4;
const SECONDS: &str = "--seconds=20";
const PATIENCE: Duration = Duration::from_secs(180);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes the whole machine for two minutes: see above how to run it"]
async fn good_clients_lose_nothing_and_hardly_notice_a_hostile_crowd() {
    raise_open_files().unwrap();
    let mesh = TestMesh::start().await;
    let quiet = steady(&mesh).await;

    let mut crowd = JoinSet::new();
    for address in 1..=ADDRESSES {
        for _ in 0..HANDSHAKES_PER_ADDRESS {
            crowd.spawn(drip([127, 0, 0, address], mesh.address()));
        }
    }
    for number in 0..DEAF {
        crowd.spawn(deaf(number, mesh.address()));
    }
    for number in 0..WRITERS {
        crowd.spawn(write_to_the_deaf(number, mesh.address()));
    }
    let (end, ended) = oneshot::channel();
    let watch = tokio::spawn(watch(balancer(&mesh), ended));
    let loud = steady(&mesh).await;
    end.send(()).unwrap();
    let peaks = watch.await.unwrap();
    crowd.shutdown().await;

    let (before, during, bound) = (p99_ms(&quiet), p99_ms(&loud), bound(&mesh));
    println!("p99 {before:.1} ms before, {during:.1} ms during; bound {:.0} MB; peaks {peaks:?}", bound / 1e6);
    for name in [
        "signaling_refused_connects_total",
        "signaling_client_violations_total",
        "signaling_client_sockets_closed_total",
    ] {
        println!("{name} {}", metric(&balancer(&mesh), name, "").await);
    }
    assert_eq!(loud["messages"]["lost"], 0);
    assert_eq!((&loud["messages"]["doubled"], &loud["messages"]["swapped"]), (&json!(0), &json!(0)));
    assert_eq!((&loud["closed"], &loud["other_frames"]), (&json!({}), &json!({})));
    assert!(during <= (2.0 * before).max(20.0), "p99 was {before} ms, and is {during}");
    assert!(peaks.handshakes > 4_000.0 && peaks.sockets > 2_500.0, "the crowd was there: {peaks:?}");
    assert!(peaks.resident < bound, "{peaks:?}, and at most {bound} was promised");
}

/// A thousand clients that exchange 5,000 messages a second.
async fn steady(mesh: &TestMesh) -> Value {
    let arguments = ["steady", "--clients=1000", "--rate=5000", SECONDS, "--warmup=5", "--pairs=random"];
    let run = mesh_load_within(PATIENCE, &mesh.dir, &arguments).await;
    assert!(run.is_success, "{}", run.complaints);
    run.report
}

fn p99_ms(report: &Value) -> f64 {
    report["latency_us"]["p99"].as_f64().unwrap() / 1e3
}

/// A handshake, byte by byte, again and again.
async fn drip(local: [u8; 4], address: String) {
    let head = Head::connect("nobody").with("X", &"x".repeat(500)).text();
    loop {
        let Ok(mut stream) = connect_from(local, &address).await else {
            sleep(DRIP).await;
            continue;
        };
        let mut ticks = interval(DRIP);
        for byte in head.bytes() {
            ticks.tick().await;
            if stream.write_all(&[byte]).await.is_err() {
                break;
            }
        }
    }
}

/// A client that says what is answered, and never reads an answer. It comes back when it is closed.
async fn deaf(number: usize, address: String) {
    let nonsense = frame(TEXT, br#"{"type":"nonsense","id":1}"#).repeat(20);
    loop {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4_096).unwrap();
        let head = Head::connect(&format!("deaf-{number}")).text();
        if let Ok(mut stream) = socket.connect(address.parse().unwrap()).await
            && stream.write_all(head.as_bytes()).await.is_ok()
        {
            let mut ticks = interval(DRIP);
            while stream.write_all(&nonsense).await.is_ok() {
                ticks.tick().await;
            }
        }
        sleep(DRIP).await;
    }
}

/// Sends large messages to the deaf ones in turn.
async fn write_to_the_deaf(number: usize, address: String) {
    let mut stream = TcpSocket::new_v4().unwrap().connect(address.parse().unwrap()).await.unwrap();
    stream.write_all(Head::connect(&format!("writer-{number}")).text().as_bytes()).await.unwrap();
    assert_eq!(read_answer(&mut stream).await.status, 101);
    let (mut reader, mut writer) = stream.into_split();
    let hear = async {
        let mut ignored = vec![0; 65_536];
        while matches!(reader.read(&mut ignored).await, Ok(1..)) {}
    };
    let say = async {
        let (mut ticks, data) = (interval(WRITE_EVERY), "x".repeat(30_000));
        for to in (number..DEAF).step_by(WRITERS).cycle() {
            ticks.tick().await;
            let text = format!(r#"{{"type":"signal","to":"deaf-{to}","data":"{data}"}}"#);
            if writer.write_all(&frame(TEXT, text.as_bytes())).await.is_err() {
                return;
            }
        }
    };
    tokio::select! { () = hear => {}, () = say => {} }
}

/// The highest that was seen while the crowd was there.
#[derive(Debug, Default)]
struct Peaks {
    resident: f64,
    buffered: f64,
    handshakes: f64,
    sockets: f64,
}

async fn watch(balancer: String, mut ended: oneshot::Receiver<()>) -> Peaks {
    let (mut peaks, mut ticks) = (Peaks::default(), interval(Duration::from_millis(500)));
    while ended.try_recv().is_err() {
        ticks.tick().await;
        for (peak, name) in [
            (&mut peaks.resident, "process_resident_memory_bytes"),
            (&mut peaks.buffered, "signaling_buffered_bytes"),
            (&mut peaks.handshakes, "signaling_handshakes"),
            (&mut peaks.sockets, "signaling_client_sockets"),
        ] {
            *peak = peak.max(metric(&balancer, name, "").await);
        }
    }
    peaks
}

fn balancer(mesh: &TestMesh) -> String {
    mesh.mesh.state().balancers[0].internal.clone()
}

/// What the balancer's log says that its clients can cost at most, in bytes.
fn bound(mesh: &TestMesh) -> f64 {
    let log = std::fs::read_to_string(mesh.dir.path().join("logs/balancer-0.log")).unwrap();
    let said = log.split("memory for clients is at most ").nth(1).unwrap();
    said.split(' ').next().unwrap().parse::<f64>().unwrap() * 1024.0 * 1024.0
}
