//! Rooms of dialects, whose names determine their options.

use signaling_wire::grant::{Grant, RoomPattern};

use crate::stage::{SECOND, Stage};

const ACK: &str = r#"{"type":"ack","id":7}"#;
const TOPICS: [&str; 3] = ["~pj.q:k", "~yw.q:t", "~tr.q:t"];
const CLIENTS: [(&str, &str); 3] = [("~yw:a", "n0"), ("~yw:b", "n0"), ("~yw:c", "n1")];

fn broadcast(room: &str) -> String {
    format!(r#"{{"type":"broadcast","room":"{room}","data":1,"id":7}}"#)
}

fn of_dialects() -> Stage {
    let mut stage = Stage::new(&["n0", "n1"], 0);
    stage.attach_all(&CLIENTS);
    stage
}

#[test]
fn member_of_a_topic_receives_neither_list_nor_changes() {
    for topic in TOPICS {
        let mut stage = of_dialects();
        for (client, _) in CLIENTS {
            assert_eq!(stage.join(client, topic), [ACK], "{topic}");
        }
        stage.hand_off("~yw:a", "n1");
        stage.leave("~yw:b", topic);
        stage.advance(3 * SECOND);
        assert_eq!((stage.received("~yw:a"), stage.received("~yw:c")), (vec![], vec![]), "{topic}");
    }
}

#[test]
fn topic_is_open_to_broadcasts_of_other_clients() {
    for topic in TOPICS {
        let mut stage = of_dialects();
        ["~yw:a", "~yw:c"].into_iter().for_each(|client| drop(stage.join(client, topic)));
        stage.say("~yw:b", &broadcast(topic));
        let heard = format!(r#"{{"type":"broadcast","room":"{topic}","from":"~yw:b","data":1,"id":7}}"#);
        for client in ["~yw:a", "~yw:c"] {
            assert_eq!(stage.received(client), std::slice::from_ref(&heard));
        }
        assert_eq!(stage.received("~yw:b"), [r#"{"type":"ack","id":7,"delivered":2}"#]);
    }
}

#[test]
fn topic_lists_its_members_to_other_clients() {
    let mut stage = of_dialects();
    stage.join("~yw:c", "~pj.q:k");
    let listed = stage.ask("~yw:a", r#"{"type":"members","room":"~pj.q:k"}"#);
    assert!(listed.len() == 1 && listed[0].contains(r#""members":[{"client_id":"~yw:c"}]"#), "{listed:?}");
    stage.attach("a", "n0");
    assert!(
        stage.ask("a", r#"{"type":"members","room":"~pj.q:k"}"#)[0].contains("forbidden"),
        "a native client may not"
    );
}

#[test]
fn topic_is_closed_to_clients_whose_token_does_not_name_it() {
    let mut stage = Stage::new(&["n0"], 0);
    let pattern = RoomPattern { pattern: "~yw.q:doc-*".into(), capacity: Some(1) };
    stage.grants.insert("~yw:a", Grant { rooms: Some(vec![pattern]), ..Grant::default() });
    stage.attach_all(&[("~yw:a", "n0"), ("~yw:b", "n0")]);
    ["~yw.q:t", "~yw.q:doc-1"].into_iter().for_each(|room| drop(stage.join("~yw:b", room)));
    stage.say("~yw:a", &broadcast("~yw.q:t"));
    let message = "your token does not let you into this room";
    let refused = format!(r#"{{"type":"error","code":"forbidden","message":"{message}","id":7,"room":"~yw.q:t"}}"#);
    assert_eq!((stage.received("~yw:a"), stage.received("~yw:b").len()), (vec![refused], 0));
    stage.say("~yw:a", &broadcast("~yw.q:doc-1"));
    assert_eq!(stage.received("~yw:b").len(), 1);
    assert_eq!(stage.join("~yw:a", "~yw.q:doc-1"), [r#"{"type":"ack","id":7,"delivered":1}"#, ACK], "no capacity");
}

#[test]
fn seat_of_a_streamer_needs_a_token_that_names_it() {
    let rooms = |pattern: &str| Some(vec![RoomPattern { pattern: pattern.into(), capacity: None }]);
    for (rooms, is_admitted) in
        [(None, false), (rooms("~ps.1on:s:Bar"), false), (rooms("~ps.1on:s:Foo"), true), (rooms("*"), true)]
    {
        let mut stage = Stage::new(&["n0"], 0);
        stage.grants.insert("~ps:a", Grant { rooms: rooms.clone(), ..Grant::default() });
        stage.attach_all(&[("~ps:a", "n0"), ("~ps:b", "n0")]);
        let answer = &stage.join("~ps:a", "~ps.1on:s:Foo")[0];
        assert_eq!((answer.contains("joined"), answer.contains("forbidden")), (is_admitted, !is_admitted), "{rooms:?}");
        let in_room_of_players = stage.join("~ps:a", "~ps:sub:Foo")[0].contains("joined");
        assert_eq!(in_room_of_players, rooms.as_ref().is_none_or(|rooms| rooms[0].pattern == "*"), "{rooms:?}");
        if !is_admitted {
            assert!(stage.join("~ps:b", "~ps.1on:s:Foo")[0].contains("joined"), "without tokens");
        }
    }
}

#[test]
fn members_of_a_prompt_room_receive_each_change_at_once() {
    for ([a, b, c, room], at_once) in [(["~rx:a", "~rx:b", "~rx:c", "~rx:r"], 2), (["a", "b", "c", "r"], 1)] {
        let mut stage = Stage::new(&["n0", "n1"], 0);
        stage.attach_all(&[(a, "n0"), (b, "n0"), (c, "n1")]);
        assert!(stage.join(a, room)[0].contains("joined"));
        stage.advance(SECOND);
        stage.join_all(&[b, c], room);
        assert_eq!(stage.received(a).len(), at_once, "{room}");
        stage.advance(SECOND);
        assert_eq!(stage.received(a).len(), 2 - at_once, "{room}");
    }
}

#[test]
fn prompt_room_is_closed_to_other_clients() {
    let mut stage = of_dialects();
    stage.join("~yw:a", "~rx:r");
    assert!(stage.ask("~yw:b", &broadcast("~rx:r"))[0].contains("not_in_room"));
    assert_eq!(stage.received("~yw:a"), [""; 0]);
}

#[test]
fn room_of_a_dialect_has_no_capacity() {
    let mut stage = Stage::new(&["n0"], 1);
    stage.attach_all(&[("~rx:a", "n0"), ("~rx:b", "n0"), ("a", "n0"), ("b", "n0")]);
    for (first, second, room, answer) in [("~rx:a", "~rx:b", "~rx:r", "joined"), ("a", "b", "r", "waiting")] {
        stage.join(first, room);
        assert!(stage.join(second, room)[0].contains(answer), "{room}");
    }
}
