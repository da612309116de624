//! Nodes without another node in their view.

use crate::clients::SECOND;
use crate::mesh::Mesh;

#[test]
fn stand_in_serves_while_restarted_owner_has_no_view() {
    let (mut mesh, bob_id, anna, bob) = Mesh::with_pair(&["a", "b", "c"], "c", "a");
    mesh.goes_next_to(bob, "b");
    mesh.is_killed("a");
    mesh.starts("a");
    mesh.pass(15 * SECOND);
    mesh.sends(anna, &bob_id, 1);
    assert_eq!(mesh.got(bob), ["anna 1"]);
    assert_eq!(mesh.held_at("a"), 0);
}

#[test]
fn restarted_node_is_relied_on_again_once_it_has_a_view() {
    let mut mesh = Mesh::new(&["a", "b"], &["e"]);
    mesh.is_killed("a");
    mesh.starts("a");
    mesh.pass(15 * SECOND);
    assert_eq!(mesh.nodes["b"].suspects().count(), 1);
    mesh.sees("a", &["a", "b"]);
    mesh.pass(7 * SECOND);
    assert_eq!(mesh.nodes["b"].suspects().count(), 0);
}
