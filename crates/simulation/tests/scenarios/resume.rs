//! Sessions that resume on another socket.

use std::time::Duration;

use crate::mesh::Mesh;

#[test]
fn token_of_an_earlier_session_wins_nothing_when_one_is_open() {
    let mut mesh = Mesh::new(&["a"], &["e", "f"]);
    let earlier = mesh.connects("bob", "e", "a");
    mesh.closes_normally(earlier);
    let present = mesh.connects("bob", "e", "a");
    let other = mesh.resumes("bob", earlier, "f", "a");
    assert_eq!(mesh.clients[other].refused, Some(409));
    assert_eq!(mesh.clients[present].closed, None);
}

#[test]
fn session_closed_with_code_1000_is_not_resumed() {
    let mut mesh = Mesh::new(&["a"], &["e"]);
    let bob = mesh.connects("bob", "e", "a");
    mesh.closes_normally(bob);
    let back = mesh.resumes("bob", bob, "e", "a");
    // Other nodes may have the session and are asked.
    mesh.pass(Duration::from_secs(1));
    assert!(!mesh.is_resumed(back));
}

#[test]
fn waiting_session_is_not_forgotten_for_its_older_socket() {
    let (mut mesh, bob_id, old) = Mesh::with_bob_at_a(&["a", "b"]);
    // The end of the session does not reach the old socket's edge.
    mesh.hold_back("a", "e");
    let new = mesh.resumes(&bob_id, old, "f", "a");
    mesh.is_lost(new);
    mesh.goes_next_to(old, "b");
    mesh.trunk_is_given_up("e", "a");
    mesh.goes_on(&bob_id, new, "f", "a");
}

#[test]
fn session_is_resumed_when_its_socket_ends_between_nodes() {
    let (mut mesh, bob_id, bob) = Mesh::with_bob_at_a(&["b", "a"]);
    mesh.hold_back("a", "e");
    mesh.is_handed_to(bob, "b");
    mesh.is_lost(bob);
    mesh.let_go("a", "e");
    mesh.pass(Duration::from_millis(100));
    mesh.is_killed("a");
    mesh.goes_on(&bob_id, bob, "f", "b");
}

#[test]
fn session_is_kept_when_the_waiting_newcomers_trunk_is_lost() {
    let (mut mesh, bob_id, bob) = Mesh::with_bob_at_a(&["a", "b"]);
    mesh.is_lost(bob);
    mesh.hold_back("f", "a");
    mesh.hold_back_with_answers("a", "b");
    let early = mesh.resumes(&bob_id, bob, "f", "b");
    mesh.goes_next_to(early, "a");
    mesh.trunk_is_lost("f", "b");
    mesh.let_go("a", "b");
    mesh.is_killed("a");
    mesh.goes_on(&bob_id, bob, "e", "b");
}

#[test]
fn holder_stays_when_the_waiting_newcomers_trunk_is_lost() {
    let mut mesh = Mesh::new(&["a"], &["e", "f"]);
    let bob = mesh.connects("bob", "e", "a");
    mesh.clients[bob].answers_pings = false;
    mesh.connects("bob", "f", "a");
    mesh.trunk_is_lost("f", "a");
    mesh.pass(Duration::from_secs(3));
    assert_eq!(mesh.clients[bob].closed, None);
}
