//! Clients of matchbox and GStreamer meet in rooms, at any balancers. A killed node changes neither
//! members nor sessions.

use futures_util::future::select_all;
use serde_json::{Value, json};
use signaling_integration_tests::dialect_client::text;
use signaling_integration_tests::{DialectClient, Head, TestMesh, ask};

async fn matchbox(address: &str, target: &str) -> DialectClient {
    DialectClient::with_id(address, target, "IdAssigned").await
}

/// Sends a signal, which must be the next message of its recipient.
async fn signal(from: &mut DialectClient, to: &mut DialectClient) {
    let data = json!({ "Offer": "v=0" });
    from.send(json!({ "Signal": { "receiver": to.id, "data": data } })).await;
    to.gets(json!({ "Signal": { "sender": from.id, "data": data } })).await;
}

/// Waits for one announcement among clients. Removes the pair and returns it, the older one first.
async fn meet(clients: &mut Vec<DialectClient>) -> [DialectClient; 2] {
    let messages = clients.iter_mut().map(|client| Box::pin(client.receive()));
    let (message, index, _) = select_all(messages).await;
    let (older, younger) = (clients.remove(index), text(&message, "NewPeer"));
    let index = clients.iter().position(|client| client.id == younger).unwrap();
    [older, clients.remove(index)]
}

#[tokio::test]
async fn matchbox_peers_meet_and_stay_when_the_rooms_node_is_killed() {
    let (mesh, [one, two]) = TestMesh::with_dialects(&[]).await;
    let (mut a, mut b) = (matchbox(&one, "/matchbox/room").await, matchbox(&two, "/matchbox/room").await);
    a.gets(json!({ "NewPeer": b.id })).await;
    signal(&mut a, &mut b).await;
    mesh.kill(&mesh.owner("~mb:room")).await.unwrap();
    signal(&mut a, &mut b).await;
    signal(&mut b, &mut a).await;
    // All earlier changes of the room come before this one.
    let mut c = matchbox(&one, "/matchbox/room").await;
    for older in [&mut a, &mut b] {
        older.gets(json!({ "NewPeer": c.id })).await;
        signal(older, &mut c).await;
        signal(&mut c, older).await;
    }
    let left = json!({ "PeerLeft": b.id });
    drop(b);
    a.gets(left.clone()).await;
    c.gets(left).await;
    signal(&mut a, &mut c).await;
    signal(&mut c, &mut a).await;
}

#[tokio::test]
async fn matchbox_group_admits_no_client_once_it_was_full() {
    let (_mesh, [one, two]) = TestMesh::with_dialects(&[]).await;
    let open = |address| matchbox(address, "/matchbox/room?next=2");
    let mut clients = vec![open(&one).await, open(&two).await, open(&one).await, open(&two).await];
    let ([mut member, leaving], others) = (meet(&mut clients).await, meet(&mut clients).await);
    let left = json!({ "PeerLeft": leaving.id });
    drop(leaving);
    member.gets(left).await;

    let newcomers = [open(&one).await, open(&two).await];
    let ids = newcomers.each_ref().map(|client| client.id.clone());
    clients.extend([member].into_iter().chain(others).chain(newcomers));
    let group = meet(&mut clients).await;
    assert!(group.iter().all(|client| ids.contains(&client.id)));
    for client in &mut clients {
        // It follows all that the client got of its group.
        client.send(json!({ "Signal": { "receiver": client.id, "data": 1 } })).await;
        client.gets(json!({ "Signal": { "sender": client.id, "data": 1 } })).await;
    }
}

#[tokio::test]
async fn matchbox_server_answers_plain_requests() {
    let mesh = TestMesh::small_with_dialects().await;
    let address = mesh.address();
    for (head, status) in [
        (Head::get("/matchbox/health"), 200),
        (Head::get("/matchbox"), 400),
        (Head::get("/matchbox/room?next=2"), 400),
        (Head::get("/matchbox/a/b"), 404),
        (Head::upgrade("/matchbox/a/b"), 404),
        (Head::upgrade("/matchbox/room/"), 404),
    ] {
        let answer = ask(&address, &head).await;
        assert_eq!(answer.status, status, "{head}");
        assert!(status == 404 || answer.body.is_empty(), "{answer:?}");
    }
}

