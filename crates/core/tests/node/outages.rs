//! The store is unavailable or has lost its data.

use signaling_rooms::Op;

use crate::stage::{PRESENCE, SECOND, Stage};

#[test]
fn outage_refuses_joins_and_keeps_members() {
    let mut stage = Stage::new(&["n0"], 0);
    stage.attach_all(&[("a", "n0"), ("b", "n0")]);
    stage.join("a", "r");
    stage.store_is_down = true;
    let refused = stage.join("b", "r");
    assert!(refused[0].contains("room_store_unavailable") && refused[0].contains(r#""retry_after_ms":1000"#));
    stage.send("b", r#"{"type":"signal","to":"a","data":1}"#);
    stage.advance(SECOND);
    assert!(stage.received("a").iter().any(|text| text.contains("signal")), "signals flow on");
    stage.advance(PRESENCE);
    stage.store_is_down = false;
    stage.advance(PRESENCE);
    assert_eq!(stage.members("r"), ["a"]);
    assert_eq!(stage.received("a"), [""; 0]);
}

#[test]
fn emptied_store_is_restored_with_its_queue_order() {
    let mut stage =
        Stage::new(&["n0", "n1"], 2).with_members(&[("a", "n0"), ("b", "n1"), ("c", "n1"), ("d", "n0"), ("e", "n1")]);
    stage.empty_store();
    stage.advance(PRESENCE + SECOND);
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
    stage.advance(2 * PRESENCE);
    assert_eq!(stage.members("r"), ["a", "c"]);
    let waiting = |ahead| format!(r#"{{"type":"waiting","room":"r","ahead":{ahead},"queue_length":2}}"#);
    assert_eq!(stage.received("d").last(), Some(&waiting(0)));
    assert_eq!(stage.received("e").last(), Some(&waiting(1)));
}

#[test]
fn seats_are_refreshed_once_per_interval() {
    let mut stage = Stage::new(&["n0"], 0).with_members(&[("a", "n0")]);
    stage.operations.clear();
    stage.advance(4 * PRESENCE);
    let refreshes = stage.count(|op| matches!(op, Op::Refresh { seats } if !seats.is_empty()));
    assert!((4..=5).contains(&refreshes), "{refreshes}");
}

const BROADCAST: &str = r#"{"type":"broadcast","room":"r","data":1,"id":3}"#;
const HEARD: &str = r#"{"type":"broadcast","room":"r","from":"a","data":1,"id":3}"#;

/// Three members at two nodes. Each has received the other members.
fn room_of_three() -> Stage {
    Stage::new(&["n0", "n1"], 4).with_members(&[("a", "n0"), ("b", "n1"), ("c", "n1")])
}

#[test]
fn room_stays_exact_when_a_failover_loses_writes() {
    let mut stage = Stage::new(&["n0", "n1"], 2);
    stage.attach_all(&[("a", "n0"), ("b", "n1"), ("c", "n0")]);
    stage.join("a", "r");
    let replica = stage.store.clone();
    stage.join("b", "r");
    stage.advance(2 * SECOND);
    ["a", "b"].into_iter().for_each(|name| drop(stage.received(name)));
    stage.operations.clear();

    stage.fail_over_store(replica);
    let waits = stage.join("c", "r");
    assert!(waits[0].contains(r#""type":"waiting""#), "the lost member's seat is not given away: {waits:?}");
    stage.advance(5 * SECOND);
    assert_eq!(stage.members("r"), ["a", "b"]);
    assert!(stage.lists() <= 4, "{} times the whole state", stage.lists());
    stage.advance(30 * SECOND);
    assert!(stage.lists() <= 4, "{} times the whole state", stage.lists());
    drop(stage.received("a"));
    stage.leave("b", "r");
    stage.advance(2 * SECOND);
    assert_eq!(stage.members("r"), ["a", "c"]);
    let of_a = stage.received("a").concat();
    assert!(of_a.contains(r#""joined":[{"client_id":"c"}]"#) && of_a.contains(r#""client_id":"b""#), "{of_a}");
}

#[test]
fn failover_that_loses_nothing_is_no_change_to_clients() {
    let mut stage = room_of_three();
    stage.fail_over_store(stage.store.clone());
    stage.send("a", BROADCAST);
    stage.advance(SECOND);
    assert!(stage.received("a").contains(&r#"{"type":"ack","id":3,"delivered":2}"#.to_owned()));
    stage.advance(40 * SECOND);
    // One question is the sender's, and each node asks once.
    assert!(stage.lists() <= 3, "{} times the whole state", stage.lists());
    for name in ["a", "b", "c"] {
        let received = stage.received(name);
        assert!(received.iter().all(|text| !text.contains("members_changed")), "{name}: {received:?}");
    }
}

#[test]
fn broadcast_waits_until_an_emptied_store_is_refilled() {
    let mut stage = room_of_three();
    stage.empty_store();
    stage.send("a", BROADCAST);
    stage.say("a", r#"{"type":"members","room":"r"}"#);
    assert!(stage.received("a").iter().all(|text| !text.contains("ack")), "not before all are back");
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
fn broadcast_is_refused_while_an_emptied_store_lacks_members() {
    let mut stage = room_of_three();
    stage.crash("n1");
    stage.empty_store();
    stage.send("a", BROADCAST);
    stage.advance(3 * SECOND);
    let received = stage.received("a").concat();
    assert!(received.contains("room_store_unavailable") && received.contains(r#""retry_after_ms":1000"#), "{received}");
    stage.advance(30 * SECOND);
    let received = stage.ask("a", BROADCAST).concat();
    assert!(received.contains(r#"{"type":"ack","id":3,"delivered":0}"#), "absent members are gone: {received}");
}

#[test]
fn nodes_refill_an_emptied_store_as_soon_as_it_answers() {
    let mut stage = room_of_three();
    stage.store_is_down = true;
    stage.advance(6 * SECOND);
    stage.empty_store();
    stage.store_is_down = false;
    stage.advance(2 * SECOND);
    assert_eq!(stage.members("r"), ["a", "b", "c"]);
    stage.empty_store();
    stage.advance(2 * SECOND);
    assert_eq!(stage.members("r"), ["a", "b", "c"], "a loss without a refused command is detected");
}

#[test]
fn broadcast_waits_for_member_that_joined_between_losses() {
    let mut stage = Stage::new(&["n0", "n1"], 0);
    stage.attach_all(&[("a", "n0"), ("b", "n1"), ("c", "n1")]);
    stage.join_all(&["a", "b"], "r");
    stage.advance(2 * SECOND);
    stage.empty_store();
    stage.advance(SECOND);
    assert_eq!(stage.members("r"), ["a", "b"], "n0 asked before b was back, and asks again in 2 s");
    let replica = stage.store.clone();
    stage.join("c", "r");
    drop(stage.received("a"));
    stage.fail_over_store(replica);
    stage.send("a", BROADCAST);
    stage.advance(2 * SECOND);
    let received = stage.received("a");
    assert!(received.contains(&r#"{"type":"ack","id":3,"delivered":2}"#.to_owned()), "{received:?}");
    assert!(stage.received("c").contains(&HEARD.to_owned()));
}

#[test]
fn member_keeps_its_seat_when_the_store_loses_its_last_join() {
    let mut stage = Stage::new(&["a", "b"], 2).with_members(&[("k", "a"), ("l", "a")]);
    stage.leave("l", "r");
    let replica = stage.store.clone();
    stage.join("l", "r");
    stage.fail_over_store(replica);
    // The next node refreshes the seat before it detects the loss.
    stage.hand_off("l", "b");
    stage.advance(5 * SECOND);
    let received = stage.received("l");
    assert!(!received.iter().any(|text| text.contains("expired")), "{received:?}");
    assert_eq!(stage.members("r"), ["k", "l"]);
}

#[test]
fn moved_member_gets_the_state_if_the_store_has_an_earlier_one() {
    let mut stage = Stage::new(&["n0", "n1"], 0).with_members(&[("a", "n0"), ("c", "n0"), ("e", "n1")]);
    let earlier = stage.store.clone();
    stage.isolated = Some("n1");
    stage.enter("b", "n0");
    stage.advance(SECOND);
    assert!(stage.received("c")[0].contains(r#""joined":[{"client_id":"b"}]"#));
    stage.hand_off("c", "n1");
    stage.crash("n0");
    // No node can recognise the earlier copy by its incarnation.
    stage.store = earlier;
    stage.advance(PRESENCE);
    let received = stage.received("c");
    let is_earlier = |text: &String| text.contains(r#""count":3"#) && !text.contains(r#"{"client_id":"b"}"#);
    assert!(!received.is_empty() && received.iter().all(is_earlier), "{received:?}");
}

#[test]
fn end_of_a_seat_is_reported_after_a_loss() {
    let mut stage = Stage::new(&["n0"], 2).with_members(&[("a", "n0"), ("b", "n0")]);
    stage.expire_seat("a", "r");
    stage.waits_for_store = Some("n0");
    stage.advance(PRESENCE);
    stage.empty_store();
    // The refreshed seat is over, which the client receives behind its command.
    stage.say("a", r#"{"type":"members","room":"r"}"#);
    stage.release_answers();
    // The store settles, and the next refresh of all seats is not due.
    stage.advance(30 * SECOND);
    let received = stage.received("a");
    assert_eq!(received.last().unwrap(), r#"{"type":"left","room":"r","reason":"expired"}"#);
}
