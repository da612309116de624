//! The sender's node: its outbound queues, and the copies at other nodes.

use std::time::Duration;

use crate::clients::{SECOND, Who};
use crate::mesh::{HOLD, Mesh};

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

#[test]
fn former_copy_is_forgotten_when_the_order_is_late() {
    let (mut mesh, bob_id, anna) = Mesh::with_anna(&["a", "b", "c"], "c");
    mesh.sends(anna, &bob_id, 1);
    mesh.hold_back("c", "a");
    mesh.sees("b", &["-a", "b", "c"]);
    mesh.sees("c", &["-a", "b", "c"]);
    let first = mesh.connects(&bob_id, "f", "b");
    assert_eq!(mesh.got(first), ["anna 1"]);
    mesh.pass(3 * SECOND);
    assert_eq!(mesh.got(anna), ["ack 1"]);
    assert!(mesh.held_at("a") > 0);
    mesh.let_go("c", "a");
    mesh.is_lost(first);
    let second = mesh.connects(&bob_id, "f", "a");
    assert!(mesh.got(second).is_empty(), "it was delivered and acked");
}

#[test]
fn retransmission_ends_where_it_meets_its_outcome() {
    let (mut mesh, anna, second) = bob_is_back_and_what_he_got_is_not_known_to_annas_node(1);
    assert!(mesh.got(anna).is_empty());
    mesh.pass(2 * SECOND + Duration::from_millis(100));
    assert!(mesh.got(second).is_empty());
    mesh.let_go("b", "a");
    assert_eq!(mesh.got(anna), ["ack 1"]);
}

#[test]
fn next_exchange_repeats_the_outcomes_of_a_cut_one() {
    let (mut mesh, anna, second) = bob_is_back_and_what_he_got_is_not_known_to_annas_node(2);
    mesh.cut("b", "a");
    mesh.let_go("b", "a");
    mesh.pass(Duration::from_millis(600));
    assert!(mesh.got(anna).is_empty());
    mesh.heal("b", "a");
    mesh.pass(2 * SECOND);
    assert_eq!(mesh.got(anna), ["ack 1", "ack 2"]);
    assert!(mesh.got(second).is_empty());
}

/// Anna has sent this many messages from a. Returns the mesh, anna, and bob's second socket at b.
fn bob_is_back_and_what_he_got_is_not_known_to_annas_node(messages: u64) -> (Mesh, Who, Who) {
    let (mut mesh, bob_id, anna) = Mesh::with_anna(&["b", "a"], "a");
    let first = mesh.connects(&bob_id, "f", "b");
    mesh.hold_back("b", "a");
    (1..=messages).for_each(|number| mesh.sends(anna, &bob_id, number));
    assert!(mesh.got(first).into_iter().eq((1..=messages).map(|number| format!("anna {number}"))));
    mesh.is_lost(first);
    let second = mesh.connects(&bob_id, "f", "b");
    (mesh, anna, second)
}
