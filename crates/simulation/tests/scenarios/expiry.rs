//! Expired messages and their outcomes.

use std::time::Duration;

use crate::clients::{SECOND, Who, unavailable};
use crate::mesh::{HOLD, Mesh};

#[test]
fn expired_message_repeated_after_later_ones_gets_no_ack() {
    let (mut mesh, bob_id, anna) = Mesh::with_anna(&["a", "b"], "a");
    mesh.sends(anna, &bob_id, 1);
    mesh.pass(HOLD - SECOND / 2);
    mesh.sends(anna, &bob_id, 2);
    mesh.hold_back("a", "e");
    mesh.pass(SECOND);
    let bob = mesh.connects(&bob_id, "f", "a");
    mesh.pass(SECOND / 10);
    assert_eq!(mesh.got(bob), ["anna 2"]);
    // Both outcomes are lost with the node, and the edge retransmits both messages.
    mesh.goes_next_to(anna, "b");
    mesh.goes_next_to(bob, "b");
    mesh.is_killed("a");
    mesh.pass(3 * SECOND);
    assert_eq!(mesh.got(anna), ["ack 2".to_owned(), unavailable(1)]);
    assert!(mesh.got(bob).is_empty());
}

#[test]
fn holder_left_behind_cannot_call_a_message_undeliverable() {
    let (mut mesh, bob_id, anna) = Mesh::with_anna(&["a", "b", "c"], "c");
    mesh.sends(anna, &bob_id, 1);
    mesh.pass(HOLD - SECOND);
    // The sender's session moves to b. The order to forget a's copy is late.
    mesh.hold_back("c", "a");
    mesh.sees("b", &["-a", "b", "c"]);
    mesh.sees("c", &["-a", "b", "c"]);
    assert!(mesh.held_at("a") > 0 && mesh.held_at("b") > 0);
    mesh.hold_back_with_answers("b", "c");
    let bob = mesh.connects(&bob_id, "f", "b");
    assert_eq!(mesh.got(bob), ["anna 1"]);
    mesh.pass(SECOND + SECOND / 5);
    assert_eq!(mesh.held_at("a"), 0, "its time is over there");
    assert!(mesh.got(anna).is_empty(), "others had it");
    mesh.let_go("b", "c");
    mesh.pass(SECOND / 10);
    assert_eq!(mesh.got(anna), ["ack 1"]);
}

#[test]
fn lost_outcome_of_a_written_message_is_requested() {
    let (mut mesh, anna, bob) = bobs_edge_has_written_a_message_and_not_said_so();
    mesh.pass(HOLD + SECOND / 10);
    // The edge's confirm is lost with the trunk.
    mesh.goes_next_to(bob, "c");
    mesh.trunk_is_lost("f", "b");
    mesh.pass(2 * SECOND);
    assert_eq!(mesh.got(anna), ["ack 1"]);
    assert!(mesh.got(bob).is_empty(), "it was only asked");
}

#[test]
fn edge_remembers_written_messages_while_copies_can_arrive() {
    let (mut mesh, anna, bob) = bobs_edge_has_written_a_message_and_not_said_so();
    mesh.pass(HOLD + 3 * SECOND - Duration::from_millis(200));
    mesh.goes_next_to(bob, "c");
    mesh.trunk_is_lost("f", "b");
    mesh.sees("c", &["a", "c"]);
    mesh.sees("a", &["a", "c"]);
    assert_eq!(mesh.got(anna), ["ack 1"]);
    assert!(mesh.got(bob).is_empty(), "it was only asked");
}

/// Bob's node is b, and c is next in the ranking. Returns the mesh, anna and bob.
fn bobs_edge_has_written_a_message_and_not_said_so() -> (Mesh, Who, Who) {
    let (mut mesh, bob_id, anna, bob) = Mesh::with_pair(&["b", "c", "a"], "a", "b");
    mesh.hold_back("f", "b");
    mesh.sends(anna, &bob_id, 1);
    assert_eq!(mesh.got(bob), ["anna 1"]);
    (mesh, anna, bob)
}

#[test]
fn copy_is_not_written_after_it_was_asked_for_in_vain() {
    let (mut mesh, bob_id, anna) = Mesh::with_anna(&["b", "a"], "a");
    mesh.hold_back("a", "b");
    mesh.sends_for_a_second(anna, &bob_id, 1);
    mesh.pass(SECOND + SECOND / 10);
    let bob = mesh.connects(&bob_id, "f", "a");
    mesh.pass(SECOND / 10);
    assert_eq!(mesh.got(anna), [unavailable(1)]);
    mesh.is_handed_to(bob, "b");
    // By its own TTL this copy has 1 s left.
    mesh.let_go("a", "b");
    assert!(mesh.got(bob).is_empty());
    mesh.delivers(anna, &bob_id, bob, 2);
}
