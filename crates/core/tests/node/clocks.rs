//! Clocks of servers that differ: the order of a client's sockets does not depend on them.

use std::time::Duration;

use signaling_rooms::RoomSettings;
use signaling_wire::trunk::DetachReason;

use crate::stage::Stage;

const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
const AHEAD: Duration = Duration::from_secs(5);

/// Returns nodes of which `n1` is 5 s ahead, and a client that `owner` owns.
fn skewed(owner: &str, rooms: RoomSettings) -> (Stage, &'static str) {
    let stage = Stage::skewed(&[("n0", Duration::ZERO), ("n1", AHEAD)], rooms);
    let name = NAMES.into_iter().find(|name| stage.ranked(name)[0] == owner).unwrap();
    (stage, name)
}

fn entered(received: &[String], room: &str) -> bool {
    let is_joined = |text: &String| text.starts_with(&format!(r#"{{"type":"joined","room":"{room}""#));
    received.iter().any(is_joined) && received.last().is_some_and(|text| text.contains(r#""type":"ack""#))
}

#[test]
fn page_that_reloads_at_a_server_behind_enters_at_once() {
    for owner in ["n0", "n1"] {
        for cause in [DetachReason::Left, DetachReason::Lost] {
            let (mut stage, name) = skewed(owner, RoomSettings::default());
            stage.enter(name, "n1");
            stage.detach(name, cause);
            stage.attach(name, "n0");
            let received = stage.join(name, "r");
            assert!(entered(&received, "r"), "{owner}, {cause:?}: {received:?}");
            let received = stage.join(name, "s");
            assert!(entered(&received, "s"), "{owner}, {cause:?}: {received:?}");
        }
    }
}

#[test]
fn later_socket_of_a_lower_rank_gets_a_higher_one() {
    for owner in ["n0", "n1"] {
        let (mut stage, name) = skewed(owner, RoomSettings::default());
        stage.attach(name, "n0");
        let rank = stage.rank(name);
        // A server whose counter is 10 s ahead ranked the former socket. Its numbers arrive later.
        let above = stage.outrank(name, "r");
        stage.receive_counter("n0", above.0 + 1_000);
        let mut received = stage.join(name, "r");
        stage.settle();
        received.extend(stage.received(name));
        assert!(entered(&received, "r"), "{owner}: {received:?}");
        assert!(stage.rank(name) > above && rank < above && stage.members("r") == [name], "{owner}");
    }
}

#[test]
fn earlier_socket_of_a_lower_rank_gets_no_higher_one() {
    for owner in ["n0", "n1"] {
        let (mut stage, name) = skewed(owner, RoomSettings::default());
        stage.attach(name, "n0");
        let rank = stage.rank(name);
        stage.advance(2 * AHEAD);
        // A later socket, of which no node has told this one.
        let above = stage.outrank(name, "r");
        let mut received = stage.join(name, "r");
        stage.advance(AHEAD);
        received.extend(stage.received(name));
        assert!(received.last().is_some_and(|text| text.contains("room_unavailable")), "{owner}: {received:?}");
        assert!(stage.rank(name) == rank && rank < above, "{owner}");
    }
}

#[test]
fn join_without_a_seat_gets_an_error() {
    let (mut stage, name) = skewed("n0", RoomSettings::default());
    stage.reliable = true;
    stage.attach(name, "n0");
    let join = r#"{"type":"join","room":"r","id":1}"#;
    stage.ask(name, join);
    stage.ask(name, r#"{"type":"leave","room":"r","id":2}"#);
    // Its first answer was lost.
    let received = stage.ask(name, join);
    let [error] = &received[..] else { panic!("{received:?}") };
    assert!(error.contains(r#""type":"error","code":"not_in_room""#), "{error}");
}
