//! Two sockets of one id.

use crate::clients::{SECOND, Who};
use crate::mesh::Mesh;

#[test]
fn old_session_handed_off_late_does_not_replace_a_newer_one() {
    let (mut mesh, bob_id) = Mesh::with_bob(&["b", "a"]);
    let anna = mesh.connects("anna", "e", "a");
    let old = mesh.connects(&bob_id, "e", "a");
    let new = mesh.connects(&bob_id, "f", "b");
    mesh.is_handed_to(old, "b");
    assert_eq!(mesh.closed(old), Some(4410));
    mesh.sends(anna, &bob_id, 1);
    assert_eq!((mesh.got(old), mesh.got(new)), (vec![], vec!["anna 1".to_owned()]));
    assert_eq!(mesh.closed(new), None);
}

#[test]
fn owner_closes_its_session_when_a_newer_one_is_elsewhere() {
    let (mut mesh, bob_id) = Mesh::with_bob(&["b", "a"]);
    let anna = mesh.connects("anna", "e", "b");
    let old = mesh.connects(&bob_id, "e", "b");
    let new = mesh.connects(&bob_id, "f", "a");
    assert_eq!(mesh.closed(old), Some(4410));
    mesh.sends(anna, &bob_id, 1);
    assert_eq!((mesh.got(old), mesh.got(new)), (vec![], vec!["anna 1".to_owned()]));
}

#[test]
fn older_session_is_closed_when_the_owner_has_a_newer_one() {
    let (mut mesh, bob_id) = Mesh::with_bob(&["b", "a"]);
    let old = mesh.connects(&bob_id, "e", "a");
    let new = mesh.connects(&bob_id, "f", "b");
    mesh.pass(11 * SECOND);
    assert_eq!((mesh.closed(old), mesh.closed(new)), (Some(4410), None));
}

#[test]
fn repeats_wait_for_the_last_word_of_the_old_socket() {
    let mut mesh = Mesh::new(&["a"], &["e", "f"]);
    let anna = mesh.connects("anna", "f", "a");
    let old = mesh.connects("bob", "e", "a");
    mesh.hold_back("e", "a");
    mesh.sends(anna, "bob", 1);
    assert_eq!(mesh.got(old), ["anna 1"]);
    let new = mesh.resumes("bob", old, "f", "a");
    mesh.sends(anna, "bob", 2);
    assert!(mesh.got(new).is_empty());
    mesh.let_go("e", "a");
    mesh.pass(SECOND / 10);
    assert_eq!(mesh.got(new), ["anna 2"]);
    assert_eq!(mesh.got(anna), ["ack 1", "ack 2"]);
}

#[test]
fn old_socket_without_last_word_is_waited_for_two_seconds() {
    let mut mesh = Mesh::new(&["a"], &["e", "f"]);
    let anna = mesh.connects("anna", "f", "a");
    let old = mesh.connects("bob", "e", "a");
    mesh.hold_back("e", "a");
    mesh.sends(anna, "bob", 1);
    let new = mesh.resumes("bob", old, "f", "a");
    mesh.sends(anna, "bob", 2);
    mesh.pass(SECOND + SECOND / 2);
    assert!(mesh.got(new).is_empty());
    mesh.pass(SECOND / 2);
    assert_eq!(mesh.got(new), ["anna 1", "anna 2"]);
    mesh.let_go("e", "a");
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
    mesh.answers_no_pings(old);
    let new = mesh.connects("bob", "f", "a");
    mesh.pass(SECOND + SECOND / 2);
    assert_eq!((mesh.closed(old), mesh.refused(new)), (None, None));
    mesh.pass(SECOND / 2);
    assert_eq!(mesh.closed(old), Some(4004));
    assert!(!mesh.is_resumed(new));
}

#[test]
fn client_that_is_not_read_keeps_its_id_against_a_newcomer() {
    let mut mesh = Mesh::new(&["a"], &["e", "f"]);
    let anna = mesh.connects("anna", "e", "a");
    for number in 0..256 {
        mesh.sends(anna, &format!("absent-{}", number % 8), number + 1);
    }
    assert!(!mesh.is_read(anna));
    mesh.pass(SECOND);
    let newcomer = mesh.connects("anna", "f", "a");
    mesh.pass(3 * SECOND);
    assert_eq!((mesh.closed(anna), mesh.refused(newcomer)), (None, Some(409)));
}

