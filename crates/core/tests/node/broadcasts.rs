//! Broadcasts to the members of a room.

use serde_json::Value;
use signaling_protocol::{ClientId, NodeId};
use signaling_rooms::RoomSettings;
use signaling_rooms::{Operation, Requester};
use signaling_wire::trunk::DetachReason;
use signaling_wire::{Rank, SessionId, SocketId};

use crate::stage::{SECOND, Stage, broadcast_rate, token};

fn room_of_three() -> Stage {
    Stage::new(&["n0", "n1"], 0).with_members(&[("a", "n0"), ("b", "n1"), ("c", "n1")])
}

const BROADCAST: &str = r#"{"type":"broadcast","room":"r","data":{"x":1},"id":3}"#;
const HEARD: &str = r#"{"type":"broadcast","room":"r","from":"a","data":{"x":1},"id":3}"#;

#[test]
fn broadcast_reaches_other_members_once_and_ack_counts_them() {
    let mut stage = room_of_three();
    stage.say("a", BROADCAST);
    assert_eq!((stage.received("b"), stage.received("c")), (vec![HEARD.to_owned()], vec![HEARD.to_owned()]));
    assert_eq!(stage.received("a"), [r#"{"type":"ack","id":3,"delivered":2}"#]);
}

#[test]
fn broadcast_ack_omits_member_that_stays_away() {
    let mut stage = room_of_three();
    stage.detach("b", DetachReason::Lost);
    stage.say("a", BROADCAST);
    assert_eq!(stage.received("c"), [HEARD]);
    assert_eq!(stage.received("a"), [""; 0], "one may still come back for it");
    stage.advance(24 * SECOND);
    assert_eq!(stage.received("a"), [r#"{"type":"ack","id":3,"delivered":1}"#]);
}

const TRANSIENT: &str = r#"{"type":"broadcast","room":"r","data":{"x":1},"id":3,"ttl_ms":0}"#;

#[test]
fn broadcast_without_hold_is_dropped_for_an_absent_member() {
    let mut stage = Stage::new(&["n0", "n1"], 0).with_members(&[("a", "n0"), ("c", "n1")]);
    let token = token(&stage.attach("b", "n1")[0]);
    stage.join("b", "r");
    stage.advance(SECOND);
    stage.received("a");
    stage.detach("b", DetachReason::Lost);
    stage.say("a", TRANSIENT);
    assert_eq!(stage.received("c").last().unwrap(), HEARD);
    stage.advance(6 * SECOND);
    assert_eq!(stage.received("a"), [r#"{"type":"ack","id":3,"delivered":1}"#]);
    stage.resume("b", &token);
    stage.advance(SECOND);
    assert!(!stage.received("b").contains(&HEARD.to_owned()));
}

#[test]
fn broadcast_without_hold_has_time_to_arrive_after_a_wait() {
    let mut stage = room_of_three();
    stage.send("a", TRANSIENT);
    stage.now += 3 * SECOND;
    stage.settle();
    assert_eq!((stage.received("b"), stage.received("c")), (vec![HEARD.to_owned()], vec![HEARD.to_owned()]));
}

#[test]
fn broadcast_without_other_members_is_acked_at_once() {
    let mut stage = Stage::new(&["n0"], 0).with_members(&[("a", "n0")]);
    assert_eq!(stage.ask("a", BROADCAST), [r#"{"type":"ack","id":3,"delivered":0}"#]);
}

#[test]
fn broadcast_of_a_waiting_client_is_refused() {
    let mut stage = Stage::new(&["n0"], 1).with_members(&[("b", "n0"), ("a", "n0")]);
    assert!(stage.ask("a", BROADCAST)[0].contains("not_in_room"));
    assert_eq!(stage.received("b"), [""; 0]);
}

const NAMES: [&str; 5] = ["b", "c", "d", "e", "f"];

/// The refusal of a broadcast with this retry delay.
fn too_fast(id: u64, retry_after_ms: u64) -> String {
    let message = "your requests reach more members per second than allowed: wait for `retry_after_ms`";
    format!(
        r#"{{"type":"error","code":"rate_limited","message":"{message}","id":{id},"room":"r","retry_after_ms":{retry_after_ms}}}"#
    )
}

fn numbered(id: u64) -> String {
    format!(r#"{{"type":"broadcast","room":"r","data":{id},"id":{id}}}"#)
}

#[test]
fn broadcast_budget_counts_each_member_reached() {
    let mut stage =
        Stage::with(&["n0"], 0, broadcast_rate(2, 5)).with_members(&[("a", "n0"), ("b", "n0"), ("c", "n0")]);

    (1..=3).for_each(|id| stage.say("a", &numbered(id)));
    assert_eq!(stage.received("b").len(), 2, "two of two each are within five");
    let received = stage.received("a");
    assert!(received.len() == 3 && received.contains(&too_fast(3, 500)), "{received:?}");
    stage.say("b", &numbered(1));
    assert_eq!(stage.received("a").len(), 1, "others are not held up");
    drop(stage.received("b"));

    stage.advance(SECOND / 2);
    stage.send("a", &numbered(4));
    stage.say("a", &numbered(5));
    assert_eq!(stage.received("b").len(), 1, "a broadcast after the wait is sent");
    assert_eq!(stage.received("a").iter().filter(|text| text.contains("rate_limited")).count(), 1);
}

#[test]
fn large_broadcast_counts_members_once_per_started_4_kib() {
    let mut stage =
        Stage::with(&["n0"], 0, broadcast_rate(2, 5)).with_members(&[("a", "n0"), ("b", "n0"), ("c", "n0")]);

    stage.say("a", &format!(r#"{{"type":"broadcast","room":"r","data":"{}","id":1}}"#, "x".repeat(5_000)));
    assert_eq!(stage.received("b").len(), 1, "two members count twice each");
    assert!(stage.ask("a", &numbered(2)).contains(&too_fast(2, 500)));
}

#[test]
fn broadcast_retransmitted_after_resume_is_not_refused() {
    let mut stage = Stage::with(&["n0"], 0, broadcast_rate(1, 4)).with_members(&[("b", "n0"), ("c", "n0")]);
    stage.reliable = true;
    let token = token(&stage.attach("a", "n0")[0]);
    stage.join("a", "r");
    stage.advance(6 * SECOND);
    stage.detach("c", DetachReason::Lost);
    [11, 12].into_iter().for_each(|id| stage.say("a", &numbered(id)));
    stage.advance(2 * SECOND);
    assert!(stage.ask("a", &numbered(13)).iter().all(|text| !text.contains("rate_limited")));

    stage.detach("a", DetachReason::Lost);
    stage.resume("a", &token);
    (11..=14).for_each(|id| stage.send("a", &numbered(id)));
    stage.say("a", &numbered(11));
    let received = stage.received("a");
    let refused = received.iter().filter(|text| text.contains("rate_limited"));
    let refused = refused.map(|text| serde_json::from_str::<Value>(text).unwrap()["id"].clone());
    assert_eq!(refused.collect::<Vec<_>>(), [14, 11], "a new one, and one that this socket has said already");
}

#[test]
fn broadcast_over_budget_asks_the_owner_once() {
    let mut stage = large_room(broadcast_rate(10, 25));
    stage.say("a", &numbered(1));
    assert_eq!(stage.received("b").len(), 1);
    let pages = stage.lists();
    assert!(pages > 1);
    for (id, wait) in [(2, 2_500), (3, 2_500)] {
        stage.operations.clear();
        assert!(stage.ask("a", &numbered(id)).contains(&too_fast(id, wait)));
        assert_eq!(stage.lists(), usize::from(id == 2));
    }
    assert_eq!(stage.received("b").len(), 0);
}

#[test]
fn broadcast_retransmitted_at_next_node_is_not_refused() {
    let (stage, [owner, _, third]) = Stage::ranked_nodes_with(0, broadcast_rate(1, 4));
    let mut stage = stage.with_members(&[("a", third), ("b", owner), ("c", owner)]);
    let [one, two, three] = [1, 2, 3].map(numbered);
    stage.isolated = Some(third);
    [&one, &two].into_iter().for_each(|text| stage.say("a", text));
    stage.advance(2 * SECOND);
    stage.say("a", &three);
    stage.crash(third);
    stage.attach_at("a", owner);
    stage.retransmit("a", &[&one, &two, &three]);
    stage.settle();
    assert_eq!(stage.received("b").len(), 3);
    let received = stage.received("a");
    assert!(received.iter().all(|text| !text.contains("rate_limited")), "{received:?}");
    assert!(stage.ask("a", &numbered(4))[0].contains("rate_limited"), "but they count");
}

/// A room of many pages, with these members and others elsewhere.
fn large_room(settings: RoomSettings) -> Stage {
    let stage = Stage::with(&["n0", "n1"], 0, settings);
    let backup = stage.ranked("r")[1];
    let mut stage = stage.with_members(&[("a", backup)]);
    for name in NAMES {
        stage.attach(name, backup);
        stage.say(name, &format!(r#"{{"type":"join","room":"r","data":"{}","id":1}}"#, "x".repeat(4_000)));
    }
    (0..20).for_each(|at| joins_elsewhere(&mut stage, &format!("other-{at}"), at));
    stage.settle();
    NAMES.into_iter().for_each(|name| drop(stage.received(name)));
    stage
}

fn joins_elsewhere(stage: &mut Stage, name: &str, session: u8) {
    let (client, node) = (ClientId::new(name).unwrap(), NodeId::new("gone").unwrap());
    let requester = Requester {
        client,
        session: SessionId([session; 16]),
        socket: SocketId([session; 8]),
        rank: Rank(1_000),
        attachment: 1,
        number: 1,
        node,
    };
    let data = Some(format!("\"{}\"", "x".repeat(4_000)).into());
    stage.apply("r", Operation::Join { requester, data, capacity: None });
}

#[test]
fn broadcast_reaches_member_on_two_pages_once() {
    let mut stage = large_room(RoomSettings::default());
    stage.operations.clear();
    stage.send("a", BROADCAST);
    while stage.lists() == 0 {
        stage.step();
    }
    stage.end_seat("b", "r");
    joins_elsewhere(&mut stage, "b", 99);
    stage.settle();
    assert_eq!(stage.received("b").iter().filter(|text| **text == HEARD).count(), 1);
    stage.advance(24 * SECOND);
    assert!(stage.received("a").contains(&r#"{"type":"ack","id":3,"delivered":5}"#.to_owned()));
}
