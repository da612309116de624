//! A server that an operator takes out of service loses its clients in good order and gets them back when it is put back.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use serde_json::{Value, json};
use signaling_integration_tests::http::{Answer, Head, ask};
use signaling_integration_tests::metrics::metric;
use signaling_integration_tests::{Peer, TestMesh, eventually, stays};

const CLIENTS: usize = 30;
const SOON: Duration = Duration::from_secs(10);
/// Over how long the balancer sends its clients away.
const DRAIN_MS: u64 = 2_000;

#[tokio::test]
async fn a_node_is_emptied_and_refilled_behind_open_sockets() {
    let mesh = TestMesh::start().await;
    let node = mesh.mesh.state().nodes[0].internal.clone();
    let id = mesh.mesh.state().nodes[0].id.clone();
    let mut peers = Vec::new();
    for number in 0..CLIENTS {
        let client_id = mesh.id_owned_by(&id, &format!("client{number}"));
        peers.push((Peer::connect(&mesh.url(), &client_id).await, client_id));
    }
    sessions_become(&node, CLIENTS).await;

    assert_eq!(admin(&node, "drain").await, json!({ "draining": true }));
    assert_eq!(get(&node, "/readyz").await.status, 503);
    sessions_become(&node, 0).await;
    handoffs_become(&mesh, CLIENTS).await;
    talk(&mut peers, "while it drains").await;

    assert_eq!(admin(&node, "undrain").await, json!({ "draining": false }));
    assert_eq!(get(&node, "/readyz").await.status, 200);
    sessions_become(&node, CLIENTS).await;
    handoffs_become(&mesh, 2 * CLIENTS).await;
    talk(&mut peers, "after it").await;
}

#[tokio::test]
async fn a_balancer_sends_its_clients_away_and_lets_them_in_again() {
    let mesh = TestMesh::with(|options| options.balancer_args = vec![format!("--drain-ms={DRAIN_MS}")]).await;
    let balancer = mesh.mesh.state().balancers[0].internal.clone();
    let mut peers = Vec::new();
    for number in 0..CLIENTS {
        peers.push(Peer::connect(&mesh.url(), &format!("client-{number}")).await);
    }

    admin(&balancer, "drain").await;
    assert_eq!(get(&balancer, "/readyz").await.status, 503);
    let refusal = ask(&mesh.address(), Head::connect("newcomer").text()).await;
    assert_eq!((refusal.status, refusal.error_code().as_str()), (503, "draining"));
    for mut peer in peers {
        let goodbye = peer.recv_type("goodbye").await;
        assert!(goodbye["retry_after_ms"].as_u64().unwrap() <= 1_000, "{goodbye}");
        assert_eq!(u16::from(peer.closed().await.unwrap().code), 1001);
    }

    admin(&balancer, "undrain").await;
    assert_eq!(get(&balancer, "/readyz").await.status, 200);
    let mut peers = [Peer::connect(&mesh.url(), "client-0").await, Peer::connect(&mesh.url(), "client-1").await];
    peers[0].signal("client-1", json!("again"), None).await;
    assert_eq!(peers[1].recv().await["data"], "again");
}

#[tokio::test]
async fn clients_whose_turn_has_not_come_stay_when_a_balancer_is_put_back() {
    let mesh = TestMesh::with(|options| options.balancer_args = vec![format!("--drain-ms={DRAIN_MS}")]).await;
    let balancer = mesh.mesh.state().balancers[0].internal.clone();
    let mut peers = Vec::new();
    for number in 0..CLIENTS {
        peers.push(Peer::connect(&mesh.url(), &format!("client-{number}")).await);
    }
    let sockets = async || metric(&balancer, "signaling_client_sockets", "").await;

    admin(&balancer, "drain").await;
    let first_is_gone = || async { (sockets().await < CLIENTS as f64).then_some(()) };
    eventually("the first client to be sent away", SOON, first_is_gone).await;
    admin(&balancer, "undrain").await;

    let left = sockets().await;
    assert!(left > 0.0);
    let stay = Duration::from_millis(DRAIN_MS);
    stays("nobody is sent away any more", stay, || async { sockets().await == left }).await;
}

/// Each client says something to the next one, over the sockets it has had all the time.
async fn talk(peers: &mut [(Peer, String)], what: &str) {
    for from in 0..peers.len() {
        let to = (from + 1) % peers.len();
        let recipient = peers[to].1.clone();
        peers[from].0.signal(&recipient, json!(what), Some(1)).await;
        assert_eq!(peers[to].0.recv_type("signal").await["data"], what);
        peers[from].0.recv_type("ack").await;
    }
}

async fn sessions_become(node: &str, count: usize) {
    let reached = || async { (metric(node, "signaling_sessions", "").await == count as f64).then_some(()) };
    eventually(&format!("the node to have {count} sessions"), SOON, reached).await;
}

/// Each client was handed off, and not moved as after a crash.
async fn handoffs_become(mesh: &TestMesh, count: usize) {
    let balancer = mesh.mesh.state().balancers[0].internal.clone();
    let handoffs = async || metric(&balancer, "signaling_handoffs_total", "").await;
    let reached = || async { (handoffs().await == count as f64).then_some(()) };
    eventually(&format!("{count} handoffs"), SOON, reached).await;
}

async fn admin(internal: &str, what: &str) -> Value {
    let head = Head::get(&format!("/admin/{what}")).method("POST").with("Connection", "close");
    let answer = ask(internal.trim_start_matches("http://"), head.text()).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    serde_json::from_str(&answer.body).unwrap()
}

async fn get(internal: &str, path: &str) -> Answer {
    ask(internal.trim_start_matches("http://"), Head::get(path).with("Connection", "close").text()).await
}
