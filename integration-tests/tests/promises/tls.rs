//! Clients connect over TLS where the servers have a certificate, and a new certificate takes
//! effect without notice to clients.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use signaling_client::{Event, Options};
use signaling_integration_tests::{Certificate, Head, Peer, SecureMesh, TestMesh, ask, eventually, metrics};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::client::TlsStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{WebSocketStream, client_async};

const PATIENCE: Duration = Duration::from_secs(10);

async fn start() -> SecureMesh {
    // A silent connection must not cost the test five seconds.
    SecureMesh::start(2, 2, &["--handshake-ms=1000"]).await
}

async fn client(secure: &SecureMesh, id: &str) -> Client {
    client_at(&secure.certificate, &secure.mesh.address(), id).await
}

async fn client_at(certificate: &Certificate, address: &str, id: &str) -> Client {
    let stream = certificate.connect(address, &["h2", "http/1.1"]).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
    let url = format!("wss://localhost/v1/connect?client_id={id}");
    let (socket, _) = client_async(url, stream).await.unwrap();
    let mut client = Client(socket);
    assert_eq!(client.recv().await["type"], "welcome");
    client
}

async fn metric(secure: &SecureMesh, name: &str, label: &str) -> f64 {
    metrics::metric(&secure.mesh.balancer(), name, label).await
}

struct Client(WebSocketStream<TlsStream<TcpStream>>);

impl Client {
    async fn send(&mut self, message: &Value) {
        self.0.send(Message::text(message.to_string())).await.unwrap();
    }

    async fn recv(&mut self) -> Value {
        loop {
            match timeout(PATIENCE, self.0.next()).await.expect("nothing in time").unwrap().unwrap() {
                Message::Text(text) => return serde_json::from_str(&text).unwrap(),
                Message::Close(frame) => panic!("closed: {frame:?}"),
                _ => {}
            }
        }
    }

    async fn exchange(&mut self, other: &mut Self, to: &str, id: u64, bytes: usize) {
        let data = "x".repeat(bytes);
        self.send(&json!({ "type": "signal", "to": to, "data": data, "id": id })).await;
        assert_eq!(other.recv().await["data"].as_str().unwrap().len(), bytes);
        assert_eq!(self.recv().await, json!({ "type": "ack", "id": id }));
    }
}

#[tokio::test]
async fn new_certificate_keeps_open_tls_connections() {
    let secure = start().await;
    let (mut alice, mut bob) = (client(&secure, "alice").await, client(&secure, "bob").await);
    for (id, bytes) in (1..).zip([0, 1, 125, 126, 4_000, 16_383, 16_384, 16_385, 40_000, 60_000]) {
        alice.exchange(&mut bob, "bob", id, bytes).await;
    }

    let second = Certificate::new(secure.folder.path(), "second");
    assert!(second.connect(&secure.mesh.address(), &[]).await.is_err(), "it shows the first one");
    secure.certificate.becomes(&second);
    let shown = || async { second.connect(&secure.mesh.address(), &[]).await.ok() };
    eventually("the second certificate to be shown", PATIENCE, shown).await;
    assert_eq!(metric(&secure, "signaling_tls_certificate_loads_total", "shown").await, 1.0);
    alice.exchange(&mut bob, "bob", 20, 100).await;

    // Half a file is unusable: the former certificate stays.
    std::fs::write(&secure.certificate.path, "-----BEGIN CERTIFICATE-----\nnonsense").unwrap();
    let loads = "signaling_tls_certificate_loads_total";
    metrics::until(&secure.mesh.balancer(), loads, "unusable", |tried| tried > 0.0).await;
    second.connect(&secure.mesh.address(), &[]).await.unwrap();
    bob.exchange(&mut alice, "alice", 1, 100).await;
}

