//! The store is unavailable or has lost its data.

use signaling_rooms::Op;

use crate::stage::{PRESENCE, SECOND, Stage};

#[test]
fn while_the_store_is_away_joins_are_refused_and_members_stay() {
    let mut stage = Stage::new(&["n0"], 0);
    ["a", "b"].into_iter().for_each(|name| stage.comes(name, "n0"));
    stage.joins("a", "r");
    stage.store_is_away = true;
    let refused = stage.joins("b", "r");
    assert!(refused[0].contains("room_store_unavailable") && refused[0].contains(r#""retry_after_ms":1000"#));
    stage.says("b", r#"{"type":"signal","to":"a","data":1}"#);
    stage.passes(SECOND);
    assert!(stage.heard("a").iter().any(|text| text.contains("signal")), "signals flow on");
    stage.passes(PRESENCE);
    stage.store_is_away = false;
    stage.passes(PRESENCE);
    assert_eq!(stage.members("r"), ["a"]);
    assert_eq!(stage.heard("a"), [""; 0]);
}

#[test]
fn a_store_that_lost_everything_gets_it_back_with_the_order_of_the_line() {
    let mut stage = Stage::new(&["n0", "n1"], 2);
    for (name, node) in [("a", "n0"), ("b", "n1"), ("c", "n1"), ("d", "n0"), ("e", "n1")] {
        stage.comes(name, node);
        stage.joins(name, "r");
    }
    stage.passes(2 * SECOND);
    ["a", "b", "c", "d", "e"].into_iter().for_each(|name| drop(stage.heard(name)));
    stage.store_is_emptied();
    stage.passes(PRESENCE + SECOND);
    assert_eq!(stage.members("r"), ["a", "b"]);
    for name in ["c", "d", "e"] {
        assert_eq!(stage.heard(name), [""; 0], "{name} is told nothing: nothing has changed");
    }
    for name in ["a", "b"] {
        let heard = stage.heard(name);
        let both = r#""members":[{"client_id":"a"},{"client_id":"b"}]"#;
        assert!(
            heard.len() <= 1 && heard.iter().all(|text| text.contains(both)),
            "{name} at most sees both: {heard:?}"
        );
    }
    stage.leaves("b", "r");
    stage.passes(2 * PRESENCE);
    assert_eq!(stage.members("r"), ["a", "c"]);
    let waiting = |ahead| format!(r#"{{"type":"waiting","room":"r","ahead":{ahead},"queue_length":2}}"#);
    assert_eq!(stage.heard("d").last(), Some(&waiting(0)));
    assert_eq!(stage.heard("e").last(), Some(&waiting(1)));
}

#[test]
fn a_round_of_refreshes_that_the_store_has_not_carried_out_is_not_followed_by_another() {
    let mut stage = Stage::new(&["n0"], 0);
    stage.comes("a", "n0");
    stage.joins("a", "r");
    stage.operations.clear();
    stage.passes(4 * PRESENCE);
    let refreshes =
        stage.operations.iter().filter(|op| matches!(op, Op::Refresh { seats } if !seats.is_empty())).count();
    assert!((4..=5).contains(&refreshes), "{refreshes}");
}

const BROADCAST: &str = r#"{"type":"broadcast","room":"r","data":1,"id":3}"#;
const HEARD: &str = r#"{"type":"broadcast","room":"r","from":"a","data":1,"id":3}"#;

/// Three members at two nodes. Each has received the other members.
fn room_of_three() -> Stage {
    let mut stage = Stage::new(&["n0", "n1"], 4);
    for (name, node) in [("a", "n0"), ("b", "n1"), ("c", "n1")] {
        stage.comes(name, node);
        stage.joins(name, "r");
    }
    stage.passes(2 * SECOND);
    ["a", "b", "c"].into_iter().for_each(|name| drop(stage.heard(name)));
    stage.operations.clear();
    stage
}

fn lists(stage: &Stage) -> usize {
    stage.operations.iter().filter(|op| matches!(op, Op::List { .. })).count()
}

#[test]
fn room_stays_exact_when_a_failover_loses_writes() {
    let mut stage = Stage::new(&["n0", "n1"], 2);
    [("a", "n0"), ("b", "n1"), ("c", "n0")].into_iter().for_each(|(name, node)| stage.comes(name, node));
    stage.joins("a", "r");
    let replica = stage.copy_of_store();
    stage.joins("b", "r");
    stage.passes(2 * SECOND);
    ["a", "b"].into_iter().for_each(|name| drop(stage.heard(name)));
    stage.operations.clear();

    stage.store_fails_over_to(replica);
    let waits = stage.joins("c", "r");
    assert!(waits[0].contains(r#""type":"waiting""#), "the lost member's seat is not given away: {waits:?}");
    stage.passes(5 * SECOND);
    assert_eq!(stage.members("r"), ["a", "b"]);
    assert!(lists(&stage) <= 4, "{} times the whole state", lists(&stage));
    stage.passes(30 * SECOND);
    assert!(lists(&stage) <= 4, "{} times the whole state", lists(&stage));
    drop(stage.heard("a"));
    stage.leaves("b", "r");
    stage.passes(2 * SECOND);
    assert_eq!(stage.members("r"), ["a", "c"]);
    let heard = stage.heard("a").concat();
    assert!(heard.contains(r#""joined":[{"client_id":"c"}]"#) && heard.contains(r#""client_id":"b""#), "{heard}");
}

#[test]
fn clients_hear_of_a_newcomer_whose_version_is_reused() {
    let mut stage = room_of_three();
    let replica = stage.copy_of_store();
    stage.leaves("c", "r");
    stage.passes(SECOND);
    drop(stage.heard("a"));
    stage.store_fails_over_to(replica);
    stage.comes("d", "n1");
    stage.joins("d", "r");
    stage.passes(60 * SECOND);
    let heard = stage.heard("a").concat();
    assert!(heard.contains(r#""client_id":"d""#), "{heard}");
    assert!(lists(&stage) < 12, "{} times the whole state", lists(&stage));
}

#[test]
fn failover_that_loses_nothing_is_no_news_to_clients() {
    let mut stage = room_of_three();
    stage.store_fails_over_to(stage.copy_of_store());
    stage.says("a", BROADCAST);
    stage.passes(SECOND);
    assert!(stage.heard("a").contains(&r#"{"type":"ack","id":3,"delivered":2}"#.to_owned()));
    stage.passes(40 * SECOND);
    // One question is the sender's, and each node asks once.
    assert!(lists(&stage) <= 3, "{} times the whole state", lists(&stage));
    for name in ["a", "b", "c"] {
        let heard = stage.heard(name);
        assert!(heard.iter().all(|text| !text.contains("members_changed")), "{name}: {heard:?}");
    }
}

#[test]
fn broadcast_waits_until_an_emptied_store_is_refilled() {
    let mut stage = room_of_three();
    stage.store_is_emptied();
    stage.says("a", BROADCAST);
    stage.says("a", r#"{"type":"members","room":"r"}"#);
    stage.settle();
    assert!(stage.heard("a").iter().all(|text| !text.contains("ack")), "not before all are back");
    stage.passes(3 * SECOND);
    let heard = stage.heard("a");
    assert!(heard.contains(&r#"{"type":"ack","id":3,"delivered":2}"#.to_owned()), "{heard:?}");
    let whole = |text: &String| text.contains("joined") && text.contains(r#""count":3"#);
    assert!(heard.iter().any(whole), "{heard:?}");
    for name in ["b", "c"] {
        assert!(stage.heard(name).contains(&HEARD.to_owned()), "{name}");
    }
}

#[test]
fn broadcast_is_refused_while_an_emptied_store_lacks_members() {
    let mut stage = room_of_three();
    stage.dies("n1");
    stage.store_is_emptied();
    stage.says("a", BROADCAST);
    stage.passes(3 * SECOND);
    let heard = stage.heard("a").concat();
    assert!(heard.contains("room_store_unavailable") && heard.contains(r#""retry_after_ms":1000"#), "{heard}");
    stage.passes(30 * SECOND);
    stage.says("a", BROADCAST);
    stage.settle();
    let heard = stage.heard("a").concat();
    assert!(heard.contains(r#"{"type":"ack","id":3,"delivered":0}"#), "whoever is not back by now is gone: {heard}");
}

#[test]
fn nodes_refill_an_emptied_store_as_soon_as_it_answers() {
    let mut stage = room_of_three();
    stage.store_is_away = true;
    stage.passes(6 * SECOND);
    stage.store_is_emptied();
    stage.store_is_away = false;
    stage.passes(2 * SECOND);
    assert_eq!(stage.members("r"), ["a", "b", "c"]);
    stage.store_is_emptied();
    stage.passes(2 * SECOND);
    assert_eq!(stage.members("r"), ["a", "b", "c"], "nobody was refused anything, and yet it was noticed");
}

#[test]
fn member_that_joins_again_behind_a_failover_stays_a_member() {
    let mut stage = Stage::new(&["n0", "n1"], 2);
    [("a", "n0"), ("b", "n1")].into_iter().for_each(|(name, node)| stage.comes(name, node));
    stage.joins("a", "r");
    let replica = stage.copy_of_store();
    stage.joins("b", "r");
    stage.passes(2 * SECOND);
    drop(stage.heard("b"));
    stage.store_fails_over_to(replica);
    stage.joins("b", "r");
    stage.passes(2 * SECOND);
    let heard = stage.heard("b").concat();
    assert!(heard.contains(r#""type":"ack""#) && !heard.contains("waiting"), "{heard}");
    assert_eq!(stage.members("r"), ["a", "b"]);
}

#[test]
fn broadcast_waits_for_who_joined_between_two_losses() {
    let mut stage = Stage::new(&["n0", "n1"], 0);
    [("a", "n0"), ("b", "n1"), ("c", "n1")].into_iter().for_each(|(name, node)| stage.comes(name, node));
    ["a", "b"].into_iter().for_each(|name| drop(stage.joins(name, "r")));
    stage.passes(2 * SECOND);
    stage.store_is_emptied();
    stage.passes(SECOND);
    assert_eq!(stage.members("r"), ["a", "b"], "n0 asked before b was back, and asks again in 2 s");
    let replica = stage.copy_of_store();
    stage.joins("c", "r");
    drop(stage.heard("a"));
    stage.store_fails_over_to(replica);
    stage.says("a", BROADCAST);
    stage.passes(2 * SECOND);
    let heard = stage.heard("a");
    assert!(heard.contains(&r#"{"type":"ack","id":3,"delivered":2}"#.to_owned()), "{heard:?}");
    assert!(stage.heard("c").contains(&HEARD.to_owned()));
}

const DELIVERED_TO_NOBODY: &str = r#"{"type":"ack","id":3,"delivered":0}"#;

#[test]
fn member_that_joins_again_behind_an_emptied_store_sees_all_members() {
    for leaves in [false, true] {
        let mut stage = Stage::new(&["n0", "n1"], 4);
        for (name, node) in [("a", "n0"), ("b", "n1")] {
            stage.comes(name, node);
            stage.joins(name, "r");
        }
        stage.passes(2 * SECOND);
        stage.store_is_emptied();
        if leaves {
            stage.leaves("b", "r");
        }
        stage.joins("b", "r");
        stage.says("b", BROADCAST);
        stage.passes(4 * SECOND);
        let heard = stage.heard("b");
        assert!(!heard.contains(&DELIVERED_TO_NOBODY.to_owned()), "{heard:?}");
        assert_eq!(stage.members("r").len(), 2);
    }
}

#[test]
fn newcomer_waits_until_an_emptied_store_has_all_members_again() {
    let mut stage = Stage::new(&["n0", "n1"], 1);
    [("a", "n0"), ("b", "n1")].into_iter().for_each(|(name, node)| stage.comes(name, node));
    stage.joins("a", "r");
    stage.passes(2 * SECOND);
    stage.store_is_emptied();
    let waits = stage.joins("b", "r");
    assert!(waits[0].contains(r#""type":"waiting""#), "the member's seat is not given away: {waits:?}");
    stage.passes(40 * SECOND);
    assert_eq!(stage.members("r"), ["a"]);
}

#[test]
fn new_room_of_a_replaced_store_refuses_broadcasts_for_5_s() {
    let mut stage = Stage::new(&["n0"], 0);
    ["a", "b"].into_iter().for_each(|name| stage.comes(name, "n0"));
    stage.store_is_emptied();
    ["a", "b"].into_iter().for_each(|name| drop(stage.joins(name, "r")));
    stage.says("a", BROADCAST);
    stage.passes(3 * SECOND);
    let heard = stage.heard("a").concat();
    assert!(heard.contains("room_store_unavailable") && !heard.contains("delivered"), "{heard}");
    stage.passes(3 * SECOND);
    stage.says("a", BROADCAST);
    stage.settle();
    let heard = stage.heard("a");
    assert!(heard.contains(&r#"{"type":"ack","id":3,"delivered":1}"#.to_owned()), "{heard:?}");
}
