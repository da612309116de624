//! Clients that are not at their owner, and owners that restart.

use std::time::Duration;

use crate::clients::SECOND;
use crate::mesh::Mesh;

#[test]
fn location_is_withdrawn_when_the_client_leaves() {
    let (mut mesh, bob_id, anna, bob) = Mesh::with_pair(&["a", "b", "c"], "c", "b");
    mesh.is_lost(bob);
    mesh.sends(anna, &bob_id, 1);
    assert!(mesh.held_at("a") > 0);
    assert_eq!(mesh.held_at("b"), 0);
}

#[test]
fn restarted_owner_gets_the_locations_again() {
    let (mut mesh, bob_id, anna, bob) = Mesh::with_pair(&["a", "b", "c"], "c", "b");
    mesh.is_killed("a");
    mesh.starts("a");
    mesh.sees("a", &["a", "b", "c"]);
    mesh.pass(Duration::from_millis(600));
    mesh.sends(anna, &bob_id, 1);
    assert_eq!(mesh.got(bob), ["anna 1"]);
}

#[test]
fn location_is_not_followed_to_a_node_that_does_not_answer() {
    let (mut mesh, bob_id, anna, lost) = Mesh::with_pair(&["a", "b", "c"], "c", "b");
    mesh.is_paused("b");
    mesh.pass(3 * SECOND);
    mesh.sends(anna, &bob_id, 1);
    assert!(mesh.held_at("a") > 0);
    mesh.goes_next_to(lost, "a");
    mesh.trunk_is_given_up("f", "b");
    assert_eq!(mesh.got(lost), ["anna 1"]);
}

#[test]
fn restarted_node_is_relied_on_again_once_it_has_a_view() {
    let mut mesh = Mesh::new(&["a", "b"], &["e"]);
    mesh.is_killed("a");
    mesh.starts("a");
    mesh.pass(15 * SECOND);
    assert_eq!(mesh.nodes["b"].peers().suspects().count(), 1);
    mesh.sees("a", &["a", "b"]);
    mesh.pass(7 * SECOND);
    assert_eq!(mesh.nodes["b"].peers().suspects().count(), 0);
}