#[tokio::test]
async fn sdk_connects_over_tls_when_it_trusts_the_server() {
    let secure = start().await;
    let url = format!("wss://localhost:{}/v1/connect", secure.mesh.address().rsplit_once(':').unwrap().1);
    let options =
        |id: &str, certificate: &Certificate| Options::new(id, [&url]).unwrap().tls(Arc::new(certificate.trusted()));
    let (_alice, mut alice_hears) = signaling_client::Client::connect(options("alice", &secure.certificate));
    let (bob, mut bob_hears) = signaling_client::Client::connect(options("bob", &secure.certificate));
    timeout(PATIENCE, async { tokio::join!(alice_hears.connected(), bob_hears.connected()) }).await.unwrap();
    let receipt = bob.signal("alice", "over TLS").unwrap();
    let heard = async {
        loop {
            if let Event::Signal(signal) = alice_hears.next().await.unwrap() {
                return signal.from;
            }
        }
    };
    assert_eq!(&*timeout(PATIENCE, heard).await.unwrap(), "bob");
    timeout(PATIENCE, receipt).await.unwrap().unwrap();

    let other = Certificate::new(secure.folder.path(), "other");
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
            alice.send(&json!({ "type": "signal", "to": "bob", "data": "x".repeat(60_000), "id": id })).await;
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
    let mut stream = secure.certificate.connect(&secure.mesh.address(), &[]).await.unwrap();
    stream
        .write_all(Head::connect("alice").with("Sec-WebSocket-Protocol", "signaling.v1").text().as_bytes())
        .await
        .unwrap();
    // A close with 1000, masked by zeros.
    stream.write_all(b"\x88\x82\0\0\0\0\x03\xe8").await.unwrap();
    let mut all = Vec::new();
    timeout(PATIENCE, stream.read_to_end(&mut all)).await.unwrap().expect("TLS ends in good order");
    let text = String::from_utf8_lossy(&all);
    assert!(text.starts_with("HTTP/1.1 101") && text.contains("welcome"), "{text}");
    assert!(all.ends_with(b"\x88\x02\x03\xe8"), "{text}");
}

#[tokio::test]
async fn plain_text_is_closed_unanswered_and_counted() {
    let secure = start().await;
    let before = metric(&secure, "signaling_refused_connects_total", "reason=\"tls\"").await;
    for bytes in [Head::connect("alice").text().into_bytes(), vec![0; 100], b"\x16\x03\x01\0\x05hello".to_vec()] {
        let mut stream = TcpStream::connect(secure.mesh.address()).await.unwrap();
        stream.write_all(&bytes).await.unwrap();
        let mut answer = Vec::new();
        let _ = timeout(PATIENCE, stream.read_to_end(&mut answer)).await.unwrap();
        assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
    }
    assert_eq!(metric(&secure, "signaling_refused_connects_total", "reason=\"tls\"").await, before + 3.0);
    let mut silent = TcpStream::connect(secure.mesh.address()).await.unwrap();
    assert!(signaling_integration_tests::http::ends(&mut silent, Duration::from_secs(3)).await);

    // The node's own listener was told of no certificate.
    let direct = secure.mesh.mesh.state().nodes[0].public.trim_start_matches("ws://").to_owned();
    assert_eq!(ask(&direct, Head::get("/").text()).await.status, 404);
}

#[tokio::test]
async fn tls_handshake_fails_when_only_http_2_is_offered() {
    let secure = start().await;
    let counted = async || metric(&secure, "signaling_refused_connects_total", "reason=\"tls\"").await;
    let before = counted().await;
    let error =
        secure.certificate.connect(&secure.mesh.address(), &["h2"]).await.expect_err("no protocol is agreed on");
    assert!(error.to_string().contains("NoApplicationProtocol"), "{error}");
    let refusals = "signaling_refused_connects_total";
    metrics::until(&secure.mesh.balancer(), refusals, "reason=\"tls\"", |refused| refused == before + 1.0).await;
    // A client that offers no protocol by ALPN is admitted.
    let stream = secure.certificate.connect(&secure.mesh.address(), &[]).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), None);
    assert_eq!(counted().await, before + 1.0);
}

#[tokio::test]
async fn node_with_a_certificate_serves_direct_clients_over_tls() {
    let folder = tempfile::tempdir().unwrap();
    let certificate = Certificate::new(folder.path(), "nodes");
    let mesh = TestMesh::with(|options| (options.nodes, options.node_args) = (2, certificate.flags())).await;
    let nodes = mesh.mesh.state().nodes;
    let address = |node: usize| nodes[node].public.trim_start_matches("ws://");
    let (alice_id, bob_id) = (mesh.id_owned_by("node-0", "alice"), mesh.id_owned_by("node-1", "bob"));
    let mut alice = client_at(&certificate, address(0), &alice_id).await;
    let mut bob = client_at(&certificate, address(1), &bob_id).await;
    alice.exchange(&mut bob, &bob_id, 1, 100).await;
    bob.exchange(&mut alice, &alice_id, 1, 60_000).await;

    // The balancer was told of no certificate, and its clients are in the same mesh.
    let mut carol = Peer::connect(&mesh.url(), "carol").await;
    carol.signal(&alice_id, json!("in the clear"), Some(1)).await;
    assert_eq!(alice.recv().await["data"], "in the clear");
    assert_eq!(carol.recv().await, json!({ "type": "ack", "id": 1 }));

    let mut plain = TcpStream::connect(address(0)).await.unwrap();
    plain.write_all(Head::connect("dave").text().as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let _ = timeout(PATIENCE, plain.read_to_end(&mut answer)).await.unwrap();
    assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
}
