//! Clients of PeerJS, y-webrtc and rxdb connect peers, at different balancers and during faults.

use serde_json::json;
use signaling_integration_tests::{Page, Relay, UpstreamMesh, during, eventually};

/// Internal name of PeerJS ids, before the id.
const PEERJS: &str = "~pj:peerjs:";

/// Opens a peer that returns the data of others' connections to them. `call` connects to another
/// peer and sends a text. `events` has the peer's id once it is open, types of errors, and all that
/// it receives on its own connections.
const PEER: &str = include_str!("dialect_clients/peer.js");

/// Has the peer answer no call before `answer()`. Then `isCalled` is true.
const ANSWER_LATER: &str = include_str!("dialect_clients/answer_later.js");

/// A kind of client with shared data. Each page has its own name in it, and gets those of all
/// others in its room.
struct Shared {
    /// Script that opens the client.
    source: &'static str,
    /// Password of the room. `None`: the room has none.
    password: Option<&'static str>,
    /// Expression that is true in a page once the client is connected.
    is_online: &'static str,
    /// Expression that is true in a page once the client has lost its socket.
    is_lost: &'static str,
    /// Broadcasts with which a client announces itself.
    announcements: f64,
    /// Internal name of rooms, before the name.
    prefix: &'static str,
}

const Y_WEBRTC: Shared = Shared {
    source: include_str!("dialect_clients/document.js"),
    password: None,
    is_online: "provider.room !== null && provider.signalingConns[0].connected",
    is_lost: "!provider.signalingConns[0].connected",
    announcements: 1.0,
    prefix: "~yw.q:",
};
const RXDB: Shared = Shared {
    source: include_str!("dialect_clients/collection.js"),
    password: None,
    is_online: "receivedMessages.some(({ type }) => type === 'joined')",
    is_lost: "socket.readyState === WebSocket.CLOSED",
    announcements: 0.0,
    prefix: "~rx:",
};

/// Room for each kind of client: rxdb refuses names of up to five characters.
const ROOM: &str = "my-topic";

async fn peer<'a>(setup: &'a UpstreamMesh, id: &str, address: &str, key: &str) -> Page<'a> {
    setup.open_page(id, address, PEER, json!({ "id": id, "address": address, "key": key })).await
}

/// Opens a peer and waits until it is open.
async fn open_peer<'a>(setup: &'a UpstreamMesh, id: &str, address: &str) -> Page<'a> {
    let page = peer(setup, id, address, "peerjs").await;
    has(&page, &[id]).await;
    page
}

/// Opens a client and waits until it is connected.
async fn open<'a>(setup: &'a UpstreamMesh, client: &Shared, name: &str, balancer: usize, room: &str) -> Page<'a> {
    let address = &setup.balancers[balancer];
    let options = json!({ "name": name, "address": address, "room": room, "password": client.password });
    let page = setup.open_page(name, address, client.source, options).await;
    page.becomes(client.is_online).await;
    page
}

/// Opens the first client of a room, and waits until it has announced itself. Two clients of
/// y-webrtc that receive each other's announcement may never agree.
async fn open_first<'a>(setup: &'a UpstreamMesh, client: &Shared, name: &str, balancer: usize, room: &str) -> Page<'a> {
    let announced = async || setup.mesh.sum_over_nodes("signaling_broadcasts_total").await;
    let expected = announced().await + client.announcements;
    let page = open(setup, client, name, balancer, room).await;
    eventually("the announcement of the first client", async || announced().await >= expected).await;
    page
}

/// Returns a PeerJS id, or a room of y-webrtc or rxdb, that the first node owns.
fn owned_by_first_node(setup: &UpstreamMesh, prefix: &str, name: &str) -> String {
    setup.mesh.id_owned_by("node-0", &format!("{prefix}{name}"))[prefix.len()..].to_owned()
}

/// Waits until these are all events of a peer.
async fn has(page: &Page<'_>, events: &[&str]) {
    page.becomes(&format!("events.join() === {}", json!(events.join(",")))).await;
}

