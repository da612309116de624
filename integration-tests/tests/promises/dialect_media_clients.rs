//! The clients of Pixel Streaming and GStreamer play streams, at different balancers and while
//! streamers return.

use serde_json::json;
use signaling_integration_tests::{Page, UpstreamMesh, during};

/// Opens a streamer with upstream's wire protocol. Each player gets a text over its data channel.
const STREAMER: &str = include_str!("dialect_media_clients/streamer.js");

/// Opens a player. `texts` has the texts that it received.
const PLAYER: &str = include_str!("dialect_media_clients/player.js");

/// Opens a client of GStreamer. `producers()` returns the names of producers.
const PEER: &str = include_str!("dialect_media_clients/peer.js");

/// Offers a stream. `consumers` is the number of its sessions.
const PRODUCE: &str = include_str!("dialect_media_clients/produce.js");

/// Calls the only producer. `isStreaming` becomes true once its stream has come.
const CONSUME: &str = "(() => {
    window.session = api.createConsumerSession(api.getAvailableProducers()[0].id);
    window.isStreaming = () =>
        session.streams.length === 1 && session.rtcPeerConnection?.connectionState === 'connected';
    window.isClosed = () => session.state === upstream.GstWebRTCAPI.SessionState.closed;
    session.connect();
})()";

/// Opens a streamer and waits until it has its id.
async fn streamer<'a>(setup: &'a UpstreamMesh, balancer: usize, text: &str) -> Page<'a> {
    let address = &setup.balancers[balancer];
    let page = setup.open_page(text, address, STREAMER, json!({ "address": address, "id": "Foo", "text": text })).await;
    page.becomes("window.committedId === 'Foo'").await;
    page
}

/// Opens a client of GStreamer and waits until it is connected.
async fn peer<'a>(setup: &'a UpstreamMesh, balancer: usize, name: &str) -> Page<'a> {
    let address = &setup.balancers[balancer];
    let page = setup.open_page(name, address, PEER, json!({ "address": address, "name": name })).await;
    page.becomes("isReady").await;
    page
}

#[tokio::test]
async fn pixel_streaming_player_gets_a_returned_streamers_stream() {
    let Some(setup) = UpstreamMesh::start().await else { return };
    let first = streamer(&setup, 0, "first").await;
    let address = &setup.balancers[1];
    let player = setup.open_page("player", address, PLAYER, json!({ "address": address, "id": "Foo" })).await;
    player.becomes("texts.at(-1) === 'first'").await;
    first.becomes("playerCount() === 1").await;
    first.close().await;
    let second = streamer(&setup, 1, "second").await;
    player.becomes("texts.at(-1) === 'second'").await;
    second.becomes("playerCount() === 1").await;
    player.close().await;
    second.becomes("playerCount() === 0").await;
}

#[tokio::test]
async fn pixel_streaming_player_returns_when_its_balancer_restarts() {
    let Some(setup) = UpstreamMesh::start().await else { return };
    let streamer = streamer(&setup, 0, "text").await;
    let address = &setup.balancers[1];
    let player = setup.open_page("player", address, PLAYER, json!({ "address": address, "id": "Foo" })).await;
    player.becomes("texts.length === 1").await;
    setup.mesh.restart("balancer-1").await.unwrap();
    player.becomes("texts.length === 2").await;
    streamer.becomes("playerCount() === 1").await;
}

#[tokio::test]
async fn gstreamer_clients_list_call_and_end_across_balancers() {
    let Some(setup) = UpstreamMesh::start().await else { return };
    let consumer = peer(&setup, 0, "consumer").await;
    let producer = peer(&setup, 1, "cam").await;
    producer.evaluate(PRODUCE).await;
    consumer.becomes("producers() === 'cam'").await;
    consumer.evaluate(CONSUME).await;
    consumer.becomes("isStreaming()").await;
    consumer.evaluate("session.close()").await;
    producer.becomes("consumers === 0").await;

    consumer.evaluate(CONSUME).await;
    consumer.becomes("isStreaming()").await;
    assert_eq!(producer.evaluate("consumers").await, 1);
    producer.evaluate("session.close()").await;
    consumer.becomes("isClosed() && producers() === ''").await;
}

#[tokio::test]
async fn gstreamer_call_connects_when_a_node_is_killed() {
    let Some(setup) = UpstreamMesh::start().await else { return };
    let producer = peer(&setup, 0, "cam").await;
    producer.evaluate(PRODUCE).await;
    let consumer = peer(&setup, 1, "consumer").await;
    consumer.becomes("producers() === 'cam'").await;
    let owner = setup.mesh.owner("~gs:cams");
    during(setup.mesh.kill(&owner), consumer.evaluate(CONSUME)).await;
    consumer.becomes("isStreaming()").await;
}
