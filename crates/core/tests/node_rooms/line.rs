//! Full rooms and their waiting queues.

use std::time::Duration;

use signaling_core::node::RoomSettings;
use signaling_wire::trunk::DetachReason;

use crate::stage::{PRESENCE, SECOND, Stage};

fn waiting(ahead: usize, queue_length: usize) -> String {
    format!(r#"{{"type":"waiting","room":"r","ahead":{ahead},"queue_length":{queue_length}}}"#)
}

fn full_room() -> Stage {
    let mut stage = Stage::new(&["n0", "n1"], 1);
    for (name, node) in [("a", "n0"), ("b", "n1"), ("c", "n0"), ("d", "n1")] {
        stage.comes(name, node);
    }
    stage.joins("a", "r");
    stage
}

#[test]
fn who_waits_hears_its_place_at_once_and_the_first_is_let_in_when_a_seat_is_free() {
    let mut stage = full_room();
    for (ahead, name) in ["b", "c", "d"].into_iter().enumerate() {
        assert_eq!(stage.joins(name, "r")[0], waiting(ahead, ahead + 1));
    }
    stage.leaves("a", "r");
    let joined = r#"{"type":"joined","room":"r","capacity":1,"count":1,"members":[{"client_id":"b"}],"more":false}"#;
    assert_eq!(stage.heard("b"), [joined], "at once");
    stage.passes(2 * SECOND);
    assert_eq!((stage.heard("c"), stage.heard("d")), (vec![waiting(0, 2)], vec![waiting(1, 2)]));
}

#[test]
fn who_comes_to_a_full_line_or_is_in_as_many_rooms_as_allowed_is_told_so() {
    let settings = RoomSettings { shared: true, line: Some(1), per_client: 2, ..RoomSettings::default() };
    let mut stage = Stage::with(&["n0"], 1, settings);
    ["a", "b", "c"].into_iter().for_each(|name| stage.comes(name, "n0"));
    stage.joins("a", "r");
    assert_eq!(stage.joins("b", "r")[0], waiting(0, 1));
    let refused = stage.joins("c", "r");
    assert!(refused.len() == 1 && refused[0].contains(r#""code":"overloaded""#), "{refused:?}");
    assert!(refused[0].contains("line") && refused[0].contains("retry_after_ms"), "{refused:?}");
    stage.leaves("b", "r");
    assert_eq!(stage.joins("c", "r")[0], waiting(0, 1));
    stage.joins("c", "s");
    let refused = stage.joins("c", "t");
    assert!(refused.len() == 1 && refused[0].contains("as many rooms"), "{refused:?}");
}

#[test]
fn places_are_told_at_most_once_a_second() {
    let mut stage = full_room();
    for name in ["b", "c", "d"] {
        stage.joins(name, "r");
    }
    stage.passes(SECOND);
    stage.leaves("b", "r");
    stage.passes(SECOND / 10);
    assert_eq!(stage.heard("d"), [waiting(1, 2)]);
    stage.leaves("c", "r");
    stage.passes(SECOND / 2);
    assert_eq!(stage.heard("d"), [""; 0]);
    stage.passes(SECOND / 2);
    assert_eq!(stage.heard("d"), [waiting(0, 1)]);
}

#[test]
fn who_leaves_the_line_loses_the_place() {
    let mut stage = full_room();
    ["b", "c"].into_iter().for_each(|name| drop(stage.joins(name, "r")));
    stage.leaves("b", "r");
    stage.joins("b", "r");
    stage.leaves("a", "r");
    stage.passes(2 * SECOND);
    assert_eq!(stage.members("r"), ["c"]);
}

#[test]
fn who_waits_keeps_the_place_through_a_move_and_is_not_told_it_again() {
    let mut stage = full_room();
    ["b", "c"].into_iter().for_each(|name| drop(stage.joins(name, "r")));
    stage.moves("b", "n0");
    stage.passes(2 * SECOND);
    assert_eq!(stage.heard("b"), [""; 0]);
    stage.leaves("a", "r");
    stage.passes(2 * SECOND);
    assert_eq!(stage.members("r"), ["b"]);
}

#[test]
fn the_seat_of_one_who_dropped_out_is_kept_and_then_goes_to_the_first_in_line() {
    let mut stage = full_room();
    stage.joins("b", "r");
    stage.goes("a", DetachReason::Lost);
    stage.passes(29 * SECOND);
    assert_eq!(stage.members("r"), ["a"]);
    stage.passes(3 * SECOND);
    assert_eq!(stage.members("r"), ["b"]);
    assert!(stage.heard("b").last().unwrap().contains(r#""type":"joined""#));
}

/// The grace time equals the resume time, so the end of a session frees its seat.
fn grace_of_resume_time() -> RoomSettings {
    RoomSettings { shared: true, grace: 30 * SECOND, ..RoomSettings::default() }
}

fn has_joined(stage: &mut Stage, name: &'static str) -> bool {
    stage.heard(name).last().is_some_and(|last| last.contains(r#""type":"joined""#))
}

#[test]
fn seat_is_freed_when_session_ends_at_any_moment() {
    for phase in 0..12 {
        let mut stage = Stage::with(&["n0", "n1"], 1, grace_of_resume_time());
        // In a real process sweeps are slightly late.
        stage.step = Duration::from_millis(51);
        [("a", "n0"), ("b", "n1")].into_iter().for_each(|(name, node)| stage.comes(name, node));
        ["a", "b"].into_iter().for_each(|name| drop(stage.joins(name, "r")));
        stage.passes(SECOND + phase * stage.step);
        stage.goes("a", DetachReason::Lost);
        stage.passes(31 * SECOND);
        // A member list would itself make the store end the seat.
        assert!(has_joined(&mut stage, "b"), "{phase} sweeps later");
    }
}

#[test]
fn seat_is_freed_in_time_when_its_session_was_moved() {
    let mut stage = Stage::with(&["n0", "n1"], 1, grace_of_resume_time());
    let absent = stage.client_of("n0");
    stage.comes(absent, "n0");
    stage.comes("b", "n1");
    [absent, "b"].into_iter().for_each(|name| drop(stage.joins(name, "r")));
    stage.goes(absent, DetachReason::Lost);
    stage.passes(20 * SECOND);
    stage.drains("n0");
    stage.passes(9 * SECOND);
    assert_eq!(stage.members("r"), [absent], "its client may come back");
    stage.passes(2 * SECOND);
    assert!(has_joined(&mut stage, "b"));
}

#[test]
fn more_seats_let_as_many_in() {
    let mut stage = full_room();
    ["b", "c", "d"].into_iter().for_each(|name| drop(stage.joins(name, "r")));
    stage.sets_capacity("r", 3);
    stage.passes(2 * SECOND);
    assert_eq!(stage.members("r"), ["a", "b", "c"]);
    for name in ["b", "c"] {
        assert!(stage.heard(name)[0].contains(r#""capacity":3,"count":3"#));
    }
    assert_eq!(stage.heard("d"), [waiting(0, 1)]);
}

#[test]
fn who_is_in_line_again_by_a_command_whose_answer_was_lost_hears_its_place_though_it_heard_the_same_before() {
    let mut stage = full_room();
    ["b", "c"].into_iter().for_each(|name| drop(stage.joins(name, "r")));
    stage.leaves("a", "r");
    stage.passes(2 * SECOND);
    stage.heard("b");
    stage.is_given_up("b", "r");
    stage.joins_unheard("b", "r");
    stage.passes(PRESENCE + SECOND);
    assert_eq!(stage.heard("b").last(), Some(&waiting(0, 1)));
}
