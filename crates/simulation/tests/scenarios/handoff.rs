//! Sessions that move behind their sockets, and draining nodes.

use crate::clients::SECOND;
use crate::mesh::Mesh;

#[test]
fn messages_of_a_handed_off_client_follow_in_order_at_once() {
    let (mut mesh, bob_id, anna, bob) = Mesh::with_pair(&["a", "b", "c"], "c", "a");
    mesh.clients[bob].reads = false;
    mesh.sends(anna, &bob_id, 1);
    mesh.sends(anna, &bob_id, 2);
    // Only this message reports the client's new location to the old node.
    mesh.hold_back("b", "a");
    mesh.is_handed_to(bob, "b");
    mesh.sends(anna, &bob_id, 3);
    mesh.reads_again(bob);
    assert_eq!(mesh.got(bob), ["anna 1", "anna 2", "anna 3"]);
    mesh.let_go("b", "a");
    assert_eq!(mesh.got(anna), ["ack 1", "ack 2", "ack 3"]);
}

#[test]
fn draining_node_does_not_wait_for_absent_recipients() {
    let (mut mesh, bob_id, anna) = Mesh::with_anna(&["a", "b", "c"], "c");
    let dora = mesh.connects("dora", "e", "a");
    mesh.sends(anna, &bob_id, 1);
    mesh.sends(dora, &bob_id, 7);
    let now = mesh.now;
    mesh.drains("a");
    assert_eq!(mesh.held_at("a"), 0);
    assert!(mesh.held_at("b") > 0);
    mesh.is_handed_to(dora, "b");
    mesh.all_see(&["-a", "b", "c"]);
    let bob = mesh.connects(&bob_id, "f", "b");
    let mut got = mesh.got(bob);
    got.sort_unstable();
    assert_eq!(got, ["anna 1", "dora 7"]);
    assert_eq!((mesh.got(anna), mesh.got(dora)), (vec!["ack 1".to_owned()], vec!["ack 7".to_owned()]));
    assert_eq!(mesh.now, now);
    mesh.pass(SECOND);
    assert!(mesh.nodes["a"].is_quiet(), "all batches are acknowledged");
}
