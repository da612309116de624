//! Broadcasts to the members of a room.

use signaling_core::edge::Rate;
use signaling_core::node::RoomSettings;
use signaling_protocol::{ClientId, NodeId};
use signaling_rooms::{Op, Who};
use signaling_wire::SessionId;
use signaling_wire::trunk::DetachReason;

use crate::stage::{SECOND, Stage, token};

fn room_of_three() -> Stage {
    let mut stage = Stage::new(&["n0", "n1"], 0);
    for (name, node) in [("a", "n0"), ("b", "n1"), ("c", "n1")] {
        stage.comes(name, node);
        stage.joins(name, "r");
    }
    stage.passes(SECOND);
    ["a", "b", "c"].into_iter().for_each(|name| drop(stage.heard(name)));
    stage
}

const BROADCAST: &str = r#"{"type":"broadcast","room":"r","data":{"x":1},"id":3}"#;
const HEARD: &str = r#"{"type":"broadcast","room":"r","from":"a","data":{"x":1},"id":3}"#;

#[test]
fn all_others_get_it_once_and_the_ack_counts_them() {
    let mut stage = room_of_three();
    stage.says("a", BROADCAST);
    stage.settle();
    assert_eq!((stage.heard("b"), stage.heard("c")), (vec![HEARD.to_owned()], vec![HEARD.to_owned()]));
    assert_eq!(stage.heard("a"), [r#"{"type":"ack","id":3,"delivered":2}"#]);
}

#[test]
fn one_who_does_not_get_it_in_time_is_not_counted() {
    let mut stage = room_of_three();
    stage.goes("b", DetachReason::Lost);
    stage.says("a", BROADCAST);
    stage.settle();
    assert_eq!(stage.heard("c"), [HEARD]);
    assert_eq!(stage.heard("a"), [""; 0], "one may still come back for it");
    stage.passes(24 * SECOND);
    assert_eq!(stage.heard("a"), [r#"{"type":"ack","id":3,"delivered":1}"#]);
}

#[test]
fn a_broadcast_to_nobody_is_done_at_once() {
    let mut stage = Stage::new(&["n0"], 0);
    stage.comes("a", "n0");
    stage.joins("a", "r");
    stage.says("a", BROADCAST);
    stage.settle();
    assert_eq!(stage.heard("a"), [r#"{"type":"ack","id":3,"delivered":0}"#]);
}

#[test]
fn one_that_waits_for_a_seat_may_not_broadcast() {
    let mut stage = Stage::new(&["n0"], 1);
    for name in ["b", "a"] {
        stage.comes(name, "n0");
        stage.joins(name, "r");
    }
    stage.says("a", BROADCAST);
    stage.settle();
    assert!(stage.heard("a")[0].contains("not_in_room"));
    assert_eq!(stage.heard("b"), [""; 0]);
}

const NAMES: [&str; 5] = ["b", "c", "d", "e", "f"];

/// The refusal of a broadcast with this retry delay.
fn too_fast(id: u64, retry_after_ms: u64) -> String {
    let message = "your broadcasts reach more members of rooms than they may: wait";
    format!(
        r#"{{"type":"error","code":"rate_limited","message":"{message}","id":{id},"room":"r","retry_after_ms":{retry_after_ms}}}"#
    )
}

fn numbered(id: u64) -> String {
    format!(r#"{{"type":"broadcast","room":"r","data":{id},"id":{id}}}"#)
}

#[test]
fn one_counts_for_as_many_as_it_is_sent_to() {
    let reach = Some(Rate { per_second: 2, burst: 5 });
    let mut stage = Stage::with(&["n0"], 0, RoomSettings { reach, ..RoomSettings::default() });
    for name in ["a", "b", "c"] {
        stage.comes(name, "n0");
        stage.joins(name, "r");
    }
    stage.passes(SECOND);
    ["a", "b", "c"].into_iter().for_each(|name| drop(stage.heard(name)));

    (1..=3).for_each(|id| stage.says("a", &numbered(id)));
    stage.settle();
    assert_eq!(stage.heard("b").len(), 2, "two of two each are within five");
    let heard = stage.heard("a");
    assert!(heard.len() == 3 && heard.contains(&too_fast(3, 500)), "{heard:?}");
    stage.says("b", &numbered(1));
    stage.settle();
    assert_eq!(stage.heard("a").len(), 1, "others are not held up");
    drop(stage.heard("b"));

    stage.passes(SECOND / 2);
    stage.says("a", &numbered(4));
    stage.says("a", &numbered(5));
    stage.settle();
    assert_eq!(stage.heard("b").len(), 1, "who waits as told is heard");
    assert_eq!(stage.heard("a").iter().filter(|text| text.contains("rate_limited")).count(), 1);
}

#[test]
fn what_a_resumed_session_says_again_is_not_refused_and_counts() {
    let reach = Some(Rate { per_second: 1, burst: 4 });
    let mut stage = Stage::with(&["n0"], 0, RoomSettings { reach, ..RoomSettings::default() });
    for name in ["b", "c"] {
        stage.comes(name, "n0");
        stage.joins(name, "r");
    }
    stage.reliable = true;
    let token = token(&stage.comes_and_hears("a", "n0")[0]);
    stage.joins("a", "r");
    stage.goes("c", DetachReason::Lost);
    [11, 12].into_iter().for_each(|id| stage.says("a", &numbered(id)));
    stage.settle();
    stage.passes(2 * SECOND);
    stage.says("a", &numbered(13));
    stage.settle();
    assert!(stage.heard("a").iter().all(|text| !text.contains("rate_limited")));

    stage.goes("a", DetachReason::Lost);
    stage.resumes("a", &token);
    (11..=14).for_each(|id| stage.says("a", &numbered(id)));
    stage.says("a", &numbered(11));
    stage.settle();
    let refused: Vec<_> =
        stage.heard("a").into_iter().filter(|text| text.contains("rate_limited")).map(|text| number(&text)).collect();
    assert_eq!(refused, [14, 11], "a new one, and one that this socket has said already");
}

/// Counts the member pages requested from the store.
fn lists(stage: &Stage) -> usize {
    stage.operations.iter().filter(|op| matches!(op, Op::List { .. })).count()
}

/// Returns the `id` of a message that a client received.
fn number(text: &str) -> u64 {
    let text = text.split_once("\"id\":").unwrap().1;
    text[..text.find([',', '}']).unwrap()].parse().unwrap()
}

#[test]
fn in_a_room_of_many_pages_it_is_weighed_whole_and_who_does_not_wait_as_told_costs_the_store_nothing() {
    let reach = Some(Rate { per_second: 10, burst: 25 });
    let mut stage = large_room_with(RoomSettings { reach, ..RoomSettings::default() });
    stage.says("a", &numbered(1));
    stage.settle();
    assert_eq!(stage.heard("b").len(), 1);
    let pages = lists(&stage);
    assert!(pages > 1);
    for (id, wait) in [(2, 2_500), (3, 2_500)] {
        stage.operations.clear();
        stage.says("a", &numbered(id));
        stage.settle();
        assert!(stage.heard("a").contains(&too_fast(id, wait)));
        assert_eq!(lists(&stage), usize::from(id == 2));
    }
    assert_eq!(stage.heard("b").len(), 0);
}

#[test]
fn those_that_go_on_at_another_node_are_not_weighed_there() {
    let reach = Some(Rate { per_second: 1, burst: 4 });
    let mut stage = Stage::with(&["n0", "n1"], 0, RoomSettings { shared: true, reach, ..RoomSettings::default() });
    for (name, node) in [("a", "n0"), ("b", "n1"), ("c", "n1")] {
        stage.comes(name, node);
        stage.joins(name, "r");
    }
    stage.passes(SECOND);
    ["a", "b"].into_iter().for_each(|name| drop(stage.heard(name)));
    let [one, two, three] = [1, 2, 3].map(numbered);
    stage.is_cut = true;
    [&one, &two].into_iter().for_each(|text| stage.says("a", text));
    stage.settle();
    stage.passes(2 * SECOND);
    stage.says("a", &three);
    stage.settle();
    stage.dies("n0");
    stage.is_cut = false;
    stage.appears("a", "n1");
    stage.repeats_all("a", &[&one, &two, &three]);
    stage.settle();
    assert_eq!(stage.heard("b").len(), 3);
    let heard = stage.heard("a");
    assert!(heard.iter().all(|text| !text.contains("rate_limited")), "{heard:?}");
    stage.says("a", &numbered(4));
    stage.settle();
    assert!(stage.heard("a")[0].contains("rate_limited"), "but they count");
}

/// A room of many pages, with these members and others elsewhere.
fn large_room() -> Stage {
    large_room_with(RoomSettings { shared: true, ..RoomSettings::default() })
}

fn large_room_with(settings: RoomSettings) -> Stage {
    let mut stage = Stage::with(&["n0"], 0, settings);
    stage.comes("a", "n0");
    stage.joins("a", "r");
    for name in NAMES {
        stage.comes(name, "n0");
        stage.says(name, &format!(r#"{{"type":"join","room":"r","data":"{}","id":1}}"#, "x".repeat(4_000)));
        stage.settle();
    }
    (0..20).for_each(|at| joins_elsewhere(&mut stage, &format!("other-{at}"), at));
    NAMES.into_iter().for_each(|name| drop(stage.heard(name)));
    stage
}

fn joins_elsewhere(stage: &mut Stage, name: &str, session: u8) {
    let (client, node) = (ClientId::new(name).unwrap(), NodeId::new("gone").unwrap());
    let who = Who { client, session: SessionId([session; 16]), accepted_at_us: 1_000, number: 1, node };
    let data = Some(format!("\"{}\"", "x".repeat(4_000)).into());
    stage.store_does("r", Op::Join { who, data });
}

#[test]
fn a_room_that_fills_many_pages_is_reached_whole() {
    let mut stage = large_room();
    stage.says("a", BROADCAST);
    stage.settle();
    for name in NAMES {
        assert!(stage.heard(name).contains(&HEARD.to_owned()), "{name}");
    }
}

#[test]
fn one_that_is_on_two_pages_gets_it_once_and_does_not_keep_the_answer_waiting() {
    let mut stage = large_room();
    stage.says("a", BROADCAST);
    stage.goes_on();
    stage.is_given_up("b", "r");
    joins_elsewhere(&mut stage, "b", 99);
    stage.settle();
    assert_eq!(stage.heard("b").iter().filter(|text| **text == HEARD).count(), 1);
    stage.passes(24 * SECOND);
    assert!(stage.heard("a").contains(&r#"{"type":"ack","id":3,"delivered":5}"#.to_owned()));
}
