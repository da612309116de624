//! Clients that are not at their owner.

use std::time::Duration;

use crate::clients::SECOND;
use crate::mesh::Mesh;

#[test]
fn owner_passes_on_to_a_clients_node_from_its_attach_on() {
    let (mut mesh, bob_id, anna, bob) = Mesh::with_pair(&["a", "b", "c"], "c", "b");
    mesh.delivers(anna, &bob_id, bob, 1);
}

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
fn new_owner_gets_the_locations_when_the_view_changes() {
    let (mut mesh, bob_id) = Mesh::with_bob(&["a", "b", "c"]);
    mesh.all_see(&["b", "c"]);
    let anna = mesh.connects("anna", "e", "c");
    let bob = mesh.connects(&bob_id, "f", "b");
    mesh.all_see(&["a", "b", "c"]);
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
fn location_is_forgotten_after_thirty_seconds_without_repeat() {
    let (mut mesh, bob_id, anna, _) = Mesh::with_pair(&["a", "b", "c"], "c", "b");
    // After the restart it has no memory of its reports.
    mesh.is_killed("b");
    mesh.starts("b");
    mesh.sees("b", &["a", "b", "c"]);
    mesh.pass(31 * SECOND);
    mesh.sends(anna, &bob_id, 1);
    assert!(mesh.held_at("a") > 0);
    assert_eq!(mesh.held_at("b"), 0);
}
