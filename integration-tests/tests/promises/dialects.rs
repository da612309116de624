//! Clients of dialects connect by their own wire protocols, to any balancer, without a store. What
//! they send arrives once and in order, also while nodes are killed.

use std::time::Duration;

use serde_json::{Value, json};
use signaling_devmesh::MeshOptions;
use signaling_integration_tests::raw_socket::{BINARY, CLOSE, PING, PONG, TEXT, frame};
use signaling_integration_tests::{Answer, Head, RawSocket, TestMesh, ask, eventually, host};

const ALL: &str = "--dialects=peerjs,y-webrtc,trystero,rxdb";

/// Starts two balancers and three nodes with all dialects. Returns the balancers' addresses too.
async fn start() -> (TestMesh, [String; 2]) {
    let mesh = TestMesh::of((3, 2), &[], &[ALL]).await;
    let addresses: Vec<_> = mesh.state().balancers.iter().map(|balancer| host(&balancer.url).to_owned()).collect();
    (mesh, addresses.try_into().unwrap())
}

/// A client of a dialect.
struct Client(RawSocket);

impl Client {
    async fn open(address: &str, target: &str) -> Self {
        Self(RawSocket::open(address, &Head::upgrade(target)).await)
    }

    /// Opens a PeerJS client and waits for `OPEN`.
    async fn peerjs(address: &str, id: &str, token: &str) -> Self {
        let mut client = Self::open(address, &peerjs(id, token)).await;
        client.gets(json!({ "type": "OPEN" })).await;
        client
    }

    async fn send(&mut self, message: Value) {
        self.0.send(&frame(TEXT, message.to_string().as_bytes())).await;
    }

    /// Waits for the announce of a subscriber, its own included. The first one's may come before.
    async fn hears(&mut self, name: &str) {
        loop {
            let heard = self.0.message().await;
            assert!(heard["topic"] == "doc ü" && heard["clients"].is_u64(), "{heard}");
            if heard["data"]["from"] == name {
                return;
            }
        }
    }

    async fn gets(&mut self, expected: Value) {
        assert_eq!(self.0.message().await, expected);
    }
}

fn peerjs(id: &str, token: &str) -> String {
    format!("/peerjs/peerjs?key=peerjs&id={id}&token={token}&version=1.5.5")
}

fn offer(to: &str, number: u32) -> Value {
    json!({ "type": "OFFER", "dst": to, "payload": { "connectionId": number } })
}

fn offered(from: &str, to: &str, number: u32) -> Value {
    json!({ "type": "OFFER", "src": from, "dst": to, "payload": { "connectionId": number } })
}

async fn plain(address: &str, head: &Head) -> Answer {
    ask(address, &head.to_string()).await
}

#[tokio::test]
async fn dialect_is_absent_until_it_is_enabled() {
    let mesh = TestMesh::of((1, 1), &[], &["--dialects=y-webrtc"]).await;
    for head in [Head::get("/peerjs/"), Head::upgrade(&peerjs("alice", "t")), Head::upgrade("/trystero")] {
        assert_eq!(plain(&mesh.address(), &head).await.status, 404, "{head}");
    }
    assert_eq!(plain(&mesh.address(), &Head::get("/y-webrtc")).await.body, "okay");
}

#[tokio::test]
async fn native_client_cannot_take_a_reserved_name() {
    let mesh = TestMesh::of((1, 1), &[], &[ALL]).await;
    let answer = plain(&mesh.address(), &Head::connect("~pj:peerjs:alice")).await;
    assert_eq!((answer.status, &*answer.error_code()), (403, "reserved_name"));
    let mut peer = mesh.peer("native").await;
    peer.send(&json!({ "type": "signal", "to": "~pj:peerjs:alice", "data": 1, "id": 1 })).await;
    assert_eq!(peer.recv().await["code"], "forbidden");
}

#[tokio::test]
async fn peerjs_server_answers_plain_requests() {
    let mesh = TestMesh::of((1, 1), &[], &[ALL]).await;
    let get = async |path: &str| plain(&mesh.address(), &Head::get(path).with("Origin", "https://app.example")).await;
    let root: Value = serde_json::from_str(&get("/peerjs/").await.body).unwrap();
    assert_eq!(root["name"], "PeerJS Server");
    let id = get("/peerjs/peerjs/id?ts=1").await;
    assert_eq!((id.status, id.body.len()), (200, 36));
    assert_eq!(id.header("access-control-allow-origin"), Some("https://app.example"));
    let peers = get("/peerjs/peerjs/peers").await;
    assert_eq!((peers.status, &*peers.body), (401, "Unauthorized"));
    assert_eq!(get("/peerjs/other/path").await.status, 404);
}

