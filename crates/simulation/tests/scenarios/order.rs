//! Order of messages when their path changes.

use std::time::Duration;

use crate::mesh::Mesh;

#[test]
fn message_sent_astray_is_not_overtaken_and_comes_at_once() {
    let (mut mesh, bob_id, anna) = Mesh::with_anna(&["a", "b", "c"], "c");
    let bob = mesh.connects(&bob_id, "e", "b");
    // The owner still locates the client at b when the message arrives.
    mesh.hold_back_with_answers("b", "a");
    mesh.hold_back("e", "a");
    mesh.is_handed_to(bob, "a");
    mesh.sends(anna, &bob_id, 8);
    assert!(mesh.got(bob).is_empty(), "the first went where it is no longer");
    mesh.let_go("e", "a");
    mesh.sends(anna, &bob_id, 9);
    mesh.pass(Duration::from_millis(150));
    assert_eq!(mesh.got(bob), ["anna 8", "anna 9"]);
    assert_eq!(mesh.got(anna), ["ack 8", "ack 9"]);
}

#[test]
fn draining_nodes_are_used_when_no_others_are_left() {
    let (mut mesh, bob_id, anna) = Mesh::with_anna(&["b", "a"], "a");
    mesh.all_see(&["-a", "-b"]);
    let bob = mesh.connects(&bob_id, "e", "b");
    mesh.sends(anna, &bob_id, 1);
    assert_eq!(mesh.got(bob), ["anna 1"]);
    assert_eq!(mesh.got(anna), ["ack 1"]);
}