async fn call(page: &Page<'_>, id: &str) {
    page.evaluate(&format!("call({})", json!(id))).await;
}

/// Waits until both pages have these names.
async fn agree(pages: [&Page<'_>; 2], names: &str) {
    for page in pages {
        page.becomes(&format!("names() === {}", json!(names))).await;
    }
}

#[tokio::test]
async fn peerjs_peers_echo_across_balancers_beside_an_absent_one() {
    let Some(setup) = UpstreamMesh::start().await else { return };
    let alice = open_peer(&setup, "alice", &setup.balancers[0]).await;
    let _bob = open_peer(&setup, "bob", &setup.balancers[1]).await;
    call(&alice, "ghost").await;
    has(&alice, &["alice", "peer-unavailable"]).await;
    call(&alice, "bob").await;
    has(&alice, &["alice", "peer-unavailable", "hello bob"]).await;
}

#[tokio::test]
async fn peerjs_peer_with_the_default_path_gets_an_id_and_calls() {
    let Some(setup) = UpstreamMesh::start().await else { return };
    let address = &setup.balancers[0];
    let options = json!({ "id": null, "address": address, "key": "peerjs", "path": "/" });
    let unnamed = setup.open_page("unnamed", address, PEER, options).await;
    unnamed.becomes("events.length === 1").await;
    let id = unnamed.evaluate("peer.id").await;
    let _bob = open_peer(&setup, "bob", &setup.balancers[1]).await;
    call(&unnamed, "bob").await;
    has(&unnamed, &[id.as_str().unwrap(), "hello bob"]).await;
}

#[tokio::test]
async fn peerjs_peer_is_refused_when_its_id_is_taken() {
    let Some(setup) = UpstreamMesh::start().await else { return };
    let alice = open_peer(&setup, "alice", &setup.balancers[0]).await;
    let second = peer(&setup, "alice", &setup.balancers[1], "peerjs").await;
    has(&second, &["unavailable-id", "disconnected"]).await;
    assert_eq!(second.evaluate("peer.destroyed").await, true);
    let _bob = open_peer(&setup, "bob", &setup.balancers[1]).await;
    call(&alice, "bob").await;
    has(&alice, &["alice", "hello bob"]).await;
}

#[tokio::test]
async fn peerjs_peer_is_refused_when_its_key_is_wrong() {
    let Some(setup) = UpstreamMesh::start().await else { return };
    let alice = peer(&setup, "alice", &setup.balancers[0], "wrong").await;
    has(&alice, &["server-error", "disconnected"]).await;
}

#[tokio::test]
async fn peerjs_peer_gets_an_error_for_a_large_message_and_returns() {
    let Some(setup) = UpstreamMesh::start().await else { return };
    let alice = open_peer(&setup, "alice", &setup.balancers[0]).await;
    alice.evaluate("peer.socket.send({ type: 'OFFER', dst: 'bob', payload: 'x'.repeat(70000) })").await;
    has(&alice, &["alice", "server-error", "disconnected"]).await;
    alice.evaluate("peer.reconnect()").await;
    has(&alice, &["alice", "server-error", "disconnected", "alice"]).await;
}

#[tokio::test]
async fn peerjs_call_waits_until_its_callee_reconnects() {
    let Some(setup) = UpstreamMesh::start().await else { return };
    let front_proxy = Relay::to(&setup.balancers.each_ref().map(String::as_str)).await;
    let alice = open_peer(&setup, "alice", &front_proxy.address.to_string()).await;
    let bob = open_peer(&setup, "bob", &setup.balancers[1]).await;
    setup.mesh.kill("balancer-0").await.unwrap();
    has(&alice, &["alice", "network", "disconnected"]).await;

    call(&bob, "alice").await;
    eventually("the offer to be held", async || setup.mesh.sum_over_nodes("signaling_held_bytes").await > 0.0).await;
    alice.evaluate("peer.reconnect()").await;
    has(&alice, &["alice", "network", "disconnected", "alice"]).await;
    has(&bob, &["bob", "hello alice"]).await;
}

#[tokio::test]
async fn peerjs_call_connects_when_a_node_is_killed() {
    let Some(setup) = UpstreamMesh::start().await else { return };
    let [alice_id, bob_id] = ["alice", "bob"].map(|name| owned_by_first_node(&setup, PEERJS, name));
    let alice = open_peer(&setup, &alice_id, &setup.balancers[0]).await;
    let bob = open_peer(&setup, &bob_id, &setup.balancers[1]).await;
    bob.evaluate(ANSWER_LATER).await;
    call(&alice, &bob_id).await;
    bob.becomes("window.isCalled").await;

    during(setup.mesh.kill("node-0"), bob.evaluate("answer()")).await;
    has(&alice, &[&alice_id, &format!("hello {bob_id}")]).await;
}

#[tokio::test]
async fn y_webrtc_documents_agree_across_balancers() {
    let Some(setup) = UpstreamMesh::start().await else { return };
    for password in [None, Some("secret")] {
        let client = Shared { password, ..Y_WEBRTC };
        let room = format!("room with {password:?}");
        let ada = open_first(&setup, &client, "ada", 0, &room).await;
        let bob = open(&setup, &client, "bob", 1, &room).await;
        agree([&ada, &bob], "ada,bob").await;
    }
}

#[tokio::test]
async fn y_webrtc_documents_agree_when_a_node_is_killed() {
    agree_when_a_node_is_killed(&Y_WEBRTC, async |_| {}).await;
}

#[tokio::test]
async fn rxdb_collections_agree_when_a_node_is_killed() {
    let stays = async |page: &Page<'_>| {
        assert_eq!(page.evaluate("socket.readyState === WebSocket.OPEN").await, true);
        assert_eq!(page.received("init").await.len(), 1, "sockets of a page");
    };
    agree_when_a_node_is_killed(&RXDB, stays).await;
}