#[tokio::test]
async fn peerjs_calls_pass_between_balancers_in_order() {
    let (mesh, [one, two]) = start().await;
    let mut alice = Client::peerjs(&one, "alice", "a").await;
    let mut bob = Client::peerjs(&two, "bob", "b").await;
    for number in 0..100 {
        alice.send(offer("bob", number)).await;
        alice.send(json!({ "type": "HEARTBEAT" })).await;
    }
    for number in 0..100 {
        bob.gets(offered("alice", "bob", number)).await;
    }
    bob.0.send(&frame(BINARY, json!({ "type": "LEAVE", "dst": "alice" }).to_string().as_bytes())).await;
    alice.gets(json!({ "type": "LEAVE", "src": "bob", "dst": "alice" })).await;
    let frames = mesh.of_balancer("signaling_dialect_frames_total", "dialect=\"peerjs\",direction=\"in\"").await;
    assert!(frames >= 200.0, "{frames}");
}

#[tokio::test]
async fn peerjs_call_to_an_absent_peer_expires() {
    let mesh = TestMesh::of((1, 1), &[], &[ALL]).await;
    let mut alice = Client::peerjs(&mesh.address(), "alice", "a").await;
    alice.send(offer("ghost", 1)).await;
    alice.send(offer("ghost", 2)).await;
    alice.gets(json!({ "type": "EXPIRE", "src": "ghost", "dst": "alice" })).await;
    alice.send(offer("alice", 3)).await;
    alice.gets(offered("alice", "alice", 3)).await;
}

#[tokio::test]
async fn peerjs_id_belongs_to_the_first_token() {
    let (_mesh, [one, two]) = start().await;
    let mut alice = Client::peerjs(&one, "alice", "secret").await;
    let answers_probe = async {
        assert_eq!(alice.0.frame().await.0, PING);
        alice.0.send(&frame(PONG, b"")).await;
    };
    let target = peerjs("alice", "wrong");
    let (mut other, ()) = tokio::join!(Client::open(&two, &target), answers_probe);
    other.gets(json!({ "type": "ID-TAKEN", "payload": { "msg": "ID is taken" } })).await;
    assert_eq!(other.0.closed().await.0, 1005);

    let mut again = Client::peerjs(&two, "alice", "secret").await;
    assert_eq!(alice.0.closed().await.0, 4410);
    again.send(offer("alice", 1)).await;
    again.gets(offered("alice", "alice", 1)).await;
}

#[tokio::test]
async fn peerjs_handshake_errors_are_frames() {
    let mesh = TestMesh::of((1, 1), &[], &[ALL]).await;
    for (query, message) in [
        ("key=peerjs&id=alice", "No id, token, or key supplied to websocket server"),
        ("key=wrong&id=alice&token=t", "Invalid key provided"),
    ] {
        let mut client = Client::open(&mesh.address(), &format!("/peerjs/peerjs?{query}")).await;
        client.gets(json!({ "type": "ERROR", "payload": { "msg": message } })).await;
        assert_eq!(client.0.closed().await.0, 1005);
    }
}

#[tokio::test]
async fn peerjs_messages_wait_for_a_broken_socket() {
    let (_mesh, [one, two]) = start().await;
    let alice = Client::peerjs(&one, "alice", "a").await;
    let mut bob = Client::peerjs(&two, "bob", "b").await;
    drop(alice);
    bob.send(offer("alice", 1)).await;
    bob.send(offer("alice", 2)).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let mut alice = Client::peerjs(&two, "alice", "a").await;
    alice.gets(offered("bob", "alice", 1)).await;
    alice.gets(offered("bob", "alice", 2)).await;
}

#[tokio::test]
async fn peerjs_close_frame_frees_the_id() {
    let mesh = TestMesh::of((1, 1), &[], &[ALL]).await;
    let mut alice = Client::peerjs(&mesh.address(), "alice", "a").await;
    alice.0.send(&frame(CLOSE, &1001_u16.to_be_bytes())).await;
    alice.0.closed().await;
    Client::peerjs(&mesh.address(), "alice", "other").await;
}

