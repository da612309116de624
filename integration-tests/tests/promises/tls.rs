//! Clients connect over TLS where the servers have a certificate, and a new certificate takes
//! effect without notice to clients.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use signaling_client::{Event, Options};
use signaling_integration_tests::{
    Certificate, Head, Peer, SecureMesh, TestMesh, ask, ask_to_the_end, connect, ends, eventually, exchange, until,
};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::client::TlsStream;

const SDK_TIMEOUT: Duration = Duration::from_secs(10);

async fn start() -> SecureMesh {
    // A silent connection must not cost the test five seconds.
    SecureMesh::start(2, 2, &["--handshake-ms=1000"]).await
}

async fn client(secure: &SecureMesh, id: &str) -> TlsPeer {
    client_at(&secure.certificate, &secure.mesh.url(), id).await
}

type TlsPeer = Peer<TlsStream<TcpStream>>;

async fn client_at(certificate: &Certificate, address: &str, id: &str) -> TlsPeer {
    let stream = certificate.connect(address, &["h2", "http/1.1"]).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
    Peer::over(stream, id, "").await.unwrap()
}

#[tokio::test]
async fn new_certificate_keeps_open_tls_connections() {
    let secure = start().await;
    let (mut alice, mut bob) = (client(&secure, "alice").await, client(&secure, "bob").await);
    for (id, bytes) in (1..).zip([0, 1, 125, 126, 4_000, 16_383, 16_384, 16_385, 40_000, 60_000]) {
        exchange((&mut alice, &mut bob), &json!("x".repeat(bytes)), id).await;
    }

    let second = Certificate::new(secure.folder.path(), "second", 2);
    assert!(second.connect(&secure.mesh.url(), &[]).await.is_err(), "the server shows the first one");
    secure.certificate.overwrite_by(&second);
    let shown = async || second.connect(&secure.mesh.url(), &[]).await.is_ok();
    eventually("the second certificate to be shown", shown).await;
    assert_eq!(secure.mesh.balancer_metric("signaling_tls_certificate_loads_total", "used").await, 1.0);
    exchange((&mut alice, &mut bob), &json!("x".repeat(100)), 20).await;

    // Half a file is unusable: the former certificate stays.
    std::fs::write(&secure.certificate.path, "-----BEGIN CERTIFICATE-----\nnonsense").unwrap();
    let loads = "signaling_tls_certificate_loads_total";
    until(&secure.mesh.balancer_internal(), loads, "unusable", |tried| tried > 0.0).await;
    second.connect(&secure.mesh.url(), &[]).await.unwrap();
    exchange((&mut bob, &mut alice), &json!("x".repeat(100)), 1).await;
}

#[tokio::test]
async fn sdk_connects_over_tls_when_it_trusts_the_server() {
    let secure = start().await;
    let url = format!("wss://localhost:{}/v1/connect", secure.mesh.url().rsplit_once(':').unwrap().1);
    let options =
        |id: &str, certificate: &Certificate| Options::new(id, [&url]).unwrap().tls(Arc::new(certificate.trusted()));
    let (_alice, mut alice_events) = signaling_client::Client::connect(options("alice", &secure.certificate));
    let (bob, mut bob_events) = signaling_client::Client::connect(options("bob", &secure.certificate));
    timeout(SDK_TIMEOUT, async { tokio::join!(alice_events.connected(), bob_events.connected()) }).await.unwrap();
    let receipt = bob.signal("alice", "over TLS").unwrap();
    let received = async {
        loop {
            if let Event::Signal(signal) = alice_events.next().await.unwrap() {
                return signal.from;
            }
        }
    };
    assert_eq!(&*timeout(SDK_TIMEOUT, received).await.unwrap(), "bob");
    timeout(SDK_TIMEOUT, receipt).await.unwrap().unwrap();

    let other = Certificate::new(secure.folder.path(), "other", 2);
    let (_mallory, mut events) = signaling_client::Client::connect(options("mallory", &other));
    assert!(timeout(Duration::from_secs(2), events.connected()).await.is_err());
}