async fn gstreamer(address: &str) -> DialectClient {
    DialectClient::with_id(address, "/gstreamer/cams", "peerId").await
}

/// Opens a client and sets its roles.
async fn with_roles(address: &str, roles: &[&str]) -> DialectClient {
    let mut client = gstreamer(address).await;
    client.send(json!({ "type": "setPeerStatus", "roles": roles, "meta": { "name": "cam" } })).await;
    client.send(json!({ "type": "list" })).await;
    let answer = client.receive().await;
    let has_self = answer.to_string().contains(&client.id);
    assert!(answer["type"] == "list" && has_self == roles.contains(&"producer"), "{answer}");
    client
}

/// Has a client start a session with another one. Returns the session's id.
async fn call(asked: &str, asker_is_producer: bool, [producer, consumer]: [&mut DialectClient; 2]) -> String {
    let asker = if asker_is_producer { &mut *producer } else { &mut *consumer };
    asker.send(json!({ "type": "startSession", "peerId": asked })).await;
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
async fn gstreamer_listener_sees_a_producer_until_it_leaves() {
    let (_mesh, [one, two]) = TestMesh::with_dialects(&[]).await;
    let (mut listener, mut producer) = (gstreamer(&one).await, gstreamer(&two).await);
    let status = |roles: &[&str], meta: &Value| json!({ "type": "setPeerStatus", "roles": roles, "meta": meta });
    let changed = |client: &DialectClient, roles: &[&str], meta: &Value| json!({ "type": "peerStatusChanged", "roles": roles, "meta": meta, "peerId": client.id });
    let meta = json!({ "name": "cam" });
    listener.send(status(&["listener"], &Value::Null)).await;
    listener.gets(changed(&listener, &["listener"], &Value::Null)).await;
    for _ in 0..2 {
        // An unchanged status is announced again.
        producer.send(status(&["producer"], &meta)).await;
        listener.gets(changed(&producer, &["producer"], &meta)).await;
    }
    listener.send(json!({ "type": "list" })).await;
    listener.gets(json!({ "type": "list", "producers": [{ "id": producer.id, "meta": meta }] })).await;
    let left = changed(&producer, &[], &meta);
    drop(producer);
    listener.gets(left).await;
    listener.send(json!({ "type": "list" })).await;
    listener.gets(json!({ "type": "list", "producers": [] })).await;
}

#[tokio::test]
async fn gstreamer_session_stays_when_the_rooms_node_is_killed() {
    let (mesh, [one, two]) = TestMesh::with_dialects(&[]).await;
    let (mut producer, mut consumer) = (with_roles(&one, &["producer"]).await, with_roles(&two, &[]).await);
    let session = call(&producer.id.clone(), false, [&mut producer, &mut consumer]).await;
    mesh.kill(&mesh.owner("~gs:cams")).await.unwrap();
    negotiate(&session, &mut producer, &mut consumer).await;
    consumer.send(end(&session)).await;
    producer.gets(end(&session)).await;

    let session = call(&producer.id.clone(), false, [&mut producer, &mut consumer]).await;
    drop(consumer);
    producer.gets(end(&session)).await;
}

#[tokio::test]
async fn gstreamer_consumer_is_called_by_a_producer() {
    let (_mesh, [one, two]) = TestMesh::with_dialects(&[]).await;
    let (mut producer, mut consumer) = (with_roles(&one, &[]).await, with_roles(&two, &["consumer"]).await);
    let session = call(&consumer.id.clone(), true, [&mut producer, &mut consumer]).await;
    let mut stranger = with_roles(&one, &[]).await;
    stranger.send(end(&session)).await;
    negotiate(&session, &mut producer, &mut consumer).await;
    drop(producer);
    consumer.gets(end(&session)).await;

    consumer.send(json!({ "type": "startSession", "peerId": "nope" })).await;
    consumer.gets(json!({ "type": "error", "details": "Peer with ID 'nope' not found" })).await;
}
