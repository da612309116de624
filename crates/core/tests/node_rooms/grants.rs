//! Rights from a client's token.

use signaling_rooms::Op;
use signaling_wire::grant::{Grant, RoomPattern, SignalScope};

use crate::stage::{SECOND, Stage};

fn rooms(patterns: &[(&str, Option<u32>)]) -> Grant {
    let pattern = |&(pattern, capacity): &(&str, Option<u32>)| RoomPattern { pattern: pattern.into(), capacity };
    Grant { rooms: Some(patterns.iter().map(pattern).collect()), signal: None }
}

fn confined() -> Grant {
    Grant { rooms: None, signal: Some(SignalScope::Room) }
}

fn signal(to: &str, id: u32) -> String {
    format!(r#"{{"type":"signal","to":"{to}","data":{id},"id":{id}}}"#)
}

fn got(id: u32) -> String {
    format!(r#"{{"type":"signal","from":"a","data":{id},"id":{id}}}"#)
}

fn refused(to: &str, id: u32) -> String {
    let message = "you may signal only those who are in a room with you";
    format!(r#"{{"type":"error","code":"forbidden","message":"{message}","id":{id},"to":"{to}"}}"#)
}

/// `a` may signal only members of its rooms. `b` and `c` are at another node. All three are in no
/// room.
fn stage() -> Stage {
    let mut stage = Stage::new(&["n0", "n1"], 0);
    stage.grants.insert("a", confined());
    for (name, node) in [("a", "n0"), ("b", "n1"), ("c", "n1")] {
        stage.comes_and_hears(name, node);
    }
    stage
}

fn finds(stage: &Stage) -> usize {
    stage.operations.iter().filter(|op| matches!(op, Op::Find { .. })).count()
}

#[test]
fn a_room_that_the_token_does_not_name_is_not_joined() {
    let mut stage = Stage::new(&["n0", "n1"], 0);
    stage.grants.insert("a", rooms(&[("team-*", None)]));
    stage.comes("a", "n0");
    let message = "your token does not let you into this room";
    let refused = format!(r#"{{"type":"error","code":"forbidden","message":"{message}","id":7,"room":"hall"}}"#);
    assert_eq!(stage.joins("a", "hall"), std::slice::from_ref(&refused));
    assert!(stage.joins("a", "team-1").iter().any(|told| told.contains("\"joined\"")));
    // The next node receives the same grant.
    stage.moves("a", "n1");
    stage.heard("a");
    assert_eq!(stage.joins("a", "hall"), [refused]);
    assert_eq!(stage.members("hall"), [""; 0]);

    stage.shows("a", rooms(&[("hall", None)]));
    assert!(stage.joins("a", "hall").iter().any(|told| told.contains("\"joined\"")), "a new token says otherwise");
}

#[test]
fn a_room_gets_the_capacity_that_the_token_of_its_guest_says() {
    let mut stage = Stage::new(&["n0", "n1"], 0);
    for (name, node) in [("a", "n0"), ("b", "n1"), ("c", "n1")] {
        stage.grants.insert(name, rooms(&[("pair-*", Some(2))]));
        stage.comes(name, node);
        stage.joins(name, "pair-1");
    }
    assert_eq!(stage.members("pair-1"), ["a", "b"]);
    let capacities = |stage: &Stage| stage.operations.iter().filter(|op| matches!(op, Op::SetCapacity { .. })).count();
    let before = capacities(&stage);
    stage.joins("a", "pair-1");
    assert_eq!(capacities(&stage), before, "who is in already changes nothing");
}

#[test]
fn strangers_cannot_signal_each_other_and_members_of_a_room_can() {
    let mut stage = stage();
    stage.says("a", &signal("b", 1));
    stage.says("a", &signal("nobody-of-that-name", 2));
    stage.settle();
    assert_eq!(stage.heard("a"), [refused("b", 1), refused("nobody-of-that-name", 2)], "the same for both");
    assert_eq!(stage.heard("b"), [""; 0]);

    stage.joins("b", "r");
    // The signal waits for the join, even without an answer to it.
    stage.says("a", r#"{"type":"join","room":"r","id":7}"#);
    for id in 3..6 {
        stage.says("a", &signal("b", id));
    }
    stage.says("a", &signal("c", 6));
    stage.settle();
    let of_b: Vec<_> = stage.heard("b").into_iter().filter(|told| told.contains("\"signal\"")).collect();
    assert_eq!(of_b, [got(3), got(4), got(5)]);
    assert_eq!(finds(&stage), 2, "the store is asked once about each");
    let of_a = stage.heard("a");
    assert!(
        (3..6).all(|id| of_a.contains(&format!(r#"{{"type":"ack","id":{id}}}"#))) && of_a.contains(&refused("c", 6)),
        "{of_a:?}"
    );
    assert_eq!(stage.heard("c"), [""; 0]);
}

#[test]
fn one_may_signal_oneself_and_who_has_left_no_more() {
    let mut stage = stage();
    stage.says("a", &signal("a", 1));
    stage.settle();
    assert!(stage.heard("a").contains(&got(1)));
    stage.joins("b", "r");
    stage.joins("a", "r");
    stage.says("a", &signal("b", 2));
    stage.settle();
    assert!(stage.heard("b").contains(&got(2)));
    stage.leaves("b", "r");
    stage.passes(SECOND);
    stage.heard("a");
    stage.says("a", &signal("b", 3));
    stage.settle();
    assert_eq!(stage.heard("a"), [refused("b", 3)]);
    stage.joins("b", "r");
    stage.leaves("a", "r");
    stage.says("a", &signal("b", 4));
    stage.settle();
    assert!(stage.heard("a").contains(&refused("b", 4)), "nor does it help to have been there");
}

#[test]
fn while_the_store_is_away_signals_flow_between_those_who_were_in_a_room_together() {
    let mut stage = stage();
    for name in ["a", "b", "c"] {
        stage.joins(name, "r");
    }
    stage.says("a", &signal("b", 1));
    stage.settle();
    stage.heard("a");
    stage.store_is_away = true;
    stage.passes(60 * SECOND);
    stage.says("a", &signal("b", 2));
    stage.says("a", &signal("c", 3));
    stage.settle();
    assert!(stage.heard("b").contains(&got(2)));
    let of_a = stage.heard("a");
    assert!(
        of_a.iter().any(|told| told.contains("room_store_unavailable") && told.contains("\"id\":3,\"to\":\"c\"")),
        "{of_a:?}"
    );
}

#[test]
fn the_scope_of_all_is_that_of_whose_token_does_not_say() {
    let mut stage = Stage::new(&["n0"], 0);
    stage.confines_all();
    stage.grants.insert("free", Grant { rooms: None, signal: Some(SignalScope::Any) });
    stage.grants.insert("a", Grant::default());
    for name in ["free", "a", "anon", "b"] {
        stage.comes_and_hears(name, "n0");
    }
    for name in ["free", "a", "anon"] {
        stage.says(name, &signal("b", 1));
    }
    stage.settle();
    assert_eq!(stage.heard("b"), [got(1).replace("\"a\"", "\"free\"")]);
    assert_eq!((stage.heard("a"), stage.heard("anon")), (vec![refused("b", 1)], vec![refused("b", 1)]));
}

#[test]
fn a_client_that_moves_while_the_store_is_asked_sends_its_signal_from_the_next_node() {
    let mut stage = stage();
    stage.joins("b", "r");
    stage.joins("a", "r");
    stage.heard("b");
    stage.says("a", &signal("b", 1));
    stage.moves("a", "n1");
    stage.repeats("a", &signal("b", 1));
    stage.settle();
    let of_b: Vec<_> = stage.heard("b").into_iter().filter(|told| told.contains("\"signal\"")).collect();
    assert_eq!(of_b, [got(1)]);
}
