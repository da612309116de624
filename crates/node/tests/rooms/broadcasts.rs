//! Messages to all in a room.

use signaling_protocol::trunk::Gone;
use signaling_protocol::{ClientId, NodeId, SessionId};
use signaling_rooms::{Op, Who};

use crate::stage::{SECOND, Stage};

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
    stage.goes("b", Gone::Lost);
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

/// A room of many pages, with these and others who are not here.
fn large_room() -> Stage {
    let mut stage = Stage::new(&["n0"], 0);
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
    let who = Who { client, session: SessionId([session; 16]), born: 1_000, number: 1, node };
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
