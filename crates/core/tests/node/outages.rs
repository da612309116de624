//! Rooms whose owner does not answer, and rooms whose owner and backup are lost.

use crate::stage::{MINUTE, SECOND, Stage};

/// Has nodes crash and leave the views at once.
fn lose(stage: &mut Stage, nodes: &[&str]) {
    nodes.iter().for_each(|node| stage.crash(node));
    stage.drop_from_views(nodes[0]);
}

#[test]
fn silent_owner_refuses_joins_and_keeps_members() {
    let (stage, [owner, backup, third, _]) = Stage::ranked_nodes(0);
    let mut stage = stage.with_members(&[("a", third)]);
    stage.attach("b", backup);
    stage.isolated = Some(owner);
    stage.join("b", "r");
    stage.send("b", r#"{"type":"signal","to":"a","data":1}"#);
    stage.advance(3 * SECOND);
    let refused = stage.received("b");
    assert!(refused[0].contains("room_unavailable") && refused[0].contains(r#""retry_after_ms":1000"#));
    assert!(stage.received("a").iter().any(|text| text.contains("signal")), "signals flow on");
    stage.advance(MINUTE);
    stage.isolated = None;
    stage.advance(MINUTE);
    assert_eq!(stage.members("r"), ["a"], "a join without an answer gives no lasting seat");
}

#[test]
fn rebuilt_room_has_its_members_and_its_queue_in_order() {
    let (stage, [owner, backup, third, fourth]) = Stage::ranked_nodes(2);
    let clients = [("a", third), ("b", fourth), ("c", fourth), ("d", third), ("e", fourth)];
    let mut stage = stage.with_members(&clients);
    lose(&mut stage, &[owner, backup]);
    stage.advance(6 * SECOND);
    assert_eq!(stage.members("r"), ["a", "b"]);
    for name in ["c", "d", "e"] {
        assert_eq!(stage.received(name), [""; 0], "{name} receives nothing, as nothing has changed");
    }
    for name in ["a", "b"] {
        let received = stage.received(name);
        let both = r#""members":[{"client_id":"a"},{"client_id":"b"}]"#;
        assert!(received.len() <= 1 && received.iter().all(|text| text.contains(both)), "{name}: {received:?}");
    }
    stage.leave("b", "r");
    stage.advance(2 * SECOND);
    assert_eq!(stage.members("r"), ["a", "c"]);
    let waiting = |ahead| format!(r#"{{"type":"waiting","room":"r","ahead":{ahead},"queue_length":2}}"#);
    assert_eq!(stage.received("d").last(), Some(&waiting(0)));
    assert_eq!(stage.received("e").last(), Some(&waiting(1)));
}

const BROADCAST: &str = r#"{"type":"broadcast","room":"r","data":1,"id":3}"#;
const HEARD: &str = r#"{"type":"broadcast","room":"r","from":"a","data":1,"id":3}"#;

#[test]
fn broadcast_waits_until_a_rebuilt_room_is_whole() {
    let (stage, [owner, backup, third, fourth]) = Stage::ranked_nodes(4);
    let mut stage = stage.with_members(&[("a", third), ("b", fourth), ("c", fourth)]);
    stage.isolated = Some(fourth);
    lose(&mut stage, &[owner, backup]);
    stage.send("a", BROADCAST);
    stage.say("a", r#"{"type":"members","room":"r"}"#);
    assert!(stage.received("a").iter().all(|text| !text.contains("ack")), "not before all are back");
    stage.isolated = None;
    stage.advance(3 * SECOND);
    let received = stage.received("a");
    assert!(received.contains(&r#"{"type":"ack","id":3,"delivered":2}"#.to_owned()), "{received:?}");
    let whole = |text: &String| text.contains("joined") && text.contains(r#""count":3"#);
    assert!(received.iter().any(whole), "{received:?}");
    for name in ["b", "c"] {
        assert!(stage.received(name).contains(&HEARD.to_owned()), "{name}");
    }
}

#[test]
fn broadcast_is_refused_while_a_rebuilt_room_lacks_members() {
    let (stage, [owner, backup, third, fourth]) = Stage::ranked_nodes(4);
    let mut stage = stage.with_members(&[("a", third), ("b", fourth), ("c", fourth)]);
    lose(&mut stage, &[owner, backup, fourth]);
    stage.send("a", BROADCAST);
    stage.advance(3 * SECOND);
    let received = stage.received("a").concat();
    assert!(received.contains("room_unavailable") && received.contains(r#""retry_after_ms":1000"#), "{received}");
    stage.advance(30 * SECOND);
    let received = stage.ask("a", BROADCAST).concat();
    assert!(received.contains(r#"{"type":"ack","id":3,"delivered":0}"#), "absent members are gone: {received}");
}
