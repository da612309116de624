//! Expired messages and their outcomes.

use std::time::Duration;

use crate::clients::SECOND;
use crate::mesh::{HOLD, Mesh};

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
fn edge_remembers_written_messages_while_copies_can_arrive() {
    let (mut mesh, bob_id, anna, bob) = Mesh::with_pair(&["b", "c", "a"], "a", "b");
    mesh.hold_back("f", "b");
    mesh.sends(anna, &bob_id, 1);
    assert_eq!(mesh.got(bob), ["anna 1"]);
    mesh.pass(HOLD + 3 * SECOND - Duration::from_millis(200));
    mesh.goes_next_to(bob, "c");
    mesh.trunk_is_lost("f", "b");
    mesh.sees("c", &["a", "c"]);
    mesh.sees("a", &["a", "c"]);
    assert_eq!(mesh.got(anna), ["ack 1"]);
    assert!(mesh.got(bob).is_empty(), "it was only asked");
}

#[test]
fn memory_of_a_left_session_means_nothing_once_it_is_back() {
    let (mut mesh, bob_id, anna) = Mesh::with_anna(&["a", "b"], "a");
    mesh.sends(anna, &bob_id, 1);
    mesh.pass(HOLD - SECOND);
    // The edge has closed its trunk to a, which still holds the message.
    mesh.sees("b", &["b"]);
    mesh.goes_next_to(anna, "b");
    mesh.trunk_is_given_up("e", "a");
    mesh.hold_back("b", "e");
    let bob = mesh.connects(&bob_id, "f", "b");
    assert_eq!(mesh.got(bob), ["anna 1"]);
    mesh.hold_back_with_answers("b", "a");
    mesh.trunk_is_up("e", "a");
    mesh.goes_next_to(anna, "a");
    mesh.trunk_is_lost("e", "b");
    mesh.pass(SECOND + SECOND / 5);
    assert_eq!(mesh.held_at("a"), 0, "its time is over there");
    assert!(mesh.got(anna).is_empty());
    mesh.sees("b", &["a", "b"]);
    mesh.let_go("b", "a");
    mesh.pass(SECOND / 2);
    assert_eq!(mesh.got(anna), ["ack 1"]);
    assert!(mesh.got(bob).is_empty());
}
