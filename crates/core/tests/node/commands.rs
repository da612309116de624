//! Room commands, their answers, and the messages to other members.

use signaling_wire::trunk::DetachReason;

use crate::stage::{SECOND, Stage};

const JOINED_A: &str =
    r#"{"type":"joined","room":"r","capacity":null,"count":1,"members":[{"client_id":"a"}],"more":false}"#;
const ACK: &str = r#"{"type":"ack","id":7}"#;

#[test]
fn join_sends_state_before_ack_and_one_change_to_others() {
    let mut stage = Stage::new(&["n0", "n1"], 0);
    stage.attach_all(&[("a", "n0"), ("b", "n1"), ("c", "n0")]);
    assert_eq!(stage.join("a", "r"), [JOINED_A, ACK]);
    stage.join("c", "r");
    stage.advance(SECOND);
    stage.received("a");
    let both = r#"[{"client_id":"a"},{"client_id":"c"},{"client_id":"b","data":{"name":"B"}}]"#;
    stage.say("b", r#"{"type":"join","room":"r","data":{"name":"B"},"id":7}"#);
    let joined = format!(r#"{{"type":"joined","room":"r","capacity":null,"count":3,"members":{both},"more":false}}"#);
    assert_eq!(stage.received("b"), [joined, ACK.to_owned()]);
    let news = r#"{"type":"members_changed","room":"r","joined":[{"client_id":"b","data":{"name":"B"}}],"left":[]}"#;
    stage.advance(SECOND);
    assert_eq!((stage.received("a"), stage.received("c")), (vec![news.to_owned()], vec![news.to_owned()]));
    assert_eq!(stage.received("b"), [""; 0], "its own joining is no news to it");
}

#[test]
fn session_state_is_sent_only_if_the_seat_changes() {
    let mut stage = Stage::new(&["n0"], 0);
    stage.attach("a", "n0");
    assert_eq!(stage.state("a"), b"admitted");
    for (text, states, has_seat) in [
        (r#"{"type":"join","room":"r"}"#, 1, true),
        (r#"{"type":"join","room":"r"}"#, 1, true),
        (r#"{"type":"join","room":"r","data":1}"#, 2, true),
        (r#"{"type":"join","room":"r","data":1}"#, 2, true),
        (r#"{"type":"leave","room":"s"}"#, 2, true),
        (r#"{"type":"leave","room":"r"}"#, 3, false),
        (r#"{"type":"leave","room":"r"}"#, 3, false),
    ] {
        stage.say("a", text);
        assert_eq!((stage.states("a"), stage.state("a") != b"admitted"), (states, has_seat), "{text}");
    }
}

#[test]
fn commands_sent_at_once_are_carried_out_in_order() {
    let mut stage = Stage::new(&["n0"], 0);
    stage.attach_all(&[("a", "n0"), ("b", "n0")]);
    stage.join("b", "r");
    for text in [
        r#"{"type":"join","room":"r","id":1}"#,
        r#"{"type":"broadcast","room":"r","data":1,"id":2}"#,
        r#"{"type":"leave","room":"r","id":3}"#,
        r#"{"type":"broadcast","room":"r","data":2,"id":4}"#,
        r#"{"type":"members","room":"r"}"#,
    ] {
        stage.send("a", text);
    }
    stage.settle();
    let received = stage.received("a");
    let kinds: Vec<_> = received.iter().map(|text| text.split('"').nth(3).unwrap()).collect();
    assert_eq!(kinds, ["joined", "ack", "left", "ack", "error", "error", "ack"], "{received:?}");
    assert_eq!(received.last().unwrap(), r#"{"type":"ack","id":2,"delivered":1}"#, "it comes with the outcomes");
    assert!(received[4].contains("not_in_room"));
    let broadcast = r#"{"type":"broadcast","room":"r","from":"a","data":1,"id":2}"#.to_owned();
    assert!(stage.received("b").contains(&broadcast));
}

#[test]
fn leave_and_normal_close_are_announced_to_other_members() {
    let mut stage = Stage::new(&["n0", "n1"], 0).with_members(&[("a", "n0"), ("b", "n1"), ("c", "n1")]);
    assert_eq!(stage.leave("b", "r"), [r#"{"type":"left","room":"r","reason":"left"}"#, r#"{"type":"ack","id":8}"#]);
    stage.advance(SECOND);
    stage.detach("c", DetachReason::Left);
    stage.advance(SECOND);
    let left = |name: &str| {
        format!(
            r#"{{"type":"members_changed","room":"r","joined":[],"left":[{{"client_id":"{name}","reason":"left"}}]}}"#
        )
    };
    assert_eq!(stage.received("a"), [left("b"), left("c")]);
    assert_eq!(stage.members("r"), ["a"]);
}

#[test]
fn join_is_refused_beyond_the_limits_of_data_and_rooms() {
    let mut stage = Stage::new(&["n0"], 0);
    stage.attach("a", "n0");
    let data = "x".repeat(4_094);
    for room in 0..16 {
        stage.say("a", &format!(r#"{{"type":"join","room":"big-{room}","data":"{data}","id":{}}}"#, room + 1));
    }
    assert!(stage.received("a").iter().all(|text| !text.contains("error")));
    stage.say("a", &format!(r#"{{"type":"join","room":"one-more","data":"{data}","id":50}}"#));
    assert!(stage.received("a")[0].contains("too_large"));
    for room in 0..240 {
        assert!(stage.join("a", &format!("small-{room}"))[0].contains(r#""type":"joined""#));
    }
    assert!(stage.join("a", "too-many")[0].contains("overloaded"));
    assert!(stage.join("a", "small-0")[0].contains(r#""type":"joined""#), "it is in there already");
}