#[test]
fn old_socket_is_closed_when_its_session_resumed_elsewhere() {
    let Resumed { mut mesh, bob_id, anna, old, new } = resumed_unknown_to_the_edge_of_the_old_socket();
    mesh.goes_next_to(old, "b");
    mesh.trunk_is_given_up("e", "a");
    mesh.pass(SECOND);
    assert_eq!((mesh.closed(old), mesh.closed(new)), (Some(4410), None));
    mesh.sends(anna, &bob_id, 1);
    mesh.pass(SECOND);
    assert_eq!((mesh.got(old), mesh.got(new)), (vec![], vec!["anna 1".to_owned()]));
}

#[test]
fn resumed_session_replaces_its_old_socket_when_handed_there() {
    let Resumed { mut mesh, bob_id, anna, old, new } = resumed_unknown_to_the_edge_of_the_old_socket();
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
    assert_eq!((mesh.closed(old), mesh.closed(new)), (Some(4410), None));
    assert!(mesh.got(new).is_empty(), "the old socket has it, and could say so in time");
    mesh.sends(anna, &bob_id, 2);
    assert_eq!(mesh.got(new), ["anna 2"]);
}

/// A session of bob at a that resumed on another socket.
struct Resumed {
    mesh: Mesh,
    bob_id: String,
    anna: Who,
    old: Who,
    new: Who,
}

/// The old socket's edge does not learn that the socket is superseded. Anna is at b.
fn resumed_unknown_to_the_edge_of_the_old_socket() -> Resumed {
    let (mut mesh, bob_id) = Mesh::with_bob(&["a", "b"]);
    let anna = mesh.connects("anna", "f", "b");
    let old = mesh.connects(&bob_id, "e", "a");
    mesh.hold_back("a", "e");
    let new = mesh.goes_on(&bob_id, old, "f", "a");
    Resumed { mesh, bob_id, anna, old, new }
}

#[test]
fn repeats_are_not_passed_on_before_the_last_word() {
    last_word_is_awaited_before_the_new_node_gets_messages("c");
}

#[test]
fn repeats_are_not_sent_to_the_new_node_before_the_last_word() {
    last_word_is_awaited_before_the_new_node_gets_messages("a");
}

fn last_word_is_awaited_before_the_new_node_gets_messages(node: &str) {
    let (mut mesh, bob_id) = Mesh::with_bob(&["a", "b", "c"]);
    let anna = mesh.connects("anna", "f", node);
    let old = mesh.connects(&bob_id, "e", "a");
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

#[test]
fn newcomer_let_in_unheard_goes_on_at_the_next_node() {
    let (mut mesh, bob_id) = Mesh::with_bob(&["a", "b"]);
    let anna = mesh.connects("anna", "e", "a");
    let bob = mesh.connects(&bob_id, "e", "a");
    mesh.is_lost(bob);
    mesh.hold_back("b", "f");
    let back = mesh.resumes(&bob_id, bob, "f", "b");
    mesh.goes_next_to(back, "a");
    mesh.trunk_is_given_up("f", "b");
    mesh.pass(SECOND);
    assert!(mesh.is_resumed(back));
    mesh.sends(anna, &bob_id, 1);
    mesh.pass(11 * SECOND);
    assert_eq!((mesh.got(back), mesh.closed(back)), (vec!["anna 1".to_owned()], None));
}

#[test]
fn newcomer_let_in_late_does_not_replace_its_open_socket() {
    let (mut mesh, bob_id) = Mesh::with_bob(&["a", "b"]);
    let anna = mesh.connects("anna", "e", "a");
    let bob = mesh.connects(&bob_id, "e", "a");
    mesh.is_lost(bob);
    // Its session is requested and does not arrive.
    mesh.hold_back("b", "a");
    let back = mesh.resumes(&bob_id, bob, "f", "b");
    mesh.goes_next_to(back, "a");
    mesh.trunk_is_given_up("f", "b");
    assert!(mesh.is_resumed(back));
    mesh.pass(SECOND);
    mesh.let_go("b", "a");
    mesh.sends(anna, &bob_id, 1);
    mesh.pass(11 * SECOND);
    assert_eq!((mesh.got(back), mesh.closed(back)), (vec!["anna 1".to_owned()], None));
}
