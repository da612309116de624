//! Two sockets of one id.

use crate::clients::{SECOND, Who};
use crate::mesh::Mesh;

#[test]
fn owner_closes_its_session_when_a_newer_one_is_elsewhere() {
    let (mut mesh, bob_id, anna) = Mesh::with_anna(&["b", "a"], "b");
    let old = mesh.connects(&bob_id, "e", "b");
    let new = mesh.connects(&bob_id, "f", "a");
    assert_eq!(mesh.clients[old].closed, Some(4410));
    mesh.sends(anna, &bob_id, 1);
    assert_eq!((mesh.got(old), mesh.got(new)), (vec![], vec!["anna 1".to_owned()]));
}

#[test]
fn older_session_is_closed_when_the_owner_has_a_newer_one() {
    let (mut mesh, bob_id, old) = Mesh::with_bob_at_a(&["b", "a"]);
    let new = mesh.connects(&bob_id, "f", "b");
    mesh.pass(11 * SECOND);
    assert_eq!((mesh.clients[old].closed, mesh.clients[new].closed), (Some(4410), None));
}

#[test]
fn unconfirmed_old_socket_delays_messages_two_seconds() {
    let (mut mesh, bob_id, anna, old) = Mesh::with_pair(&["a"], "a", "a");
    mesh.hold_back("f", "a");
    mesh.sends(anna, &bob_id, 1);
    let new = mesh.resumes(&bob_id, old, "e", "a");
    mesh.sends(anna, &bob_id, 2);
    mesh.pass(SECOND + SECOND / 2);
    assert!(mesh.got(new).is_empty());
    mesh.pass(SECOND / 2);
    assert_eq!(mesh.got(new), ["anna 1", "anna 2"]);
    mesh.let_go("f", "a");
    assert_eq!(mesh.got(anna), ["ack 1", "ack 2"]);
}

#[test]
fn client_with_a_lost_trunk_does_not_block_its_next_socket() {
    let mut mesh = Mesh::new(&["a"], &["e", "f"]);
    mesh.connects("bob", "e", "a");
    mesh.trunk_is_lost("e", "a");
    let new = mesh.connects("bob", "f", "a");
    assert!(!mesh.is_resumed(new));
}

#[test]
fn id_of_a_silent_holder_goes_to_the_newcomer_in_two_seconds() {
    let mut mesh = Mesh::new(&["a"], &["e", "f"]);
    let old = mesh.connects("bob", "e", "a");
    mesh.clients[old].answers_pings = false;
    let new = mesh.connects("bob", "f", "a");
    mesh.pass(SECOND + SECOND / 2);
    assert_eq!((mesh.clients[old].closed, mesh.clients[new].refused), (None, None));
    mesh.pass(SECOND / 2);
    assert_eq!(mesh.clients[old].closed, Some(4004));
    assert!(!mesh.is_resumed(new));
}

#[test]
fn late_request_of_a_gone_client_leaves_its_live_socket() {
    let mut mesh = Mesh::new(&["a"], &["e", "f"]);
    let first = mesh.connects("bob", "e", "a");
    mesh.is_lost(first);
    mesh.hold_back("f", "a");
    let late = mesh.resumes("bob", first, "f", "a");
    mesh.clients[late].answers_pings = false;
    let live = mesh.goes_on("bob", first, "e", "a");
    mesh.let_go("f", "a");
    mesh.pass(3 * SECOND);
    assert_eq!((mesh.clients[live].closed, mesh.clients[late].closed), (None, Some(4004)));
    let next = mesh.goes_on("bob", live, "f", "a");
    assert_eq!((mesh.clients[live].closed, mesh.clients[next].closed), (Some(4410), None));
}