/// Opens a page while the node of its room is killed. `check` gets each page once both agree.
async fn agree_when_a_node_is_killed(client: &Shared, check: impl AsyncFn(&Page<'_>)) {
    let Some(setup) = UpstreamMesh::start().await else { return };
    let room = owned_by_first_node(&setup, client.prefix, ROOM);
    let ada = open_first(&setup, client, "ada", 0, &room).await;
    let bob = during(setup.mesh.kill("node-0"), open(&setup, client, "bob", 1, &room)).await;
    agree([&ada, &bob], "ada,bob").await;
    check(&ada).await;
    check(&bob).await;
}

/// Opens ada, whose server is killed, and bob at the other one. Both agree once it is back.
async fn names_agree_when_a_lost_socket_returns(client: &Shared) {
    let Some(setup) = UpstreamMesh::start().await else { return };
    let ada = open(&setup, client, "ada", 0, ROOM).await;
    setup.mesh.kill("balancer-0").await.unwrap();
    ada.becomes(client.is_lost).await;
    let bob = open(&setup, client, "bob", 1, ROOM).await;
    assert_eq!(bob.evaluate("names()").await, "bob");
    setup.mesh.restart("balancer-0").await.unwrap();
    agree([&ada, &bob], "ada,bob").await;
}

#[tokio::test]
async fn y_webrtc_documents_agree_when_a_lost_socket_returns() {
    names_agree_when_a_lost_socket_returns(&Y_WEBRTC).await;
}

#[tokio::test]
async fn rxdb_collections_agree_when_a_lost_socket_returns() {
    names_agree_when_a_lost_socket_returns(&RXDB).await;
}

#[tokio::test]
async fn rxdb_collections_agree_when_a_client_is_replaced() {
    let Some(setup) = UpstreamMesh::start().await else { return };
    let ada = open(&setup, &RXDB, "ada", 0, ROOM).await;
    let bob = open(&setup, &RXDB, "bob", 1, ROOM).await;
    agree([&ada, &bob], "ada,bob").await;
    bob.close().await;
    let cyd = open(&setup, &RXDB, "cyd", 1, ROOM).await;
    agree([&ada, &cyd], "ada,bob,cyd").await;
}
