//! A node that the view drops, or names at another address, keeps its trunk until its clients have been handed off.

#![allow(clippy::unwrap_used)]

use serde_json::Value;
use signaling_integration_tests::cut::Forwards;
use signaling_integration_tests::metrics::{becomes, metric};
use signaling_integration_tests::peer::talk;
use signaling_integration_tests::{Peer, TestMesh};

const CLIENTS: usize = 20;

#[tokio::test]
async fn clients_leave_a_node_that_is_not_named_any_more_and_come_back_when_it_is() {
    let mesh = TestMesh::start().await;
    let mut clients = clients_of_node_0(&mesh).await;
    let named = nodes(&mesh);

    name(&mesh, named.iter().filter(|node| node["id"] != "node-0"));
    node_0_comes_to_have(&mesh, 0).await;
    mesh.hands_off(CLIENTS).await;
    talk(&mut clients, "while node-0 is not named").await;

    name(&mesh, named.iter());
    node_0_comes_to_have(&mesh, CLIENTS).await;
    mesh.hands_off(2 * CLIENTS).await;
    talk(&mut clients, "after it").await;
}

#[tokio::test]
async fn clients_go_over_to_the_trunk_to_their_nodes_new_address() {
    let mesh = TestMesh::start().await;
    let mut clients = clients_of_node_0(&mesh).await;

    let _new_address = Forwards::to(&mesh, "node-0").await;
    mesh.hands_off(CLIENTS).await;
    talk(&mut clients, "by the new address").await;
    let sessions = metric(&internal_of_node_0(&mesh), "signaling_sessions", "").await;
    assert_eq!(sessions, CLIENTS as f64, "they are where they were");
}

async fn clients_of_node_0(mesh: &TestMesh) -> Vec<(Peer, String)> {
    let mut clients = Vec::new();
    for number in 0..CLIENTS {
        let id = mesh.id_owned_by("node-0", &format!("client{number}"));
        clients.push((Peer::connect(&mesh.url(), &id).await, id));
    }
    node_0_comes_to_have(mesh, CLIENTS).await;
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

async fn node_0_comes_to_have(mesh: &TestMesh, sessions: usize) {
    becomes(&internal_of_node_0(mesh), "signaling_sessions", sessions).await;
}

fn internal_of_node_0(mesh: &TestMesh) -> String {
    let nodes = mesh.mesh.state().nodes;
    nodes.into_iter().find(|node| node.id == "node-0").unwrap().internal
}
