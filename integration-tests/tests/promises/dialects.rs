//! Clients of dialects connect by their own wire protocols, to any balancer. Their messages arrive
//! once and in order, also while nodes are killed.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use signaling_integration_tests::raw_socket::{BINARY, CLOSE, PING, PONG, frame};
use signaling_integration_tests::{DialectClient, Head, TestMesh, ask, during, eventually, refused, until_some};

/// Opens a PeerJS client and waits for `OPEN`.
async fn open_peerjs(address: &str, id: &str, token: &str) -> DialectClient {
    let mut client = DialectClient::open(address, &peerjs(id, token)).await;
    client.gets(json!({ "type": "OPEN" })).await;
    client
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

#[tokio::test]
async fn dialect_is_absent_until_it_is_enabled() {
    let mesh = TestMesh::with_servers((1, 1), &[], &["--dialects=y-webrtc"]).await;
    for head in [Head::get("/peerjs/"), Head::upgrade(&peerjs("alice", "t")), Head::upgrade("/trystero")] {
        assert_eq!(ask(&mesh.address(), &head).await.status, 404, "{head}");
    }
    assert_eq!(ask(&mesh.address(), &Head::get("/y-webrtc")).await.body, "okay");
}

#[tokio::test]
async fn native_client_cannot_take_a_reserved_name() {
    let mesh = TestMesh::small_with_dialects().await;
    refused(&mesh.address(), &Head::connect("~pj:peerjs:alice"), (403, "reserved_name")).await;
    let mut peer = mesh.peer("native").await;
    peer.send(&json!({ "type": "signal", "to": "~pj:peerjs:alice", "data": 1, "id": 1 })).await;
    assert_eq!(peer.recv().await["code"], "forbidden");
}

#[tokio::test]
async fn peerjs_server_answers_plain_requests() {
    let mesh = TestMesh::small_with_dialects().await;
    let get = async |path: &str| ask(&mesh.address(), &Head::get(path).with("Origin", "https://app.example")).await;
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
async fn head_of_a_dialect_has_the_answer_of_get() {
    let mesh = TestMesh::small_with_dialects().await;
    for path in ["/peerjs/", "/peerjs/peerjs/id", "/y-webrtc", "/matchbox/health", "/matchbox", "/rxdb"] {
        let [get, head] = ["GET", "HEAD"].map(|method| Head::get(path).method(method));
        let (get, head) = (ask(&mesh.address(), &get).await, ask(&mesh.address(), &head).await);
        assert_eq!((head.status, head.header("content-type")), (get.status, get.header("content-type")), "{path}");
        let length = head.header("content-length");
        assert!(head.body.is_empty() && length.is_none_or(|length| length == get.body.len().to_string()), "{path}");
    }
}

#[tokio::test]
async fn peerjs_client_with_the_default_path_connects() {
    let mesh = TestMesh::with_servers((1, 1), &[], &["--dialects=peerjs", "--peerjs-keys=peerjs,other"]).await;
    for key in ["peerjs", "other"] {
        let id = ask(&mesh.address(), &Head::get(&format!("/{key}/id?ts=1"))).await;
        assert_eq!((id.status, id.body.len()), (200, 36), "{key}");
        let target = format!("/peerjs?key={key}&id={}&token=t", id.body);
        DialectClient::open(&mesh.address(), &target).await.gets(json!({ "type": "OPEN" })).await;
    }
    assert_eq!(ask(&mesh.address(), &Head::get("/unknown/id")).await.status, 404);
}

#[tokio::test]
async fn dialect_selects_the_first_offered_subprotocol() {
    let mesh = TestMesh::small_with_dialects().await;
    for target in ["/y-webrtc", "/peerjs/peerjs?key=peerjs&id=alice&token=t", "/peerjs/peerjs"] {
        let head = Head::upgrade(target).offer("bearer.secret, chat, other");
        assert_eq!(ask(&mesh.address(), &head).await.header("sec-websocket-protocol"), Some("chat"), "{target}");
        let head = Head::upgrade(target).offer("bearer.secret");
        assert_eq!(ask(&mesh.address(), &head).await.header("sec-websocket-protocol"), None, "{target}");
    }
}

#[tokio::test]
async fn peerjs_calls_pass_between_balancers_in_order() {
    let (mesh, [one, two]) = TestMesh::with_dialects(&[]).await;
    let mut alice = open_peerjs(&one, "alice", "a").await;
    let mut bob = open_peerjs(&two, "bob", "b").await;
    for number in 0..100 {
        alice.send(offer("bob", number)).await;
        alice.send(json!({ "type": "HEARTBEAT" })).await;
    }
    for number in 0..100 {
        bob.gets(offered("alice", "bob", number)).await;
    }
    bob.send_as(BINARY, &json!({ "type": "LEAVE", "dst": "alice" }).to_string()).await;
    alice.gets(json!({ "type": "LEAVE", "src": "bob", "dst": "alice" })).await;
    let frames = mesh.balancer_metric("signaling_dialect_frames_total", "dialect=\"peerjs\",direction=\"in\"").await;
    assert!(frames >= 200.0, "{frames}");
}

#[tokio::test]
async fn peerjs_call_to_an_absent_peer_expires() {
    let mesh = TestMesh::small_with_dialects().await;
    let mut alice = open_peerjs(&mesh.address(), "alice", "a").await;
    alice.send(offer("ghost", 1)).await;
    alice.send(offer("ghost", 2)).await;
    alice.gets(json!({ "type": "EXPIRE", "src": "ghost", "dst": "alice" })).await;
    alice.send(offer("alice", 3)).await;
    alice.gets(offered("alice", "alice", 3)).await;
}

#[tokio::test]
async fn peerjs_id_belongs_to_the_first_token() {
    let (_mesh, [one, two]) = TestMesh::with_dialects(&[]).await;
    let mut alice = open_peerjs(&one, "alice", "secret").await;
    let answers_probe = async {
        assert_eq!(alice.socket.frame().await.0, PING);
        alice.socket.send(&frame(PONG, b"")).await;
    };
    let target = peerjs("alice", "wrong");
    let (mut other, ()) = tokio::join!(DialectClient::open(&two, &target), answers_probe);
    other.gets(json!({ "type": "ID-TAKEN", "payload": { "msg": "ID is taken" } })).await;
    assert_eq!(other.socket.closed().await.0, 1005);

    let mut again = open_peerjs(&two, "alice", "secret").await;
    assert_eq!(alice.socket.closed().await.0, 4410);
    again.send(offer("alice", 1)).await;
    again.gets(offered("alice", "alice", 1)).await;
}

#[tokio::test]
async fn lingering_peerjs_id_keeps_its_messages_for_its_token() {
    let (mesh, [one, two]) = TestMesh::with_dialects(&[]).await;
    let mut bob = open_peerjs(&two, "bob", "b").await;
    let until_lost = async || {
        eventually("the socket to be lost", async || mesh.sum_over_nodes("signaling_sessions").await == 1.0).await;
    };
    drop(open_peerjs(&one, "alice", "secret").await);
    // The first offer may come before the loss is noticed.
    bob.send(offer("alice", 1)).await;
    until_lost().await;
    bob.send(offer("alice", 2)).await;
    let mut stranger = DialectClient::open(&two, &peerjs("alice", "wrong")).await;
    stranger.gets(json!({ "type": "ID-TAKEN", "payload": { "msg": "ID is taken" } })).await;
    let mut alice = open_peerjs(&two, "alice", "secret").await;
    alice.gets(offered("bob", "alice", 1)).await;
    alice.gets(offered("bob", "alice", 2)).await;

    drop(alice);
    until_lost().await;
    bob.send(offer("alice", 3)).await;
    // Now at the balancer that lost the socket.
    let mut alice = open_peerjs(&two, "alice", "secret").await;
    alice.gets(offered("bob", "alice", 3)).await;
}

#[tokio::test]
async fn peerjs_handshake_errors_are_frames() {
    let mesh = TestMesh::small_with_dialects().await;
    for (query, message) in [
        ("key=peerjs&id=alice", "No id, token, or key supplied to websocket server"),
        ("key=wrong&id=alice&token=t", "Invalid key provided"),
    ] {
        let mut client = DialectClient::open(&mesh.address(), &format!("/peerjs/peerjs?{query}")).await;
        client.gets(json!({ "type": "ERROR", "payload": { "msg": message } })).await;
        assert_eq!(client.socket.closed().await.0, 1005);
    }
}

#[tokio::test]
async fn peerjs_close_frame_frees_the_id() {
    let mesh = TestMesh::small_with_dialects().await;
    let mut alice = open_peerjs(&mesh.address(), "alice", "a").await;
    alice.socket.send(&frame(CLOSE, &1001_u16.to_be_bytes())).await;
    alice.socket.closed().await;
    open_peerjs(&mesh.address(), "alice", "other").await;
}

#[tokio::test]
async fn peerjs_calls_outlast_a_killed_node() {
    let (mesh, [one, two]) = TestMesh::with_dialects(&[]).await;
    let mut alice = open_peerjs(&one, "alice", "a").await;
    let mut bob = open_peerjs(&two, "bob", "b").await;
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
async fn dialect_socket_outlasts_native_ones_in_a_drain() {
    let flags = ["--dialects=matchbox", "--drain-ms=1500", "--dialect-drain-ms=6000"];
    let mesh = TestMesh::with_servers((1, 1), &[], &flags).await;
    let mut native = mesh.peer("native").await;
    let mut player = DialectClient::with_id(&mesh.address(), "/matchbox/room", "IdAssigned").await;
    let begin = Instant::now();
    let closed = async {
        native.until_sent_away(1001).await;
        let first = begin.elapsed();
        assert_eq!(player.socket.closed().await.0, 1001);
        (first, begin.elapsed())
    };
    let (first, last) = during(mesh.drain("balancer-0"), closed).await;
    assert!(first < Duration::from_secs(3) && last > Duration::from_secs(4), "{first:?}, {last:?}");
}

#[tokio::test]
async fn y_webrtc_subscribers_at_two_balancers_meet() {
    let (_mesh, [one, two]) = TestMesh::with_dialects(&[]).await;
    let subscribe = json!({ "type": "subscribe", "topics": ["doc ü"] });
    let announce =
        |from: &str| json!({ "type": "publish", "topic": "doc ü", "data": { "type": "announce", "from": from } });
    let mut clients =
        [DialectClient::open(&one, "/y-webrtc").await, DialectClient::open(&two, "/y-webrtc/any?path=1").await];
    for (client, name) in clients.iter_mut().zip(["a", "b"]) {
        client.send(subscribe.clone()).await;
        client.send(announce(name)).await;
        until_announced(client, name).await;
    }
    let [first, second] = &mut clients;
    until_announced(first, "b").await;
    second.send(json!({ "type": "unsubscribe", "topics": ["doc ü"] })).await;
    for client in [first, second] {
        client.send(json!({ "type": "ping" })).await;
        while client.receive().await["type"] != "pong" {}
    }
}

/// Waits for the announce of a subscriber, its own included. The first one's may come before.
async fn until_announced(client: &mut DialectClient, name: &str) {
    loop {
        let received = client.receive().await;
        assert!(received["topic"] == "doc ü" && received["clients"].is_u64(), "{received}");
        if received["data"]["from"] == name {
            return;
        }
    }
}

#[tokio::test]
async fn trystero_publishes_without_a_subscription() {
    let (_mesh, [one, two]) = TestMesh::with_dialects(&[]).await;
    let mut subscriber = DialectClient::open(&one, "/trystero").await;
    subscriber.send(json!({ "type": "subscribe", "topic": "t" })).await;
    let mut publisher = DialectClient::open(&two, "/trystero").await;
    let met = async || {
        publisher.send(json!({ "type": "publish", "topic": "t", "payload": [1, null] })).await;
        let received = tokio::time::timeout(Duration::from_millis(200), subscriber.receive()).await.ok()?;
        assert_eq!(received, json!({ "topic": "t", "payload": [1, null] }));
        Some(())
    };
    until_some("a publication to arrive", met).await;
}

#[tokio::test]
async fn rxdb_members_are_listed_and_signal() {
    let (mesh, [one, two]) = TestMesh::with_dialects(&[]).await;
    let mut first = rxdb(&one).await;
    first.gets(json!({ "type": "joined", "otherPeerIds": [first.id] })).await;
    let mut second = rxdb(&two).await;
    let both = json!({ "type": "joined", "otherPeerIds": [first.id, second.id] });
    first.gets(both.clone()).await;
    second.gets(both).await;
    mesh.kill("node-1").await.unwrap();
    let signal = json!({
        "type": "signal", "room": "room-1", "senderPeerId": second.id, "receiverPeerId": first.id, "data": { "sdp": "x" },
    });
    second.send(signal.clone()).await;
    first.gets(signal).await;
    drop(second);
    first.gets(json!({ "type": "joined", "otherPeerIds": [first.id] })).await;
}

/// Opens an rxdb client and joins a room.
async fn rxdb(address: &str) -> DialectClient {
    let mut client = DialectClient::with_id(address, "/rxdb", "yourPeerId").await;
    client.send(json!({ "type": "join", "room": "room-1" })).await;
    client
}
