//! Rooms that nodes own, when their owner fails.

use std::time::Duration;

use signaling_rooms::RoomSettings;

use crate::stage::{SECOND, Stage};

fn joined(received: &[String]) -> bool {
    received.iter().any(|text| text.contains(r#""type":"joined""#))
}

#[test]
fn room_keeps_members_and_capacity_when_its_owner_crashes() {
    let (stage, [owner, backup, third]) = Stage::ranked_nodes(2);
    let mut stage = stage.with_members(&[("a", third)]);
    stage.crash(owner);
    stage.drop_from_views(owner);
    stage.advance(SECOND);
    assert_eq!(stage.received("a"), [""; 0]);
    stage.attach_all(&[("b", backup), ("c", backup)]);
    assert!(joined(&stage.join("b", "r")));
    let waits = stage.join("c", "r");
    assert!(waits[0].contains(r#""type":"waiting""#), "{waits:?}");
    stage.advance(SECOND);
    let news = r#"{"type":"members_changed","room":"r","joined":[{"client_id":"b"}],"left":[]}"#;
    assert_eq!(stage.received("a"), [news]);
}

#[test]
fn full_node_takes_no_further_seats_of_its_clients() {
    let mut stage = Stage::with(&["n0", "n1", "n2"], 2, RoomSettings { max_bytes: 200_000, ..RoomSettings::default() });
    stage.attach("a", "n2");
    for number in 0..200 {
        stage.join("a", &format!("r{number}"));
    }
    // Its owner and backup have bytes left.
    let room = (200..).map(|number| format!("r{number}")).find(|room| stage.ranked(room)[2] == "n2").unwrap();
    let refused = stage.join("a", &room);
    assert!(refused[0].contains(r#""code":"overloaded""#), "{refused:?}");
    stage.attach("b", "n0");
    assert!(joined(&stage.join("b", &room)));
    for number in 0..20 {
        stage.leave("a", &format!("r{number}"));
    }
    assert!(joined(&stage.join("a", &room)));
}

#[test]
fn join_waits_while_its_owner_is_cut_off_from_the_backup() {
    let (stage, [owner, backup, third]) = Stage::ranked_nodes(2);
    let mut stage = stage.with_members(&[("a", owner)]);
    stage.isolated = Some(backup);
    stage.attach("b", third);
    assert_eq!(stage.join("b", "r"), [""; 0]);
    assert!(stage.awaits_join_or_leave(third));
    stage.advance(4 * SECOND);
    let received = stage.received("b");
    assert!(joined(&received) || received[0].contains("room_unavailable"), "{received:?}");
    stage.received("b");
    assert!(joined(&stage.join("b", "r")), "the third node is the backup now");
    assert!(!stage.awaits_join_or_leave(third));
}

#[test]
fn owner_of_a_room_is_not_replaced_while_it_is_suspect() {
    let (mut stage, [owner, backup, _]) = Stage::ranked_nodes(2);
    stage.isolated = Some(owner);
    stage.attach("a", backup);
    for _ in 0..2 {
        assert_eq!(stage.join("a", "r"), [""; 0]);
        stage.advance(4 * SECOND);
        assert!(stage.received("a")[0].contains("room_unavailable"));
    }
    stage.isolated = None;
    stage.advance(SECOND);
    assert!(joined(&stage.join("a", "r")));
}

#[test]
fn backup_refuses_the_log_when_its_view_has_another_owner() {
    let (mut stage, [first, second, third]) = Stage::ranked_nodes(2);
    stage.drop_from_views(first);
    let mut stage = stage.with_members(&[("a", third)]);
    stage.show_all_to(third);
    stage.attach("b", second);
    assert_eq!(stage.join("b", "r"), [""; 0]);
    assert_eq!(stage.received("a"), [""; 0]);
    stage.show_all_to(second);
    stage.advance(SECOND);
    assert!(joined(&stage.received("b")));
}

#[test]
fn request_from_outside_the_owners_view_changes_nothing() {
    let (stage, [owner, _, third]) = Stage::ranked_nodes(2);
    let mut stage = stage.with_members(&[("a", owner)]);
    stage.drop_from_views(third);
    stage.attach("b", third);
    assert_eq!(stage.join("b", "r"), [""; 0]);
    stage.advance(SECOND);
    assert_eq!(stage.received("a"), [""; 0]);
}

#[test]
fn unconfirmed_view_delays_only_rooms_that_are_new_at_a_node() {
    let (stage, [owner, backup, third, fourth]) = Stage::ranked_nodes(2);
    let mut stage = stage.with_members(&[("a", third)]);
    let new = ["s", "t", "u", "v", "w", "x", "y", "z"].into_iter().find(|room| stage.ranked(room)[0] == owner).unwrap();
    stage.attach("b", backup);
    stage.isolated = Some(fourth);
    stage.drain(fourth);
    assert!(joined(&stage.join("b", "r")));
    assert_eq!(stage.join("b", new), [""; 0]);
    stage.isolated = None;
    stage.advance(SECOND);
    assert!(joined(&stage.received("b")));
}

#[test]
fn member_gets_no_change_about_itself() {
    let (stage, [owner, backup, third]) = Stage::ranked_nodes(2);
    let mut stage = stage.with_members(&[("a", owner), ("b", third)]);
    for (name, data, others) in [("a", 1, "b"), ("b", 2, "a")] {
        // Its node gets the change before the result, and later both members a change of the other.
        let text = format!(r#"{{"type":"join","room":"r","data":{data}}}"#);
        stage.say(name, &text);
        stage.advance(SECOND);
        let news = |received: Vec<String>| received.iter().filter(|text| text.contains("members_changed")).count();
        assert_eq!((news(stage.received(name)), news(stage.received(others))), (0, 1), "{name}");
    }
    stage.send("b", r#"{"type":"leave","room":"r"}"#);
    stage.isolated = Some(backup);
    stage.settle();
    stage.isolated = None;
    stage.advance(SECOND);
    assert_eq!(stage.received("b"), [r#"{"type":"left","room":"r","reason":"left"}"#]);
}

#[test]
fn leaver_gets_no_change_after_its_own_leave() {
    let (stage, [owner, backup, third]) = Stage::ranked_nodes(2);
    let mut stage = stage.with_members(&[("a", third), ("b", owner)]);
    stage.attach("c", backup);
    stage.join("c", "r");
    // Its seat goes to the first of the queue, in one message to the others.
    stage.send("a", r#"{"type":"leave","room":"r"}"#);
    stage.settle();
    stage.advance(SECOND);
    let of_a = stage.received("a");
    assert!(of_a.iter().all(|text| !text.contains("members_changed")), "{of_a:?}");
    assert!(stage.received("b").iter().any(|text| text.contains(r#"[{"client_id":"c"}],"left":[{"client_id":"a""#)));
}

#[test]
fn member_again_gets_the_state_when_its_commands_failed() {
    let (stage, [owner, backup, third]) = Stage::ranked_nodes(2);
    let mut stage = stage.with_members(&[("a", third), ("b", third)]);
    stage.isolated = Some(backup);
    stage.say("a", r#"{"type":"leave","room":"r"}"#);
    stage.say("a", r#"{"type":"join","room":"r"}"#);
    for command in ["leave", "join"] {
        // It is carried out, but its node gets the result too late.
        stage.isolated = Some(backup);
        stage.advance(SECOND / 4);
        stage.isolated = Some(third);
        stage.advance(2 * SECOND - SECOND / 4);
        let received = stage.received("a");
        assert!(received.len() == 1 && received[0].contains("room_unavailable"), "{command}: {received:?}");
        stage.isolated = Some(owner);
        stage.settle();
    }
    stage.isolated = None;
    stage.advance(SECOND);
    stage.say("b", r#"{"type":"join","room":"r","data":1}"#);
    stage.advance(SECOND);
    let received = stage.received("a");
    assert!(received.iter().any(|text| text.contains(r#""client_id":"b","data":1"#)), "{received:?}");
}

#[test]
fn late_seats_of_an_earlier_attachment_have_no_effect() {
    let mut stage = Stage::new(&["n0", "n1"], 2);
    let name = ["a", "b", "c", "d", "e", "f"].into_iter().find(|name| stage.ranked(name)[0] == "n0").unwrap();
    stage.enter(name, "n1");
    stage.isolated = Some("n1");
    stage.attach_at(name, "n0");
    stage.isolated = None;
    assert!(!stage.leave(name, "r").is_empty());
    // The former node detects the loss of its edge only now, and sends the seat to the owner.
    stage.lose_edge("n1");
    stage.advance(SECOND);
    assert_eq!(stage.received(name), [""; 0]);
}

#[test]
fn seat_outlives_the_grace_time_if_another_node_has_it() {
    let settings = RoomSettings { seat_grace: Duration::ZERO, ..RoomSettings::default() };
    let (stage, [owner, _, third, fourth]) = Stage::ranked_nodes_with(2, settings);
    let name = ["a", "b", "c", "d", "e", "f", "g", "h", "i"].into_iter().find(|name| stage.ranked(name)[0] == third);
    let name = name.unwrap();
    let mut stage = stage.with_members(&[(name, third)]);
    stage.isolated = Some(owner);
    stage.lose_edge(third);
    stage.attach_at(name, fourth);
    stage.advance(SECOND);
    // The room's owner receives the drop of the former node before the claim of the present one.
    stage.isolated = Some(fourth);
    stage.advance(SECOND / 2);
    stage.isolated = None;
    stage.advance(SECOND);
    let received = stage.received(name);
    assert!(!received.iter().any(|text| text.contains("expired")), "{received:?}");
}
