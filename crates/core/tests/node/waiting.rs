//! Full rooms and their waiting queues.

use std::time::Duration;

use signaling_rooms::RoomSettings;
use signaling_rooms::Rules;
use signaling_wire::trunk::DetachReason;

use crate::stage::{SECOND, Stage};

fn waiting(ahead: usize, queue_length: usize) -> String {
    format!(r#"{{"type":"waiting","room":"r","ahead":{ahead},"queue_length":{queue_length}}}"#)
}

fn full_room() -> Stage {
    let mut stage = Stage::new(&["n0", "n1"], 1);
    stage.attach_all(&[("a", "n0"), ("b", "n1"), ("c", "n0"), ("d", "n1")]);
    stage.join("a", "r");
    stage
}

#[test]
fn free_seat_goes_to_first_waiting_and_others_move_up() {
    let mut stage = full_room();
    for (ahead, name) in ["b", "c", "d"].into_iter().enumerate() {
        assert_eq!(stage.join(name, "r")[0], waiting(ahead, ahead + 1));
    }
    stage.leave("a", "r");
    let joined = r#"{"type":"joined","room":"r","capacity":1,"count":1,"members":[{"client_id":"b"}],"more":false}"#;
    assert_eq!(stage.received("b"), [joined], "at once");
    stage.advance(2 * SECOND);
    assert_eq!((stage.received("c"), stage.received("d")), (vec![waiting(0, 2)], vec![waiting(1, 2)]));
}

#[test]
fn join_is_refused_when_queue_or_rooms_are_full() {
    let rules = Rules { max_waiting: Some(1), ..Rules::default() };
    let settings = RoomSettings { rules, max_seats_per_client: 2, ..RoomSettings::default() };
    let mut stage = Stage::with(&["n0"], 1, settings);
    stage.attach_all(&[("a", "n0"), ("b", "n0"), ("c", "n0")]);
    stage.join("a", "r");
    assert_eq!(stage.join("b", "r")[0], waiting(0, 1));
    let refused = stage.join("c", "r");
    assert!(refused.len() == 1 && refused[0].contains(r#""code":"overloaded""#), "{refused:?}");
    assert!(refused[0].contains("queue") && refused[0].contains("retry_after_ms"), "{refused:?}");
    stage.leave("b", "r");
    assert_eq!(stage.join("c", "r")[0], waiting(0, 1));
    stage.join("c", "s");
    let refused = stage.join("c", "t");
    assert!(refused.len() == 1 && refused[0].contains("as many rooms"), "{refused:?}");
}

#[test]
fn sealed_room_refuses_joins_without_a_queue() {
    let mut stage = Stage::new(&["n0"], 1);
    let clients = ["~mb:a", "~mb:b", "~mb:c"];
    stage.attach_all(&clients.map(|client| (client, "n0")));
    let room = "~mb.2s:match:id";
    for client in &clients[..2] {
        assert!(stage.join(client, room)[0].contains(r#""capacity":2"#));
    }
    stage.leave("~mb:a", room);
    let refused = stage.join("~mb:c", room);
    assert!(refused.len() == 1 && refused[0].contains(r#""code":"overloaded""#), "{refused:?}");
}

#[test]
fn queue_position_is_sent_at_most_once_a_second() {
    let mut stage = full_room();
    stage.join_all(&["b", "c", "d"], "r");
    stage.advance(SECOND);
    stage.leave("b", "r");
    stage.advance(SECOND / 10);
    assert_eq!(stage.received("d"), [waiting(1, 2)]);
    stage.leave("c", "r");
    stage.advance(SECOND / 2);
    assert_eq!(stage.received("d"), [""; 0]);
    stage.advance(SECOND / 2);
    assert_eq!(stage.received("d"), [waiting(0, 1)]);
}

#[test]
fn seat_is_kept_after_a_lost_socket_and_then_given_on() {
    let mut stage = full_room();
    stage.join("b", "r");
    stage.detach("a", DetachReason::Lost);
    stage.advance(29 * SECOND);
    assert_eq!(stage.members("r"), ["a"]);
    stage.advance(3 * SECOND);
    assert_eq!(stage.members("r"), ["b"]);
    assert!(stage.received("b").last().unwrap().contains(r#""type":"joined""#));
}

/// The grace time equals the resume time, so the end of a session frees its seat.
fn grace_of_resume_time() -> RoomSettings {
    RoomSettings { seat_grace: 30 * SECOND, ..RoomSettings::default() }
}

fn has_joined(stage: &mut Stage, name: &'static str) -> bool {
    stage.received(name).last().is_some_and(|last| last.contains(r#""type":"joined""#))
}

#[test]
fn seat_is_freed_when_session_ends_at_any_moment() {
    for phase in 0..12 {
        let mut stage = Stage::with(&["n0", "n1"], 1, grace_of_resume_time());
        // In a real process sweeps are slightly late.
        stage.sweep_interval = Duration::from_millis(51);
        stage.attach_all(&[("a", "n0"), ("b", "n1")]);
        stage.join_all(&["a", "b"], "r");
        stage.advance(SECOND + phase * stage.sweep_interval);
        stage.detach("a", DetachReason::Lost);
        stage.advance(31 * SECOND);
        assert!(has_joined(&mut stage, "b"), "{phase} sweeps later");
    }
}

#[test]
fn seat_is_freed_in_time_when_its_session_moved() {
    let mut stage = Stage::with(&["n0", "n1"], 1, grace_of_resume_time());
    let clients = ["k", "l", "m", "o", "p", "q", "s", "t"];
    let absent = clients.into_iter().find(|client| stage.ranked(client)[0] == "n0").unwrap();
    stage.attach(absent, "n0");
    stage.attach("b", "n1");
    stage.join_all(&[absent, "b"], "r");
    stage.detach(absent, DetachReason::Lost);
    stage.advance(20 * SECOND);
    stage.drain("n0");
    stage.advance(9 * SECOND);
    assert_eq!(stage.members("r"), [absent], "its client may come back");
    stage.advance(2 * SECOND);
    assert!(has_joined(&mut stage, "b"));
}

#[test]
fn raised_capacity_admits_waiting_clients() {
    let mut stage = full_room();
    stage.join_all(&["b", "c", "d"], "r");
    stage.set_capacity("r", 3);
    stage.advance(2 * SECOND);
    assert_eq!(stage.members("r"), ["a", "b", "c"]);
    for name in ["b", "c"] {
        assert!(stage.received(name)[0].contains(r#""capacity":3,"count":3"#));
    }
    assert_eq!(stage.received("d"), [waiting(0, 1)]);
}

#[test]
fn repeated_join_reports_queue_position_when_answer_was_lost() {
    let mut stage = full_room();
    stage.join_all(&["b", "c"], "r");
    stage.leave("a", "r");
    stage.advance(2 * SECOND);
    stage.received("b");
    stage.end_seat("b", "r");
    stage.join_without_answer("b", "r");
    stage.advance(3 * SECOND);
    assert_eq!(stage.received("b").last(), Some(&waiting(0, 1)));
}
