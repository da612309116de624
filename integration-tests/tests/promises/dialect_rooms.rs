//! Clients of matchbox and GStreamer meet in rooms, at any balancers and without a store. A killed
//! node changes neither members nor sessions.

use serde_json::{Value, json};
use signaling_integration_tests::dialect_client::text;
use signaling_integration_tests::{DialectClient, TestMesh};

async fn matchbox(address: &str) -> DialectClient {
    DialectClient::with_id(address, "/matchbox/room", "IdAssigned").await
}

/// Sends a signal, which must be the next message of its recipient.
async fn signal(from: &mut DialectClient, to: &mut DialectClient) {
    let data = json!({ "Offer": "v=0" });
    from.send(json!({ "Signal": { "receiver": to.id, "data": data } })).await;
    to.gets(json!({ "Signal": { "sender": from.id, "data": data } })).await;
}

/// Waits until a pair of clients has met. Returns it, the older one first.
async fn meet([mut one, mut two]: [DialectClient; 2]) -> [DialectClient; 2] {
    let (younger, is_one_older) = tokio::select! {
        message = one.receive() => (text(&message, "NewPeer"), true),
        message = two.receive() => (text(&message, "NewPeer"), false),
    };
    let [older, other] = if is_one_older { [one, two] } else { [two, one] };
    assert_eq!(younger, other.id);
    [older, other]
}

#[tokio::test]
async fn matchbox_peers_stay_when_the_rooms_node_is_killed() {
    let (mesh, [one, two]) = TestMesh::with_dialects(&[]).await;
    let [mut a, mut b] = meet([matchbox(&one).await, matchbox(&two).await]).await;
    signal(&mut a, &mut b).await;
    mesh.kill(&mesh.owner("~mb:room")).await.unwrap();
    signal(&mut a, &mut b).await;
    signal(&mut b, &mut a).await;
    // All earlier changes of the room come before this one.
    let mut c = matchbox(&two).await;
    for older in [&mut a, &mut b] {
        older.gets(json!({ "NewPeer": c.id })).await;
        signal(older, &mut c).await;
    }
    let left = json!({ "PeerLeft": c.id });
    drop(c);
    a.gets(left.clone()).await;
    b.gets(left).await;
    signal(&mut a, &mut b).await;
    signal(&mut b, &mut a).await;
}

/// Opens a client and sets its roles.
async fn gstreamer(address: &str, roles: &[&str]) -> DialectClient {
    let mut client = DialectClient::with_id(address, "/gstreamer/cams", "peerId").await;
    client.send(json!({ "type": "setPeerStatus", "roles": roles, "meta": { "name": "cam" } })).await;
    client.send(json!({ "type": "list" })).await;
    let answer = client.receive().await;
    let has_self = answer.to_string().contains(&client.id);
    assert!(answer["type"] == "list" && has_self == roles.contains(&"producer"), "{answer}");
    client
}

/// Has a consumer start a session with a producer. Returns the session's id.
async fn call(consumer: &mut DialectClient, producer: &mut DialectClient) -> String {
    consumer.send(json!({ "type": "startSession", "peerId": producer.id })).await;
    let started = consumer.receive().await;
    let session = text(&started, "sessionId");
    assert_eq!(started, json!({ "type": "sessionStarted", "peerId": producer.id, "sessionId": session }));
    producer.gets(json!({ "type": "startSession", "peerId": consumer.id, "sessionId": session, "offer": null })).await;
    session
}

/// Passes an offer, its answer and candidates between the ends of a session.
async fn negotiate(session: &str, producer: &mut DialectClient, consumer: &mut DialectClient) {
    let candidate = json!({ "candidate": "candidate:1", "sdpMLineIndex": 0 });
    let message = |field: &str, content: &Value| json!({ "type": "peer", "sessionId": session, field: content });
    let offer = message("sdp", &json!({ "type": "offer", "sdp": "v=0" }));
    let answer = message("sdp", &json!({ "type": "answer", "sdp": "v=1" }));
    for (from_producer, from_consumer) in [(offer, answer), (message("ice", &candidate), message("ice", &candidate))] {
        producer.send(from_producer.clone()).await;
        consumer.gets(from_producer).await;
        consumer.send(from_consumer.clone()).await;
        producer.gets(from_consumer).await;
    }
}

fn end(session: &str) -> Value {
    json!({ "type": "endSession", "sessionId": session })
}

#[tokio::test]
async fn gstreamer_session_stays_when_the_rooms_node_is_killed() {
    let (mesh, [one, two]) = TestMesh::with_dialects(&[]).await;
    let (mut producer, mut consumer) = (gstreamer(&one, &["producer"]).await, gstreamer(&two, &[]).await);
    let session = call(&mut consumer, &mut producer).await;
    mesh.kill(&mesh.owner("~gs:cams")).await.unwrap();
    negotiate(&session, &mut producer, &mut consumer).await;
    consumer.send(end(&session)).await;
    producer.gets(end(&session)).await;

    let session = call(&mut consumer, &mut producer).await;
    drop(consumer);
    producer.gets(end(&session)).await;
}
