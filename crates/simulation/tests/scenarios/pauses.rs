//! Servers that resume after a pause.

use crate::clients::SECOND;
use crate::mesh::Mesh;

#[test]
fn stopped_node_does_not_blame_others_for_the_silence() {
    let mut mesh = Mesh::new(&["a", "b"], &["e"]);
    mesh.is_paused("a");
    mesh.pass(10 * SECOND);
    assert_eq!(mesh.nodes["b"].peers().suspects().count(), 1);
    mesh.wakes("a");
    mesh.pass(SECOND / 20);
    assert_eq!(mesh.nodes["a"].peers().suspects().count(), 0);
}

#[test]
fn paused_edge_pings_its_clients_before_closing_them() {
    let mut mesh = Mesh::new(&["a"], &["e"]);
    let anna = mesh.connects("anna", "e", "a");
    mesh.clients[anna].answers_pings = false;
    mesh.pass(26 * SECOND);
    mesh.is_paused("e");
    mesh.pass(15 * SECOND);
    mesh.wakes("e");
    mesh.pass(SECOND);
    mesh.shows_life(anna);
    mesh.pass(24 * SECOND);
    assert_eq!(mesh.clients[anna].closed, None);
    mesh.pass(12 * SECOND);
    assert_eq!(mesh.clients[anna].closed, Some(4004), "its silence counts again");
}

#[test]
fn stopped_edge_does_not_take_its_clients_for_too_slow() {
    let (mut mesh, bob_id, anna, bob) = Mesh::with_pair(&["a"], "a", "a");
    mesh.clients[bob].reads = false;
    mesh.sends(anna, &bob_id, 1);
    mesh.pass(SECOND);
    mesh.is_paused("f");
    mesh.pass(15 * SECOND);
    mesh.wakes("f");
    mesh.pass(SECOND);
    mesh.reads_again(bob);
    assert_eq!((mesh.got(bob), mesh.clients[bob].closed), (vec!["anna 1".to_owned()], None));
}
