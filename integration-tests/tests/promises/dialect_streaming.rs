//! Streamers, SFUs and players of Pixel Streaming find each other at any balancers. An id has one
//! streamer.

use std::time::Duration;

use serde_json::{Value, json};
use signaling_integration_tests::dialect_client::text;
use signaling_integration_tests::raw_socket::{PING, PONG, frame};
use signaling_integration_tests::{DialectClient, TestMesh};
use tokio::time::{Instant, sleep};

/// Age of a client's last message from which a claim of its id causes a Ping.
const RECENT: Duration = Duration::from_secs(1);
/// Time limit of a claim of a live id, with a margin over the 2 s of a probe.
const CLAIM_TIMEOUT: Duration = Duration::from_millis(2500);
/// Time limit of a claim of a dead socket's id: the whole 2 s, the next sweep, and a margin.
const DEAD_CLAIM_TIMEOUT: Duration = Duration::from_secs(4);

fn config() -> Value {
    json!({ "type": "config", "peerConnectionOptions": { "iceServers": [] }, "protocolVersion": "1.3.0" })
}

/// Opens a streamer or an SFU and requests an id.
async fn claimant(address: &str, role: &str, id: &str) -> DialectClient {
    let mut client = DialectClient::open(address, &format!("/pixelstreaming/{role}")).await;
    client.gets(json!({ "type": "identify" })).await;
    client.gets(config()).await;
    client.send(json!({ "type": "endpointId", "id": id })).await;
    client
}

/// Opens a streamer with an id.
async fn streamer(address: &str, id: &str) -> DialectClient {
    let mut client = claimant(address, "streamer", id).await;
    client.gets(confirm(id)).await;
    client
}

fn confirm(id: &str) -> Value {
    json!({ "type": "endpointIdConfirm", "committedId": id })
}

async fn player(address: &str) -> DialectClient {
    let mut client = DialectClient::open(address, "/pixelstreaming/player").await;
    client.gets(config()).await;
    client
}

/// Subscribes a client to a streamer and reads its `playerId` there.
async fn subscribe(client: &mut DialectClient, streamer: &mut DialectClient, id: &str, is_sfu: bool) {
    client.send(json!({ "type": "subscribe", "streamerId": id })).await;
    let connected = streamer.receive().await;
    client.id = text(&connected, "playerId");
    let expected = json!({ "type": "playerConnected", "dataChannel": true, "sfu": is_sfu, "playerId": client.id });
    assert_eq!(connected, expected);
}

fn disconnected(player_id: &str) -> Value {
    json!({ "type": "playerDisconnected", "playerId": player_id })
}

/// Returns a message of a player or for it.
fn message(kind: &str, player_id: &str) -> Value {
    json!({ "type": kind, "sdp": "v=0", "playerId": player_id })
}

#[tokio::test]
async fn pixel_streaming_player_negotiates_when_a_node_is_killed() {
    let (mesh, [one, two]) = TestMesh::with_dialects(&[]).await;
    let (mut streamer, mut player) = (streamer(&one, "Foo").await, player(&two).await);
    player.send(json!({ "type": "listStreamers" })).await;
    player.gets(json!({ "type": "streamerList", "ids": ["Foo"] })).await;
    subscribe(&mut player, &mut streamer, "Foo", false).await;
    mesh.kill(&mesh.owner("~ps:sub:Foo")).await.unwrap();
    for kind in ["offer", "answer", "iceCandidate"] {
        player.send(message(kind, "Player1")).await;
        streamer.gets(message(kind, &player.id)).await;
        streamer.send(message(kind, "Player1")).await;
        streamer.send(message(kind, &player.id)).await;
        player.gets(message(kind, &player.id)).await;
    }
    player.send(json!({ "type": "unsubscribe" })).await;
    streamer.gets(disconnected(&player.id)).await;
}

#[tokio::test]
async fn pixel_streaming_player_is_closed_by_its_streamer() {
    let (_mesh, [one, two]) = TestMesh::with_dialects(&[]).await;
    let mut foo = streamer(&one, "Foo").await;
    let (mut first, mut second) = (player(&two).await, player(&one).await);
    subscribe(&mut first, &mut foo, "Foo", false).await;
    subscribe(&mut second, &mut foo, "Foo", false).await;
    foo.send(json!({ "type": "disconnectPlayer", "playerId": first.id, "reason": "idle" })).await;
    assert_eq!(first.socket.closed().await, (1011, "idle".to_owned()));
    foo.gets(disconnected(&first.id)).await;
    drop(foo);
    assert_eq!(second.socket.closed().await.0, 1005);
    streamer(&two, "Foo").await;
}

