//! A node that the view drops, or lists at another address, keeps its trunk until its clients are
//! handed off.

use signaling_integration_tests::{Peer, Relay, TestMesh, becomes, metric, talk};

const CLIENTS: usize = 20;

#[tokio::test]
async fn clients_leave_a_node_until_the_view_has_it_again() {
    let mesh = TestMesh::start().await;
    let mut clients = clients_of_node_0(&mesh).await;
    let named = mesh.discovery_entries();

    mesh.set_discovery_entries(&named.iter().filter(|node| node["id"] != "node-0").cloned().collect::<Vec<_>>());
    becomes(&mesh.node_internal(0), "signaling_sessions", 0).await;
    mesh.until_handed_off(CLIENTS).await;
    talk(&mut clients, "while node-0 is not named").await;

    mesh.set_discovery_entries(&named);
    becomes(&mesh.node_internal(0), "signaling_sessions", CLIENTS).await;
    mesh.until_handed_off(2 * CLIENTS).await;
    talk(&mut clients, "after it").await;
}

#[tokio::test]
async fn clients_and_lanes_move_to_a_new_address() {
    let mesh = TestMesh::start().await;
    let mut clients = clients_of_node_0(&mesh).await;
    clients.push(mesh.peer_owned_by("node-1", "elsewhere").await);
    talk(&mut clients, "by the old address").await;

    let new_address = Relay::to_node(&mesh, "node-0").await;
    mesh.until_handed_off(CLIENTS).await;
    new_address.until_used(&mesh, "node-1", "node-0").await;
    talk(&mut clients, "by the new address").await;
    let sessions = metric(&mesh.node_internal(0), "signaling_sessions", "").await;
    assert_eq!(sessions, CLIENTS as f64, "they are where they were");
}

async fn clients_of_node_0(mesh: &TestMesh) -> Vec<Peer> {
    let ids = (0..CLIENTS).map(|number| mesh.id_owned_by("node-0", &format!("client{number}")));
    let clients = mesh.connect(ids).await;
    becomes(&mesh.node_internal(0), "signaling_sessions", CLIENTS).await;
    clients
}
