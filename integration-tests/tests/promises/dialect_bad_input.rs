//! Bad input of a dialect's client is ignored or closes its socket, and reaches no other client.

use serde_json::{Value, json};
use signaling_integration_tests::raw_socket::{BINARY, PING, TEXT, frame};
use signaling_integration_tests::{DialectClient, TestMesh};

const Y_WEBRTC: &str = "/y-webrtc";
const PLAYER: &str = "/pixelstreaming/player";
const MATCHBOX: &str = "/matchbox";
const GSTREAMER: &str = "/gstreamer";

/// Texts that no dialect but rxdb reacts to.
const IGNORED: [&str; 7] = ["", "not json", "null", "5", "[]", "{}", r#"{"type":"unknown"}"#];

/// Opens a client and reads its greeting.
async fn open(mesh: &TestMesh, target: &str) -> DialectClient {
    let address = mesh.address();
    match target {
        Y_WEBRTC => DialectClient::open(&address, target).await,
        MATCHBOX => DialectClient::with_id(&address, target, "IdAssigned").await,
        GSTREAMER => DialectClient::with_id(&address, target, "peerId").await,
        _ => DialectClient::with_id(&address, target, "type").await,
    }
}

/// Returns a request that the server answers at once, and its answer.
fn question(target: &str, id: &str) -> (Value, Value) {
    match target {
        Y_WEBRTC => (json!({ "type": "ping" }), json!({ "type": "pong" })),
        PLAYER => (json!({ "type": "ping", "time": 5 }), json!({ "type": "pong", "time": 5 })),
        MATCHBOX => {
            let signal = |end: &str| json!({ "Signal": { end: id, "data": null } });
            (signal("receiver"), signal("sender"))
        }
        _ => (json!({ "type": "list" }), json!({ "type": "list", "producers": [] })),
    }
}

#[tokio::test]
async fn bad_message_of_a_dialect_is_ignored() {
    let mesh = TestMesh::small_with_dialects().await;
    for target in [Y_WEBRTC, PLAYER, MATCHBOX, GSTREAMER] {
        let mut client = open(&mesh, target).await;
        for text in IGNORED {
            client.send_as(TEXT, text).await;
        }
        let (request, answer) = question(target, &client.id);
        client.send(request).await;
        client.gets(answer).await;
    }
}

#[tokio::test]
async fn binary_frame_is_read_unless_upstream_ignores_it() {
    let mesh = TestMesh::small_with_dialects().await;
    for (target, is_read) in [(Y_WEBRTC, true), (PLAYER, true), (MATCHBOX, false), (GSTREAMER, false)] {
        let mut client = open(&mesh, target).await;
        let (request, answer) = question(target, &client.id);
        client.send_as(BINARY, &request.to_string()).await;
        client.send(request).await;
        client.gets(answer.clone()).await;
        if is_read {
            client.gets(answer).await;
        }
        assert_silent(&mut client).await;
    }
}

/// Asserts that the server has written no message up to the answer of a Ping.
async fn assert_silent(client: &mut DialectClient) {
    client.socket.send(&frame(PING, b"")).await;
    let (first, payload) = client.socket.frame().await;
    assert_ne!(first, TEXT, "{:?}", payload.escape_ascii().to_string());
}

#[tokio::test]
async fn repeated_field_counts_unless_upstream_ignores_it() {
    let mesh = TestMesh::small_with_dialects().await;
    let mut player = open(&mesh, PLAYER).await;
    player.send_as(TEXT, r#"{"type":"pong","time":1,"time":5,"type":"ping"}"#).await;
    player.gets(json!({ "type": "pong", "time": 5 })).await;

    let mut client = open(&mesh, GSTREAMER).await;
    client.send_as(TEXT, r#"{"type":"list","type":"list"}"#).await;
    assert_silent(&mut client).await;

    let mut client = open(&mesh, MATCHBOX).await;
    client.send_as(TEXT, &format!(r#"{{"Signal":{{"receiver":"{}","data":1,"data":2}}}}"#, client.id)).await;
    let (request, answer) = question(MATCHBOX, &client.id);
    client.send(request).await;
    client.gets(answer).await;
}

#[tokio::test]
async fn broken_frame_of_a_dialect_closes_its_socket() {
    let mesh = TestMesh::small_with_dialects().await;
    let large = vec![b' '; 64 * 1024 + 1];
    for target in [Y_WEBRTC, PLAYER, MATCHBOX, GSTREAMER] {
        for (bytes, code) in [
            (frame(TEXT, b"\xff"), 1007),
            (frame(TEXT, &large), 1009),
            (frame(0x83, b""), 1002),
            (frame(PING, b"").repeat(200), 1008),
        ] {
            let mut client = DialectClient::open(&mesh.address(), target).await;
            client.socket.send(&bytes).await;
            assert_eq!(client.socket.closed().await.0, code, "{target}");
        }
    }
}

#[tokio::test]
async fn too_large_message_gets_the_error_of_its_dialect() {
    let mesh = TestMesh::small_with_dialects().await;
    let large = frame(TEXT, &[b' '; 64 * 1024 + 1]);
    let reason = "the message is too big";
    for (target, error) in [
        ("/peerjs/peerjs?key=peerjs&id=alice&token=t", json!({ "type": "ERROR", "payload": { "msg": reason } })),
        (GSTREAMER, json!({ "type": "error", "details": reason })),
    ] {
        let mut client = DialectClient::open(&mesh.address(), target).await;
        client.receive().await;
        client.socket.send(&large).await;
        client.gets(error).await;
        assert_eq!(client.socket.closed().await.0, 1009, "{target}");
    }
}

#[tokio::test]
async fn rxdb_socket_is_closed_when_its_message_is_bad() {
    let mesh = TestMesh::small_with_dialects().await;
    for text in ["not json", "null", "5", "[]", r#"{"type":"unknown"}"#] {
        let mut client = DialectClient::open(&mesh.address(), "/rxdb").await;
        client.send_as(TEXT, text).await;
        assert_eq!(client.socket.closed().await.0, 1005, "{text}");
    }
}