#[test]
fn old_socket_is_closed_when_its_session_resumed_elsewhere() {
    let (mut mesh, bob_id, [anna, old, new]) = resumed_unknown_to_the_edge_of_the_old_socket();
    mesh.goes_next_to(old, "b");
    mesh.trunk_is_given_up("e", "a");
    mesh.pass(SECOND);
    assert_eq!((mesh.clients[old].closed, mesh.clients[new].closed), (Some(4410), None));
    mesh.sends(anna, &bob_id, 1);
    mesh.pass(SECOND);
    assert_eq!((mesh.got(old), mesh.got(new)), (vec![], vec!["anna 1".to_owned()]));
}

#[test]
fn resumed_session_replaces_its_old_socket_when_handed_there() {
    let (mut mesh, bob_id, [anna, old, new]) = resumed_unknown_to_the_edge_of_the_old_socket();
    mesh.hold_back("b", "a");
    mesh.goes_next_to(old, "b");
    mesh.trunk_is_given_up("e", "a");
    mesh.hold_back("e", "b");
    mesh.sends(anna, &bob_id, 1);
    assert_eq!(mesh.got(old), ["anna 1"]);
    mesh.is_handed_to(new, "b");
    mesh.let_go("e", "b");
    mesh.pass(SECOND);
    assert_eq!(mesh.got(anna), ["ack 1"]);
    assert_eq!((mesh.clients[old].closed, mesh.clients[new].closed), (Some(4410), None));
    assert!(mesh.got(new).is_empty(), "the old socket has it, and could say so in time");
    mesh.sends(anna, &bob_id, 2);
    assert_eq!(mesh.got(new), ["anna 2"]);
}

/// Bob's session at a has resumed on another socket, of which the old socket's edge does not
/// learn. Anna is at b. Returns the mesh, bob's id, and the sockets of anna and bob.
fn resumed_unknown_to_the_edge_of_the_old_socket() -> (Mesh, String, [Who; 3]) {
    let (mut mesh, bob_id, old) = Mesh::with_bob_at_a(&["a", "b"]);
    let anna = mesh.connects("anna", "f", "b");
    mesh.hold_back("a", "e");
    let new = mesh.goes_on(&bob_id, old, "f", "a");
    (mesh, bob_id, [anna, old, new])
}

#[test]
fn new_node_gets_messages_after_the_old_sockets_confirms() {
    // The messages are relayed to the new node, or come from its own.
    for node in ["c", "a"] {
        let (mut mesh, bob_id, old) = Mesh::with_bob_at_a(&["a", "b", "c"]);
        let anna = mesh.connects("anna", "f", node);
        mesh.hold_back("e", "a");
        mesh.sends(anna, &bob_id, 1);
        assert_eq!(mesh.got(old), ["anna 1"]);
        let new = mesh.connects(&bob_id, "f", "b");
        mesh.pass(SECOND / 5);
        assert!(mesh.got(new).is_empty());
        mesh.let_go("e", "a");
        mesh.pass(SECOND / 5);
        mesh.sends(anna, &bob_id, 2);
        assert_eq!(mesh.got(new), ["anna 2"]);
        assert_eq!(mesh.got(anna), ["ack 1", "ack 2"]);
    }
}

#[test]
fn newcomer_at_a_lost_node_resumes_at_the_next_one() {
    // The answer to its edge, or the requested session, is on its way.
    for to in ["f", "a"] {
        let (mut mesh, bob_id, anna) = Mesh::with_anna(&["a", "b"], "a");
        let bob = mesh.connects(&bob_id, "e", "a");
        mesh.is_lost(bob);
        mesh.hold_back("b", to);
        let back = mesh.resumes(&bob_id, bob, "f", "b");
        mesh.goes_next_to(back, "a");
        mesh.trunk_is_given_up("f", "b");
        assert!(to == "f" || mesh.is_resumed(back));
        mesh.pass(SECOND);
        assert!(mesh.is_resumed(back));
        mesh.let_go("b", to);
        mesh.sends(anna, &bob_id, 1);
        mesh.pass(11 * SECOND);
        assert_eq!((mesh.got(back), mesh.clients[back].closed), (vec!["anna 1".to_owned()], None));
    }
}
