//! Limits of new rooms, and of the members that a client reaches.

use signaling_rooms::RoomSettings;
use signaling_wire::grant::Grant;
use signaling_wire::trunk::DetachReason;

use crate::stage::{SECOND, Stage, broadcast_rate, token};

fn new_rooms(per_second: u32) -> Stage {
    Stage::with(&["n0"], 0, RoomSettings { new_rooms: Some(per_second), ..RoomSettings::default() })
}

fn fan_out(per_second: u32, burst: u32) -> Stage {
    Stage::with(&["n0", "n1"], 0, broadcast_rate(per_second, burst))
}

fn of_subject(subject: &str) -> Grant {
    Grant { subject: Some(subject.into()), ..Grant::default() }
}

/// Has a client make rooms with names of its own, and leave each, until a join is refused. Returns
/// their number, and the refusal.
fn make_rooms(stage: &mut Stage, name: &'static str, first: usize) -> (usize, String) {
    for number in 0..2_000 {
        let room = format!("{name}-{}", first + number);
        let answers = stage.join(name, &room);
        if let Some(error) = answers.iter().find(|text| text.contains(r#""type":"error""#)) {
            return (number, error.clone());
        }
        stage.leave(name, &room);
    }
    panic!("{name} makes rooms without a limit");
}

fn retry_after_ms(error: &str) -> u64 {
    assert!(error.contains(r#""code":"rate_limited""#), "{error}");
    error.split_once(r#""retry_after_ms":"#).unwrap().1.trim_end_matches('}').parse().unwrap()
}

#[test]
fn join_is_refused_after_300_new_rooms() {
    let mut stage = new_rooms(5);
    stage.attach_all(&[("a", "n0"), ("b", "n0")]);
    let (made, error) = make_rooms(&mut stage, "a", 0);
    assert_eq!((made, retry_after_ms(&error)), (300, 200));
    stage.advance(SECOND);
    assert_eq!(make_rooms(&mut stage, "a", 1_000).0, 5);
    assert_eq!(make_rooms(&mut stage, "b", 0).0, 300, "another client has its own budget");
}

#[test]
fn reconnect_does_not_refill_the_budget_of_new_rooms() {
    let mut stage = new_rooms(1);
    let resume = token(&stage.attach("a", "n0")[0]);
    assert_eq!(make_rooms(&mut stage, "a", 0).0, 60);
    stage.detach("a", DetachReason::Lost);
    stage.resume("a", &resume);
    assert_eq!(make_rooms(&mut stage, "a", 100).0, 0);
    stage.detach("a", DetachReason::Left);
    stage.attach("a", "n0");
    assert_eq!(make_rooms(&mut stage, "a", 100).0, 0);
}

#[test]
fn clients_of_a_subject_share_a_budget_of_new_rooms() {
    let mut stage = new_rooms(1);
    let clients = ["a", "b", "c", "d", "e"];
    for name in clients {
        stage.grants.insert(name, of_subject(if name == "e" { "other" } else { "shared" }));
        stage.attach(name, "n0");
    }
    assert_eq!(clients.map(|name| make_rooms(&mut stage, name, 0).0), [60, 60, 60, 20, 60]);
    stage.advance(SECOND);
    assert_eq!(make_rooms(&mut stage, "d", 100).0, 4);
}

#[test]
fn rate_of_a_grant_replaces_that_of_new_rooms() {
    let mut stage = new_rooms(1);
    stage.grants.insert("a", Grant { new_rooms: Some(2), ..of_subject("a") });
    stage.attach("a", "n0");
    assert_eq!(make_rooms(&mut stage, "a", 0).0, 120);
    stage.renew_grant("a", Grant { new_rooms: Some(0), ..of_subject("a") });
    assert!((0..300).all(|room| !stage.join("a", &format!("b-{}", room % 250))[0].contains("error")));
}

#[test]
fn join_of_a_known_room_needs_no_budget_of_new_rooms() {
    let mut stage = new_rooms(1);
    stage.attach("a", "n0");
    stage.join("a", "r");
    assert_eq!(make_rooms(&mut stage, "a", 0).0, 59);
    let joined = stage.ask("a", r#"{"type":"join","room":"r","data":1,"id":9}"#);
    assert!(joined.iter().any(|text| text.contains("joined")), "{joined:?}");
}

#[test]
fn new_room_of_a_dialect_waits_for_its_budget() {
    let mut stage = new_rooms(1);
    stage.ends_with_socket = true;
    stage.attach("~yw:a", "n0");
    for room in 0..60 {
        stage.join("~yw:a", &format!("~yw.q:{room}"));
    }
    assert_eq!(stage.join("~yw:a", "~yw.q:60"), [""; 0]);
    stage.advance(SECOND * 11 / 10);
    assert_eq!(stage.received("~yw:a"), [r#"{"type":"ack","id":7}"#]);
    assert_eq!(stage.members("~yw.q:60"), ["~yw:a"]);
}

#[test]
fn delayed_join_is_refused_once_its_socket_has_ended() {
    let mut stage = new_rooms(1);
    stage.ends_with_socket = true;
    stage.attach("~yw:a", "n0");
    for room in 0..61 {
        stage.join("~yw:a", &format!("~yw.q:{room}"));
    }
    stage.received("~yw:a");
    stage.detach("~yw:a", DetachReason::Left);
    stage.advance(SECOND / 10);
    assert!(is_rate_limited(&stage.received("~yw:a")));
}

/// Has eight clients join the room `r`.
fn with_eight(mut stage: Stage) -> Stage {
    for name in ["b", "c", "d", "e", "f", "g", "h", "i"] {
        stage.enter(name, "n1");
    }
    stage.attach("a", "n0");
    stage
}

/// Returns `true` if a message is a refusal of a rate.
fn is_rate_limited(answers: &[String]) -> bool {
    answers.iter().any(|text| text.contains("rate_limited"))
}

#[test]
fn join_and_leave_cost_the_members_that_are_informed() {
    let mut stage = with_eight(fan_out(1, 40));
    // A join costs 8 members and 5 for its answer of 290 bytes, a leave 8.
    for _ in 0..2 {
        assert!(!is_rate_limited(&stage.join("a", "r")));
        stage.leave("a", "r");
    }
    let refused = stage.join("a", "r");
    assert_eq!(retry_after_ms(&refused[0]), 3_000, "42 of 40, and the next unit");
    stage.attach("j", "n0");
    assert!(!is_rate_limited(&stage.join("j", "r")), "another client has its own budget");
}

#[test]
fn leave_over_the_budget_is_charged_and_not_refused() {
    let mut stage = with_eight(fan_out(1, 10));
    stage.join("a", "r");
    let left = r#"{"type":"left","room":"r","reason":"left"}"#;
    assert_eq!(stage.leave("a", "r"), [left, r#"{"type":"ack","id":8}"#]);
    assert_eq!(retry_after_ms(&stage.join("a", "r")[0]), 12_000, "13 and 8 of 10, and the next unit");
}

#[test]
fn new_data_costs_members_and_lists_cost_their_bytes() {
    let mut stage = with_eight(fan_out(1, 20));
    stage.join("a", "r");
    assert!(!is_rate_limited(&stage.ask("a", r#"{"type":"join","room":"r","data":{"x":1},"id":9}"#)));
    let refused = stage.ask("a", r#"{"type":"members","room":"r"}"#);
    assert_eq!(retry_after_ms(&refused[0]), 7_000, "26 of 20, and the next unit");
    stage.advance(7 * SECOND);
    stage.received("a");
    assert!(stage.ask("a", r#"{"type":"members","room":"r"}"#)[0].contains("joined"));
    assert!(is_rate_limited(&stage.ask("a", r#"{"type":"members","room":"r"}"#)));
}

#[test]
fn reconnect_does_not_refill_the_budget_of_fan_out() {
    let mut stage = with_eight(fan_out(1, 10));
    stage.join("a", "r");
    stage.detach("a", DetachReason::Left);
    stage.attach("a", "n0");
    assert!(is_rate_limited(&stage.join("a", "r")));
}

#[test]
fn clients_of_a_subject_share_the_budget_of_fan_out() {
    let mut stage = with_eight(fan_out(1, 10));
    for name in ["j", "k"] {
        stage.grants.insert(name, of_subject("s"));
        stage.attach(name, "n0");
    }
    assert!(!is_rate_limited(&stage.join("j", "r")));
    assert!(is_rate_limited(&stage.join("k", "r")));
}

#[test]
fn join_of_a_dialect_waits_for_the_budget_of_fan_out() {
    let mut stage = fan_out(10, 10);
    stage.ends_with_socket = true;
    let clients = ["~rx:a", "~rx:b", "~rx:c", "~rx:d"];
    clients.iter().for_each(|name| drop(stage.attach(name, "n0")));
    stage.join_all(&clients, "~rx:r");
    let bulk = format!(r#"{{"type":"join","room":"~rx:r","data":"{}","id":9}}"#, "x".repeat(2_000));
    assert!(!stage.ask("~rx:a", &bulk).is_empty());
    assert_eq!(stage.join("~rx:a", "~rx:s"), [""; 0]);
    stage.advance(4 * SECOND);
    assert!(stage.received("~rx:a").iter().any(|text| text.contains("~rx:s")));
}

#[test]
fn retransmitted_join_is_not_refused_for_its_own_cost() {
    let mut stage = fan_out(1, 10);
    stage.reliable = true;
    let mut stage = with_eight(stage);
    let resume = token(&stage.attach("j", "n0")[0]);
    stage.join("j", "r");
    stage.detach("j", DetachReason::Lost);
    stage.resume("j", &resume);
    stage.received("j");
    assert!(!is_rate_limited(&stage.join("j", "r")), "its answer may be lost");
    assert!(is_rate_limited(&stage.join("j", "r")), "this socket sends it again");
}