#[tokio::test]
async fn peerjs_calls_outlast_a_killed_node() {
    let (mesh, [one, two]) = start().await;
    let mut alice = Client::peerjs(&one, "alice", "a").await;
    let mut bob = Client::peerjs(&two, "bob", "b").await;
    alice.send(offer("bob", 0)).await;
    bob.gets(offered("alice", "bob", 0)).await;
    let kill = async { mesh.kill("node-0").await.unwrap() };
    let send = async {
        for number in 1..=200 {
            alice.send(offer("bob", number)).await;
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let receive = async {
        for number in 1..=200 {
            bob.gets(offered("alice", "bob", number)).await;
        }
    };
    tokio::join!(kill, send, receive);
}

#[tokio::test]
async fn y_webrtc_subscribers_at_two_balancers_meet() {
    let (_mesh, [one, two]) = start().await;
    let subscribe = json!({ "type": "subscribe", "topics": ["doc ü"] });
    let announce =
        |from: &str| json!({ "type": "publish", "topic": "doc ü", "data": { "type": "announce", "from": from } });
    let mut clients = [Client::open(&one, "/y-webrtc").await, Client::open(&two, "/y-webrtc/any?path=1").await];
    for (client, name) in clients.iter_mut().zip(["a", "b"]) {
        client.send(subscribe.clone()).await;
        client.send(announce(name)).await;
        client.hears(name).await;
    }
    let [first, second] = &mut clients;
    first.hears("b").await;
    second.send(json!({ "type": "unsubscribe", "topics": ["doc ü"] })).await;
    for client in [first, second] {
        client.send(json!({ "type": "ping" })).await;
        while client.0.message().await["type"] != "pong" {}
    }
}

#[tokio::test]
async fn trystero_publishes_without_a_subscription() {
    let (_mesh, [one, two]) = start().await;
    let mut subscriber = Client::open(&one, "/trystero").await;
    subscriber.send(json!({ "type": "subscribe", "topic": "t" })).await;
    let mut publisher = Client::open(&two, "/trystero").await;
    let met = async || {
        publisher.send(json!({ "type": "publish", "topic": "t", "payload": [1, null] })).await;
        let heard = tokio::time::timeout(Duration::from_millis(200), subscriber.0.message()).await.ok()?;
        assert_eq!(heard, json!({ "topic": "t", "payload": [1, null] }));
        Some(())
    };
    eventually("a publication to arrive", met).await;
}

#[tokio::test]
async fn rxdb_members_are_listed_and_signal() {
    let (mesh, [one, two]) = start().await;
    let (mut first, first_id) = rxdb(&one).await;
    first.send(json!({ "type": "join", "room": "room-1" })).await;
    first.gets(json!({ "type": "joined", "otherPeerIds": [first_id] })).await;
    let (mut second, second_id) = rxdb(&two).await;
    second.send(json!({ "type": "join", "room": "room-1" })).await;
    for client in [&mut first, &mut second] {
        client.gets(json!({ "type": "joined", "otherPeerIds": [first_id, second_id] })).await;
    }
    mesh.kill("node-1").await.unwrap();
    let signal = json!({
        "type": "signal", "room": "room-1", "senderPeerId": second_id, "receiverPeerId": first_id, "data": { "sdp": "x" },
    });
    second.send(signal.clone()).await;
    first.gets(signal).await;
    drop(second);
    first.gets(json!({ "type": "joined", "otherPeerIds": [first_id] })).await;
}

async fn rxdb(address: &str) -> (Client, String) {
    let mut client = Client::open(address, "/rxdb").await;
    let init = client.0.message().await;
    assert_eq!(init["type"], "init");
    (client, init["yourPeerId"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn invalid_frames_have_the_close_codes_of_websocket() {
    let mesh = TestMesh::with(|options: &mut MeshOptions| {
        (options.nodes, options.balancers) = (1, 1);
        options.balancer_args = vec![ALL.to_owned()];
    })
    .await;
    let large = vec![b' '; 64 * 1024 + 1];
    for (target, bytes, code) in [
        ("/y-webrtc", frame(TEXT, b"\xff"), 1007),
        ("/y-webrtc", frame(TEXT, &large), 1009),
        ("/rxdb", frame(TEXT, b"null"), 1005),
        ("/trystero", frame(0x83, b""), 1002),
    ] {
        let mut client = Client::open(&mesh.address(), target).await;
        client.0.send(&bytes).await;
        assert_eq!(client.0.closed().await.0, code, "{target} {code}");
    }
    let mut client = Client::open(&mesh.address(), "/y-webrtc").await;
    for text in ["not json", "null", "5", "[]", r#"{"type":"unknown"}"#, r#"{"type":"subscribe","topics":"t"}"#] {
        client.0.send(&frame(TEXT, text.as_bytes())).await;
    }
    client.send(json!({ "type": "ping" })).await;
    client.gets(json!({ "type": "pong" })).await;
}