#[tokio::test]
async fn pixel_streaming_sfu_passes_a_stream_on() {
    let (_mesh, [one, two]) = TestMesh::with_dialects(&[]).await;
    let mut foo = streamer(&one, "Foo").await;
    let mut sfu = claimant(&two, "sfu", "Sfu").await;
    sfu.gets(confirm("Sfu")).await;
    subscribe(&mut sfu, &mut foo, "Foo", true).await;
    let mut player = player(&one).await;
    subscribe(&mut player, &mut sfu, "Sfu", false).await;

    foo.send(message("offer", &sfu.id)).await;
    sfu.gets(message("offer", &sfu.id)).await;
    // The second message shows that the first is not relayed.
    sfu.send(message("iceCandidate", &sfu.id)).await;
    sfu.send(message("answer", "")).await;
    foo.gets(message("answer", &sfu.id)).await;
    sfu.send(json!({ "type": "streamerDataChannels", "playerId": player.id })).await;
    foo.gets(json!({ "type": "streamerDataChannels", "playerId": player.id, "sfuId": sfu.id })).await;
    for kind in ["offer", "peerDataChannels"] {
        sfu.send(message(kind, &player.id)).await;
        player.gets(json!({ "type": kind, "sdp": "v=0" })).await;
    }
    player.send(message("answer", "")).await;
    sfu.gets(message("answer", &player.id)).await;

    drop(foo);
    sfu.gets(json!({ "type": "streamerDisconnected" })).await;
    sfu.gets(disconnected(&player.id)).await;
    assert_eq!(player.socket.closed().await.0, 1005);
    sfu.send(json!({ "type": "ping" })).await;
    sfu.gets(json!({ "type": "pong", "time": 0 })).await;
}

#[tokio::test]
async fn pixel_streaming_id_gets_a_number_when_it_is_taken() {
    let (_mesh, [one, two]) = TestMesh::with_dialects(&[]).await;
    let mut holder = streamer(&one, "Foo").await;
    sleep(RECENT).await;
    let mut second = claimant(&two, "streamer", "Foo").await;
    let start = Instant::now();
    assert_eq!(holder.socket.frame().await.0, PING);
    holder.socket.send(&frame(PONG, b"")).await;
    second.gets(confirm("Foo1")).await;
    assert!(start.elapsed() < CLAIM_TIMEOUT, "{:?}", start.elapsed());

    let mut player = player(&two).await;
    player.send(json!({ "type": "listStreamers" })).await;
    player.gets(json!({ "type": "streamerList", "ids": ["Foo", "Foo1"] })).await;
}

#[tokio::test]
async fn pixel_streaming_id_passes_on_when_its_socket_is_dead() {
    let (_mesh, [one, two]) = TestMesh::with_dialects(&[]).await;
    let mut dead = streamer(&one, "Foo").await;
    sleep(RECENT).await;
    let mut second = claimant(&two, "streamer", "Foo").await;
    let start = Instant::now();
    second.gets(confirm("Foo")).await;
    assert!(start.elapsed() < DEAD_CLAIM_TIMEOUT, "{:?}", start.elapsed());
    assert_eq!(dead.socket.closed().await.0, 1005);
}

#[tokio::test]
async fn pixel_streaming_player_is_refused_when_its_streamer_is_full() {
    let (_mesh, [one, two]) = TestMesh::with_dialects(&["--pixelstreaming-max-players=1"]).await;
    let mut foo = streamer(&one, "Foo").await;
    let (mut first, mut second) = (player(&two).await, player(&one).await);
    subscribe(&mut first, &mut foo, "Foo", false).await;
    for (id, message) in
        [("Foo", "Streamer Foo is full. Max players = 1."), ("nobody", "Streamer nobody does not exist.")]
    {
        second.send(json!({ "type": "subscribe", "streamerId": id })).await;
        second.gets(json!({ "type": "subscribeFailed", "message": message })).await;
    }
    first.send(json!({ "type": "unsubscribe" })).await;
    foo.gets(disconnected(&first.id)).await;
    subscribe(&mut second, &mut foo, "Foo", false).await;
}