#[tokio::test]
async fn tls_keeps_order_when_buffers_are_full() {
    let secure = start().await;
    let (mut alice, mut bob) = (client(&secure, "alice").await, client(&secure, "bob").await);
    const MESSAGES: u64 = 60;
    let send = async {
        for id in 1..=MESSAGES {
            alice.signal("bob", json!("x".repeat(60_000)), Some(id)).await;
        }
        for id in 1..=MESSAGES {
            assert_eq!(alice.recv().await, json!({ "type": "ack", "id": id }));
        }
    };
    let read = async {
        for id in 1..=MESSAGES {
            assert_eq!(bob.recv().await["id"], id);
        }
    };
    tokio::join!(send, read);
}

#[tokio::test]
async fn close_is_followed_by_the_end_of_tls() {
    let secure = start().await;
    let stream = secure.certificate.connect(&secure.mesh.url(), &[]).await.unwrap();
    let head = Head::connect("alice").offer("signaling.v1").to_string();
    // A close with 1000, masked by zeros.
    let close = b"\x88\x82\0\0\0\0\x03\xe8";
    let (received, is_clean) = ask_to_the_end(stream, &[head.as_bytes(), close].concat()).await;
    let text = String::from_utf8_lossy(&received);
    assert!(is_clean && text.starts_with("HTTP/1.1 101") && text.contains("welcome"), "{text}");
    assert!(received.ends_with(b"\x88\x02\x03\xe8"), "{text}");
}

#[tokio::test]
async fn plain_text_is_closed_unanswered_and_counted() {
    let secure = start().await;
    let before = secure.mesh.refused_connects("tls").await;
    for bytes in [Head::connect("alice").to_string().into_bytes(), vec![0; 100], b"\x16\x03\x01\0\x05hello".to_vec()] {
        let (answer, _) = ask_to_the_end(connect(&secure.mesh.url()).await, &bytes).await;
        assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
    }
    assert_eq!(secure.mesh.refused_connects("tls").await, before + 3.0);
    let mut silent = connect(&secure.mesh.url()).await;
    assert!(ends(&mut silent, Duration::from_secs(3)).await);

    // The node's own listener has no certificate.
    let direct = &secure.mesh.state().nodes[0].url;
    assert_eq!(ask(direct, Head::get("/")).await.status, 404);
}

#[tokio::test]
async fn tls_handshake_fails_when_only_http_2_is_offered() {
    let secure = start().await;
    let counted = async || secure.mesh.refused_connects("tls").await;
    let before = counted().await;
    let error = secure.certificate.connect(&secure.mesh.url(), &["h2"]).await.expect_err("no protocol is agreed on");
    assert!(error.to_string().contains("NoApplicationProtocol"), "{error}");
    let refusals = "signaling_refused_connects_total";
    until(&secure.mesh.balancer_internal(), refusals, "reason=\"tls\"", |refused| refused == before + 1.0).await;
    // A client that offers no protocol by ALPN is admitted.
    let stream = secure.certificate.connect(&secure.mesh.url(), &[]).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), None);
    assert_eq!(counted().await, before + 1.0);
}

#[tokio::test]
async fn node_with_a_certificate_serves_direct_clients_over_tls() {
    let folder = tempfile::tempdir().unwrap();
    let certificate = Certificate::new(folder.path(), "nodes", 2);
    let mesh = TestMesh::with_options(|options| (options.nodes, options.node_args) = (2, certificate.flags())).await;
    let nodes = mesh.state().nodes;
    let (alice_id, bob_id) = (mesh.id_owned_by("node-0", "alice"), mesh.id_owned_by("node-1", "bob"));
    let mut alice = client_at(&certificate, &nodes[0].url, &alice_id).await;
    let mut bob = client_at(&certificate, &nodes[1].url, &bob_id).await;
    exchange((&mut alice, &mut bob), &json!("x".repeat(100)), 1).await;
    exchange((&mut bob, &mut alice), &json!("x".repeat(60_000)), 1).await;

    // The balancer has no certificate, and its clients are in the same mesh.
    let mut carol = mesh.peer("carol").await;
    exchange((&mut carol, &mut alice), &json!("in the clear"), 1).await;

    let plain = connect(&nodes[0].url).await;
    let (answer, _) = ask_to_the_end(plain, Head::connect("dave").to_string().as_bytes()).await;
    assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
}
