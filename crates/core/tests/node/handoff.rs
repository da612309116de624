//! Members that move or resume, and members whose node fails.

use signaling_wire::trunk::DetachReason;

use crate::stage::{MINUTE, SECOND, Stage, token};

fn room_of_two() -> Stage {
    Stage::new(&["n0", "n1"], 0).with_members(&[("a", "n0"), ("b", "n0")])
}

#[test]
fn handoff_of_a_member_is_no_change_to_others() {
    let mut stage = room_of_two();
    stage.hand_off("b", "n1");
    stage.advance(MINUTE);
    assert_eq!((stage.received("a"), stage.received("b")), (Vec::new(), Vec::new()));
    stage.enter("c", "n0");
    stage.advance(SECOND);
    let news = r#"{"type":"members_changed","room":"r","joined":[{"client_id":"c"}],"left":[]}"#;
    assert_eq!((stage.received("a"), stage.received("b")), (vec![news.to_owned()], vec![news.to_owned()]));
}

#[test]
fn crash_keeps_member_and_retransmitted_join_is_no_change() {
    let (stage, [owner, _, third]) = Stage::ranked_nodes(0);
    let mut stage = stage.with_members(&[("a", owner), ("b", third)]);
    stage.say("b", r#"{"type":"join","room":"r","data":1,"id":9}"#);
    stage.advance(SECOND);
    assert_eq!(stage.received("a").len(), 1);
    stage.received("b");
    stage.crash(third);
    stage.attach_at("b", owner);
    stage.retransmit("b", &[r#"{"type":"join","room":"r","data":1,"id":9}"#]);
    stage.settle();
    let received = stage.received("b");
    assert!(received.contains(&r#"{"type":"ack","id":9}"#.to_owned()), "{received:?}");
    stage.advance(MINUTE);
    assert_eq!(stage.received("a"), [""; 0]);
    assert_eq!(stage.members("r"), ["a", "b"]);
}

#[test]
fn resumed_member_keeps_its_seat_and_receives_the_state() {
    let mut stage = Stage::new(&["n0"], 0).with_members(&[("b", "n0")]);
    let token = token(&stage.attach("c", "n0")[0]);
    stage.join("c", "r");
    stage.advance(SECOND);
    stage.received("b");
    stage.detach("c", DetachReason::Lost);
    stage.advance(10 * SECOND);
    stage.enter("d", "n0");
    stage.resume("c", &token);
    stage.advance(SECOND);
    let members = r#""members":[{"client_id":"b"},{"client_id":"c"},{"client_id":"d"}]"#;
    let received = stage.received("c");
    assert!(received.iter().any(|text| text.contains(r#""type":"joined""#) && text.contains(members)), "{received:?}");
    let news = r#"{"type":"members_changed","room":"r","joined":[{"client_id":"d"}],"left":[]}"#;
    assert_eq!(stage.received("b"), [news]);
}

#[test]
fn member_from_a_lost_node_gets_no_earlier_state_than_it_had() {
    let (stage, [owner, _, third]) = Stage::ranked_nodes(0);
    let mut stage = stage.with_members(&[("a", third), ("b", owner)]);
    let token = token(&stage.attach("c", third)[0]);
    stage.join("c", "r");
    stage.advance(SECOND);
    stage.deaf = Some(third);
    stage.resume("c", &token);
    stage.enter("d", owner);
    stage.advance(SECOND);
    assert!(stage.received("b").last().unwrap().contains(r#""joined":[{"client_id":"d"}]"#));

    stage.attach_at("b", third);
    stage.deaf = None;
    stage.advance(SECOND);

    let received = stage.received("b");
    let [joined] = &received[..] else { panic!("{received:?}") };
    assert!(joined.contains(r#""count":4"#) && joined.contains(r#"{"client_id":"d"}"#), "{joined}");
}

#[test]
fn returned_member_gets_no_state_requested_before_it_left() {
    let (stage, [owner, _, third]) = Stage::ranked_nodes(0);
    let mut stage = stage.with_members(&[("a", owner), ("b", owner)]);
    stage.deaf = Some(third);
    stage.attach_at("b", third);
    stage.hand_off("b", owner);
    stage.enter("c", owner);
    stage.advance(SECOND);
    stage.received("b");

    stage.attach_at("b", third);
    stage.deaf = None;
    stage.advance(SECOND);

    let received = stage.received("b");
    let [joined] = &received[..] else { panic!("{received:?}") };
    assert!(joined.contains(r#""count":3"#), "{joined}");
}

#[test]
fn resumed_client_learns_that_its_seat_expired() {
    let mut stage = room_of_two();
    let token = token(&stage.attach("c", "n0")[0]);
    stage.join("c", "r");
    stage.detach("c", DetachReason::Lost);
    stage.end_seat("c", "r");
    stage.advance(10 * SECOND);
    stage.received("c");
    stage.resume("c", &token);
    stage.advance(SECOND);
    let left = r#"{"type":"left","room":"r","reason":"expired"}"#;
    assert_eq!(stage.received("c").last().unwrap(), left);
    assert_eq!(stage.state("c"), b"resumed");
}

#[test]
fn present_socket_receives_answer_to_former_sockets_leave() {
    let mut stage = room_of_two();
    let token = token(&stage.attach("c", "n0")[0]);
    stage.join("c", "r");
    stage.send("c", r#"{"type":"leave","room":"r","id":9}"#);
    stage.resume("c", &token);
    stage.advance(SECOND);
    let left = r#"{"type":"left","room":"r","reason":"left"}"#;
    assert_eq!(stage.received("c").last().unwrap(), left);
    assert_eq!(stage.members("r"), ["a", "b"]);
}

#[test]
fn resume_at_node_with_older_state_keeps_later_seats() {
    let mut stage = Stage::new(&["n0", "n1"], 0);
    for name in ["a", "b", "c", "d"] {
        let token = token(&stage.attach(name, "n0")[0]);
        stage.join(name, "old");
        stage.detach(name, DetachReason::Lost);
        stage.resume_at("n1", name, &token);
        stage.join(name, "new");
        stage.detach(name, DetachReason::Lost);
        stage.resume_at("n0", name, &token);
        stage.advance(SECOND);
        let received = stage.received(name);
        assert!(received.iter().any(|text| text.starts_with(r#"{"type":"joined","room":"new""#)), "{received:?}");
        stage.advance(MINUTE);
        assert_eq!((stage.received(name), stage.members("new")), (Vec::new(), vec![name.to_owned()]));
        stage.leave(name, "new");
    }
}

#[test]
fn late_report_of_a_former_node_ends_no_lingering_session() {
    let mut stage = Stage::new(&["n0", "n1"], 0);
    let name = ["a", "b", "c", "d", "e", "f"].into_iter().find(|name| stage.ranked(name)[0] == "n1").unwrap();
    stage.isolated = Some("n1");
    let token = token(&stage.attach(name, "n0")[0]);
    stage.hand_off(name, "n1");
    stage.lose_edge("n1");
    // Now the report of the first attachment arrives.
    stage.isolated = None;
    stage.settle();
    stage.resume_at("n1", name, &token);
    let received = stage.received(name);
    assert!(received[0].contains(r#""resumed":true"#), "{received:?}");
}

#[test]
fn session_lingers_only_where_it_was_attached_last() {
    let mut stage = Stage::new(&["n0", "n1"], 0);
    let name = ["a", "b", "c", "d", "e", "f"].into_iter().find(|name| stage.ranked(name)[0] == "n0").unwrap();
    let token = token(&stage.attach(name, "n0")[0]);
    // The edge lost its trunk to the owner, which detects that later.
    stage.attach_at(name, "n1");
    stage.join(name, "r");
    stage.lose_edge("n0");
    assert_eq!(stage.lingering(), 0);
    stage.resume_at("n0", name, &token);
    stage.advance(SECOND);
    let received = stage.received(name);
    assert!(received.iter().any(|text| text.contains(r#""type":"joined","room":"r""#)), "{received:?}");
}
