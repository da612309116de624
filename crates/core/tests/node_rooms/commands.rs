//! Room commands, their answers, and the messages to other members.

use signaling_core::node::RoomSettings;
use signaling_wire::trunk::DetachReason;

use crate::stage::{SECOND, Stage};

const JOINED_A: &str =
    r#"{"type":"joined","room":"r","capacity":null,"count":1,"members":[{"client_id":"a"}],"more":false}"#;
const ACK: &str = r#"{"type":"ack","id":7}"#;

#[test]
fn who_joins_is_told_the_state_before_the_ack_and_the_others_hear_of_it_once_on_whatever_node_they_are() {
    let mut stage = Stage::new(&["n0", "n1"], 0);
    for (name, node) in [("a", "n0"), ("b", "n1"), ("c", "n0")] {
        stage.comes(name, node);
    }
    assert_eq!(stage.joins("a", "r"), [JOINED_A, ACK]);
    stage.joins("c", "r");
    stage.passes(SECOND);
    stage.heard("a");
    let both = r#"[{"client_id":"a"},{"client_id":"c"},{"client_id":"b","data":{"name":"B"}}]"#;
    stage.says("b", r#"{"type":"join","room":"r","data":{"name":"B"},"id":7}"#);
    stage.settle();
    let joined = format!(r#"{{"type":"joined","room":"r","capacity":null,"count":3,"members":{both},"more":false}}"#);
    assert_eq!(stage.heard("b"), [joined, ACK.to_owned()]);
    let news = r#"{"type":"members_changed","room":"r","joined":[{"client_id":"b","data":{"name":"B"}}],"left":[]}"#;
    stage.passes(SECOND);
    assert_eq!((stage.heard("a"), stage.heard("c")), (vec![news.to_owned()], vec![news.to_owned()]));
    assert_eq!(stage.heard("b"), [""; 0], "its own joining is no news to it");
}

#[test]
fn the_state_that_the_next_node_is_shown_leaves_with_the_answer() {
    let mut stage = Stage::new(&["n0"], 0);
    stage.comes("a", "n0");
    assert_eq!(stage.state("a"), b"admitted");
    stage.joins("a", "r");
    assert!(stage.state("a").len() > b"admitted".len());
    stage.leaves("a", "r");
    assert_eq!(stage.state("a"), b"admitted");
}

#[test]
fn commands_of_a_client_are_carried_out_in_order_however_many_it_sends_at_once() {
    let mut stage = Stage::new(&["n0"], 0);
    ["a", "b"].into_iter().for_each(|name| stage.comes(name, "n0"));
    stage.joins("b", "r");
    for text in [
        r#"{"type":"join","room":"r","id":1}"#,
        r#"{"type":"broadcast","room":"r","data":1,"id":2}"#,
        r#"{"type":"leave","room":"r","id":3}"#,
        r#"{"type":"broadcast","room":"r","data":2,"id":4}"#,
        r#"{"type":"members","room":"r"}"#,
    ] {
        stage.says("a", text);
    }
    stage.settle();
    let heard = stage.heard("a");
    let kinds: Vec<_> = heard.iter().map(|text| text.split('"').nth(3).unwrap()).collect();
    assert_eq!(kinds, ["joined", "ack", "left", "ack", "error", "error", "ack"], "{heard:?}");
    assert_eq!(heard.last().unwrap(), r#"{"type":"ack","id":2,"delivered":1}"#, "a broadcast's comes with its fates");
    assert!(heard[4].contains("not_in_room"));
    let broadcast = r#"{"type":"broadcast","room":"r","from":"a","data":1,"id":2}"#.to_owned();
    assert!(stage.heard("b").contains(&broadcast));
}

#[test]
fn leaving_is_told_to_the_others_and_so_is_a_goodbye() {
    let mut stage = Stage::new(&["n0", "n1"], 0);
    for (name, node) in [("a", "n0"), ("b", "n1"), ("c", "n1")] {
        stage.comes(name, node);
        stage.joins(name, "r");
    }
    stage.passes(SECOND);
    ["a", "b"].into_iter().for_each(|name| drop(stage.heard(name)));
    assert_eq!(stage.leaves("b", "r"), [r#"{"type":"left","room":"r","reason":"left"}"#, r#"{"type":"ack","id":8}"#]);
    stage.passes(SECOND);
    stage.goes("c", DetachReason::Left);
    stage.passes(SECOND);
    let left = |name: &str| {
        format!(
            r#"{{"type":"members_changed","room":"r","joined":[],"left":[{{"client_id":"{name}","reason":"left"}}]}}"#
        )
    };
    assert_eq!(stage.heard("a"), [left("b"), left("c")]);
    assert_eq!(stage.members("r"), ["a"]);
}

#[test]
fn a_client_is_in_no_more_rooms_and_shows_no_more_than_it_may() {
    let mut stage = Stage::new(&["n0"], 0);
    stage.comes("a", "n0");
    let data = "x".repeat(4_094);
    for room in 0..16 {
        stage.says("a", &format!(r#"{{"type":"join","room":"big-{room}","data":"{data}","id":{}}}"#, room + 1));
        stage.settle();
    }
    assert!(stage.heard("a").iter().all(|text| !text.contains("error")));
    stage.says("a", &format!(r#"{{"type":"join","room":"one-more","data":"{data}","id":50}}"#));
    stage.settle();
    assert!(stage.heard("a")[0].contains("too_large"));
    for room in 0..240 {
        assert!(stage.joins("a", &format!("small-{room}"))[0].contains(r#""type":"joined""#));
    }
    assert!(stage.joins("a", "too-many")[0].contains("overloaded"));
    assert!(stage.joins("a", "small-0")[0].contains(r#""type":"joined""#), "it is in there already");
}

#[test]
fn rooms_of_one_node_alone_cannot_be_had_in_a_mesh_of_several() {
    let mut stage = Stage::with(&["n0", "n1"], 0, RoomSettings::default());
    stage.comes("a", "n0");
    assert!(stage.joins("a", "r")[0].contains("room_store_unavailable"));
    let mut alone = Stage::with(&["n0"], 0, RoomSettings::default());
    alone.comes("a", "n0");
    assert_eq!(alone.joins("a", "r"), [JOINED_A, ACK]);
}
