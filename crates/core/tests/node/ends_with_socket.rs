//! Sessions that end with their sockets: they do not linger, and leave their rooms at once.

use signaling_wire::trunk::DetachReason;

use crate::stage::{MINUTE, SECOND, Stage};

const LEFT: &str = r#"{"type":"members_changed","room":"r","joined":[],"left":[{"client_id":"b","reason":"left"}]}"#;
const EXPIRED: &str =
    r#"{"type":"members_changed","room":"r","joined":[],"left":[{"client_id":"b","reason":"expired"}]}"#;

/// A room of two clients whose sessions end with their sockets. Returns the node with both, which
/// owns the room, and a node without a copy of it.
fn room_of_two() -> (Stage, [&'static str; 2]) {
    let (mut stage, [owner, _, third]) = Stage::ranked_nodes(0);
    stage.ends_with_socket = true;
    (stage.with_members(&[("a", owner), ("b", owner)]), [owner, third])
}

#[test]
fn session_leaves_its_rooms_when_its_socket_ends() {
    for cause in [DetachReason::Lost, DetachReason::Closed] {
        let (mut stage, _) = room_of_two();
        stage.detach("b", cause);
        assert_eq!((stage.received("a"), stage.lingering()), (vec![LEFT.to_owned()], 0), "{cause:?}");
        assert_eq!(stage.members("r"), ["a"]);
    }
}

#[test]
fn session_leaves_its_rooms_when_a_handed_off_socket_ends() {
    // The socket ends at the next node, or on the way to a third one.
    for is_between_nodes in [false, true] {
        let (mut stage, [owner, third]) = room_of_two();
        stage.hand_off("b", third);
        stage.advance(SECOND);
        assert_eq!(stage.received("a"), [""; 0]);
        if is_between_nodes {
            stage.crash(third);
            stage.attach_closed_at("b", owner);
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
    stage.advance(19 * SECOND);
    assert_eq!(stage.received("a"), [""; 0]);
    stage.advance(MINUTE);
    assert_eq!(stage.received("a"), [EXPIRED]);
}
