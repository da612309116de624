//! Broadcasts of dialects' clients above the budget: delayed and never refused.

use signaling_wire::trunk::DetachReason;

use crate::stage::{SECOND, Stage, broadcast_rate};

const SENDER: &str = "~yw:a";
const TOPIC: &str = "~yw.q:t";
const OTHER_TOPIC: &str = "~yw.q:u";

/// A topic of three clients. The sender's budget is two broadcasts, and one more each second.
fn stage() -> Stage {
    let mut stage = Stage::with(&["n0", "n1"], 0, broadcast_rate(2, 4));
    stage.ends_with_socket = true;
    let clients = [(SENDER, "n0"), ("~yw:b", "n0"), ("~yw:c", "n1")];
    stage.attach_all(&clients);
    clients.into_iter().for_each(|(client, _)| drop(stage.join(client, TOPIC)));
    stage.join("~yw:b", OTHER_TOPIC);
    stage
}

fn text(topic: &str, id: u64) -> String {
    format!(r#"{{"type":"broadcast","room":"{topic}","data":{id},"id":{id},"ttl_ms":0}}"#)
}

fn heard(topic: &str, id: u64) -> String {
    format!(r#"{{"type":"broadcast","room":"{topic}","from":"{SENDER}","data":{id},"id":{id}}}"#)
}

fn ack(id: u64, delivered: u64) -> String {
    format!(r#"{{"type":"ack","id":{id},"delivered":{delivered}}}"#)
}

#[test]
fn broadcast_over_budget_is_sent_when_the_budget_allows_it() {
    let mut stage = stage();
    (1..=6).for_each(|id| stage.say(SENDER, &text(TOPIC, id)));
    let first = [1, 2].map(|id| heard(TOPIC, id));
    assert_eq!((stage.received("~yw:b"), stage.received("~yw:c")), (first.to_vec(), first.to_vec()));
    assert_eq!(stage.received(SENDER), [1, 2].map(|id| ack(id, 2)));
    for id in 3..=6 {
        stage.advance(SECOND * 11 / 10);
        let next = vec![heard(TOPIC, id)];
        assert_eq!((stage.received("~yw:b"), stage.received("~yw:c")), (next.clone(), next), "{id}");
        assert_eq!(stage.received(SENDER), [ack(id, 2)]);
    }
}

#[test]
fn later_commands_wait_behind_a_delayed_broadcast() {
    let mut stage = stage();
    (1..=3).for_each(|id| stage.say(SENDER, &text(TOPIC, id)));
    stage.say(SENDER, &text(OTHER_TOPIC, 4));
    stage.say(SENDER, r#"{"type":"leave","room":"~yw.q:t","id":5}"#);
    stage.received(SENDER);
    assert_eq!(stage.received("~yw:b").len(), 2);
    stage.advance(SECOND / 2);
    assert_eq!((stage.received("~yw:b").len(), stage.members(TOPIC).len()), (0, 3));
    stage.advance(2 * SECOND);
    assert_eq!(stage.received("~yw:b"), [heard(TOPIC, 3), heard(OTHER_TOPIC, 4)]);
    let answers = stage.received(SENDER);
    assert!(answers.contains(&ack(4, 1)) && answers.contains(&r#"{"type":"ack","id":5}"#.to_owned()), "{answers:?}");
    assert_eq!(stage.members(TOPIC).len(), 2);
}

#[test]
fn delayed_broadcasts_are_delayed_at_the_next_node_too() {
    let mut stage = stage();
    (1..=5).for_each(|id| stage.say(SENDER, &text(TOPIC, id)));
    stage.received("~yw:c");
    stage.hand_off(SENDER, "n1");
    let texts = [3, 4, 5].map(|id| text(TOPIC, id));
    stage.retransmit(SENDER, &texts.each_ref().map(String::as_str));
    stage.settle();
    assert_eq!(stage.received("~yw:c"), [3, 4].map(|id| heard(TOPIC, id)));
    stage.advance(SECOND * 11 / 10);
    assert_eq!(stage.received("~yw:c"), [heard(TOPIC, 5)]);
    assert!(stage.received(SENDER).iter().all(|text| text.contains("\"ack\"")));
}

#[test]
fn delayed_broadcasts_do_not_outlive_their_sender() {
    let mut stage = stage();
    (1..=20).for_each(|id| stage.say(SENDER, &text(TOPIC, id)));
    stage.detach(SENDER, DetachReason::Lost);
    stage.advance(2 * SECOND);
    assert_eq!(stage.members(TOPIC), ["~yw:b", "~yw:c"]);
    assert!(stage.received("~yw:b").len() < 5);
}
