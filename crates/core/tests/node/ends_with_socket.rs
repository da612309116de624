//! Sessions that end with their sockets: they do not linger, and leave their rooms at once.

use signaling_wire::trunk::DetachReason;

use crate::stage::{PRESENCE, SECOND, Stage};

const LEFT: &str = r#"{"type":"members_changed","room":"r","joined":[],"left":[{"client_id":"b","reason":"left"}]}"#;
const EXPIRED: &str =
    r#"{"type":"members_changed","room":"r","joined":[],"left":[{"client_id":"b","reason":"expired"}]}"#;

/// A room of two clients whose sessions end with their sockets, at `n0`.
fn room_of_two() -> Stage {
    let mut stage = Stage::new(&["n0", "n1"], 0);
    stage.ends_with_socket = true;
    stage.with_members(&[("a", "n0"), ("b", "n0")])
}

#[test]
fn session_leaves_its_rooms_when_its_socket_ends() {
    for cause in [DetachReason::Lost, DetachReason::Closed] {
        let mut stage = room_of_two();
        stage.detach("b", cause);
        assert_eq!((stage.received("a"), stage.lingering()), (vec![LEFT.to_owned()], 0), "{cause:?}");
        assert_eq!(stage.members("r"), ["a"]);
    }
}

#[test]
fn session_leaves_its_rooms_when_a_handed_off_socket_ends() {
    // The socket ends at the next node, or on the way to a third one.
    for is_between_nodes in [false, true] {
        let mut stage = room_of_two();
        stage.hand_off("b", "n1");
        stage.advance(SECOND);
        assert_eq!(stage.received("a"), [""; 0]);
        if is_between_nodes {
            stage.crash("n1");
            stage.attach_closed_at("b", "n0");
        } else {
            stage.detach("b", DetachReason::Lost);
        }
        assert_eq!((stage.received("a"), stage.lingering()), (vec![LEFT.to_owned()], 0));
    }
}

#[test]
fn session_keeps_its_seats_for_the_grace_when_its_edge_is_lost() {
    let mut stage = Stage::new(&["n0", "n1"], 0);
    stage.ends_with_socket = true;
    let mut stage = stage.with_members(&[("a", "n1"), ("b", "n0")]);
    stage.lose_edge("n0");
    stage.advance(PRESENCE - SECOND);
    assert_eq!(stage.received("a"), [""; 0]);
    stage.advance(3 * PRESENCE);
    assert_eq!(stage.received("a"), [EXPIRED]);
}
