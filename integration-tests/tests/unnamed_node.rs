//! A node that the view drops, or names at another address, keeps its trunk until its clients have been handed off.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use serde_json::{Value, json};
use signaling_integration_tests::cut::Forwards;
use signaling_integration_tests::metrics::metric;
use signaling_integration_tests::{Peer, TestMesh, eventually};

const CLIENTS: usize = 20;
const SOON: Duration = Duration::from_secs(10);

#[tokio::test]
async fn clients_leave_a_node_that_is_not_named_any_more_and_come_back_when_it_is() {
    let mesh = TestMesh::start().await;
    let mut clients = clients_of_node_0(&mesh).await;
    let named = nodes(&mesh);

    name(&mesh, named.iter().filter(|node| node["id"] != "node-0"));
    sessions_become(&mesh, 0).await;
    handoffs_become(&mesh, CLIENTS).await;
    talk(&mut clients).await;

    name(&mesh, named.iter());
    sessions_become(&mesh, CLIENTS).await;
    handoffs_become(&mesh, 2 * CLIENTS).await;
    talk(&mut clients).await;
}

#[tokio::test]
async fn clients_go_over_to_the_trunk_to_their_nodes_new_address() {
    let mesh = TestMesh::start().await;
    let mut clients = clients_of_node_0(&mesh).await;

    let _new_address = Forwards::to(&mesh, "node-0").await;
    handoffs_become(&mesh, CLIENTS).await;
    talk(&mut clients).await;
    assert_eq!(sessions(&mesh).await, CLIENTS as f64, "they are where they were");
}

async fn clients_of_node_0(mesh: &TestMesh) -> Vec<(Peer, String)> {
    let mut clients = Vec::new();
    for number in 0..CLIENTS {
        let id = mesh.id_owned_by("node-0", &format!("client{number}"));
        clients.push((Peer::connect(&mesh.url(), &id).await, id));
    }
    sessions_become(mesh, CLIENTS).await;
    clients
}

fn nodes(mesh: &TestMesh) -> Vec<Value> {
    serde_json::from_slice(&std::fs::read(mesh.dir.path().join("nodes.json")).unwrap()).unwrap()
}

/// Has discovery name these nodes. What changes the set of nodes later undoes it.
fn name<'a>(mesh: &TestMesh, nodes: impl Iterator<Item = &'a Value>) {
    let file = mesh.dir.path().join("nodes.json");
    let renewed = file.with_extension("renewed");
    std::fs::write(&renewed, serde_json::to_vec(&nodes.collect::<Vec<_>>()).unwrap()).unwrap();
    std::fs::rename(&renewed, &file).unwrap();
}

/// Each client says something to the next one, over the sockets they have had all the time.
async fn talk(clients: &mut [(Peer, String)]) {
    for from in 0..clients.len() {
        let to = (from + 1) % clients.len();
        let recipient = clients[to].1.clone();
        clients[from].0.signal(&recipient, json!(from), Some(1)).await;
        assert_eq!(clients[to].0.recv_type("signal").await["data"], from);
        clients[from].0.recv_type("ack").await;
    }
}

async fn sessions_become(mesh: &TestMesh, count: usize) {
    let reached = || async { (sessions(mesh).await == count as f64).then_some(()) };
    eventually(&format!("node-0 to have {count} sessions"), SOON, reached).await;
}

async fn sessions(mesh: &TestMesh) -> f64 {
    let nodes = mesh.mesh.state().nodes;
    metric(&nodes.iter().find(|node| node.id == "node-0").unwrap().internal, "signaling_sessions", "").await
}

/// Each client was handed off, and not moved as after a crash.
async fn handoffs_become(mesh: &TestMesh, count: usize) {
    let balancer = mesh.mesh.state().balancers[0].internal.clone();
    let handoffs = async || metric(&balancer, "signaling_handoffs_total", "").await;
    let reached = || async { (handoffs().await == count as f64).then_some(()) };
    eventually(&format!("{count} handoffs"), SOON, reached).await;
}
