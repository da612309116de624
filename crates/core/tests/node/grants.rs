//! Rights from a client's token.

use signaling_rooms::Operation;
use signaling_rooms::RoomSettings;
use signaling_wire::grant::{Grant, RoomPattern, SignalScope};
use signaling_wire::trunk::DetachReason;

use crate::stage::{SECOND, Stage, token};

fn rooms(patterns: &[(&str, Option<u32>)]) -> Grant {
    let pattern = |&(pattern, capacity): &(&str, Option<u32>)| RoomPattern { pattern: pattern.into(), capacity };
    Grant { rooms: Some(patterns.iter().map(pattern).collect()), ..Grant::default() }
}

fn confined() -> Grant {
    Grant { signal: Some(SignalScope::Room), ..Grant::default() }
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

/// `a` may signal only members of its rooms. `b` and `c` are at another node. No one is in a room.
fn stage() -> Stage {
    let mut stage = Stage::new(&["n0", "n1"], 0);
    stage.grants.insert("a", confined());
    stage.attach_all(&[("a", "n0"), ("b", "n1"), ("c", "n1")]);
    stage
}

#[test]
fn join_is_refused_when_the_token_does_not_name_the_room() {
    let mut stage = Stage::new(&["n0", "n1"], 0);
    stage.grants.insert("a", rooms(&[("team-*", None)]));
    stage.attach("a", "n0");
    let message = "your token does not let you into this room";
    let refused = format!(r#"{{"type":"error","code":"forbidden","message":"{message}","id":7,"room":"hall"}}"#);
    assert_eq!(stage.join("a", "hall"), std::slice::from_ref(&refused));
    assert!(stage.join("a", "team-1").iter().any(|text| text.contains("\"joined\"")));
    // The next node receives the same grant.
    stage.hand_off("a", "n1");
    stage.received("a");
    assert_eq!(stage.join("a", "hall"), [refused]);
    assert_eq!(stage.members("hall"), [""; 0]);

    stage.renew_grant("a", rooms(&[("hall", None)]));
    assert!(stage.join("a", "hall").iter().any(|text| text.contains("\"joined\"")), "a new token says otherwise");
}

#[test]
fn join_sets_the_capacity_of_its_token() {
    let mut stage = Stage::new(&["n0", "n1"], 0);
    for (name, node) in [("a", "n0"), ("b", "n1"), ("c", "n1")] {
        stage.grants.insert(name, rooms(&[("pair-*", Some(2))]));
        stage.attach(name, node);
        stage.join(name, "pair-1");
    }
    assert_eq!(stage.members("pair-1"), ["a", "b"]);
    let capacities = |stage: &Stage| stage.count(|op| matches!(op, Operation::Join { capacity: Some(_), .. }));
    let before = capacities(&stage);
    stage.join("a", "pair-1");
    assert_eq!(capacities(&stage), before, "a repeated join sets no capacity");
}

const FORBIDDEN: &str = r#"{"type":"left","room":"r","reason":"forbidden"}"#;

#[test]
fn renewed_token_ends_seats_that_it_does_not_admit() {
    let mut stage = Stage::new(&["n0", "n1"], 0).with_members(&[("a", "n0"), ("b", "n1")]);
    stage.renew_grant("a", rooms(&[("lobby", None)]));
    stage.advance(SECOND);
    assert_eq!(stage.received("a"), [FORBIDDEN]);
    let news = r#"{"type":"members_changed","room":"r","joined":[],"left":[{"client_id":"a","reason":"left"}]}"#;
    assert_eq!(stage.received("b"), [news]);
    assert!(stage.ask("a", r#"{"type":"members","room":"r"}"#)[0].contains("not_in_room"));
    stage.renew_grant("a", rooms(&[("r", None)]));
    assert!(stage.join("a", "r").iter().any(|text| text.contains("\"joined\"")), "the room admits it again");
}

#[test]
fn resume_with_another_token_ends_seats_that_it_does_not_admit() {
    let mut stage = Stage::new(&["n0", "n1"], 0);
    let token = token(&stage.attach("a", "n0")[0]);
    stage.join("a", "r");
    stage.detach("a", DetachReason::Lost);
    stage.grants.insert("a", rooms(&[]));
    stage.resume("a", &token);
    let received = stage.received("a");
    assert!(received[0].contains("welcome") && received[1] == FORBIDDEN, "{received:?}");
    stage.enter("b", "n1");
    assert_eq!(stage.leave("b", "r").len(), 2, "no other member");
}

#[test]
fn queue_does_not_admit_a_client_without_the_right() {
    let mut stage = Stage::new(&["n0", "n1"], 1).with_members(&[("a", "n0"), ("b", "n1"), ("c", "n1")]);
    stage.renew_grant("b", rooms(&[]));
    stage.settle();
    assert_eq!(stage.received("b"), [FORBIDDEN]);
    stage.leave("a", "r");
    stage.advance(SECOND);
    assert_eq!(stage.received("b"), [""; 0]);
    assert!(stage.received("c").iter().any(|text| text.contains("\"joined\"")));
}

#[test]
fn confined_client_signals_only_members_of_its_rooms() {
    let mut stage = stage();
    stage.send("a", &signal("b", 1));
    stage.say("a", &signal("unknown-client", 2));
    assert_eq!(stage.received("a"), [refused("b", 1), refused("unknown-client", 2)], "the same for both");
    assert_eq!(stage.received("b"), [""; 0]);

    stage.join("b", "r");
    // The signal waits for the join, even without an answer to it.
    stage.send("a", r#"{"type":"join","room":"r","id":7}"#);
    for id in 3..6 {
        stage.send("a", &signal("b", id));
    }
    stage.say("a", &signal("c", 6));
    let of_b: Vec<_> = stage.received("b").into_iter().filter(|text| text.contains("\"signal\"")).collect();
    assert_eq!(of_b, [got(3), got(4), got(5)]);
    let finds = stage.count(|op| matches!(op, Operation::Find { .. }));
    assert_eq!(finds, 2, "the owner is asked once about each");
    let of_a = stage.received("a");
    let ack = |id: u32| format!(r#"{{"type":"ack","id":{id}}}"#);
    assert!((3..6).all(|id| of_a.contains(&ack(id))) && of_a.contains(&refused("c", 6)), "{of_a:?}");
    assert_eq!(stage.received("c"), [""; 0]);
}

#[test]
fn confined_client_signals_itself_but_no_former_member() {
    let mut stage = stage();
    assert!(stage.ask("a", &signal("a", 1)).contains(&got(1)));
    stage.join("b", "r");
    stage.join("a", "r");
    stage.say("a", &signal("b", 2));
    assert!(stage.received("b").contains(&got(2)));
    stage.leave("b", "r");
    stage.advance(SECOND);
    stage.received("a");
    assert_eq!(stage.ask("a", &signal("b", 3)), [refused("b", 3)]);
    stage.join("b", "r");
    stage.leave("a", "r");
    assert!(stage.ask("a", &signal("b", 4)).contains(&refused("b", 4)), "nor does it help to have been there");
}

#[test]
fn confined_signals_flow_to_known_members_in_an_outage() {
    let (mut stage, [owner, backup, third]) = Stage::ranked_nodes(0);
    stage.grants.insert("a", confined());
    stage.attach_all(&[("a", backup), ("b", third), ("c", third)]);
    stage.join_all(&["a", "b", "c"], "r");
    stage.say("a", &signal("b", 1));
    stage.received("a");
    stage.isolated = Some(owner);
    stage.advance(60 * SECOND);
    stage.send("a", &signal("b", 2));
    stage.send("a", &signal("c", 3));
    stage.advance(5 * SECOND);
    assert!(stage.received("b").contains(&got(2)));
    let of_a = stage.received("a");
    let is_refused = |text: &String| text.contains("room_unavailable") && text.contains(r#""id":3,"to":"c""#);
    assert!(of_a.iter().any(is_refused), "{of_a:?}");
}

#[test]
fn default_signal_scope_applies_without_one_in_the_token() {
    let rooms = RoomSettings { signal_scope: SignalScope::Room, ..RoomSettings::default() };
    let mut stage = Stage::with(&["n0"], 0, rooms);
    stage.grants.insert("free", Grant { signal: Some(SignalScope::Any), ..Grant::default() });
    stage.grants.insert("a", Grant::default());
    stage.attach_all(&[("free", "n0"), ("a", "n0"), ("anon", "n0"), ("b", "n0")]);
    for name in ["free", "a", "anon"] {
        stage.send(name, &signal("b", 1));
    }
    stage.settle();
    assert_eq!(stage.received("b"), [got(1).replace("\"a\"", "\"free\"")]);
    assert_eq!((stage.received("a"), stage.received("anon")), (vec![refused("b", 1)], vec![refused("b", 1)]));
}

#[test]
fn confined_signal_is_sent_once_when_its_client_moves() {
    let mut stage = stage();
    stage.join("b", "r");
    stage.join("a", "r");
    stage.received("b");
    stage.send("a", &signal("b", 1));
    stage.hand_off("a", "n1");
    stage.retransmit("a", &[&signal("b", 1)]);
    stage.settle();
    let of_b: Vec<_> = stage.received("b").into_iter().filter(|text| text.contains("\"signal\"")).collect();
    assert_eq!(of_b, [got(1)]);
}
