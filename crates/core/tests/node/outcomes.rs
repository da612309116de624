//! Messages on their way to a client's edge: bounded by confirms, without duplicates, and each with
//! an outcome for its sender in time.

use std::time::Duration;

use signaling_wire::DownSeq;
use signaling_wire::trunk::{DeliveryOutcome, ToNode};

use crate::node::{HOLD, Node, SECOND};

#[test]
fn messages_expired_together_get_an_outcome_each_at_once() {
    let (mut node, trunk) = Node::with_client("anna");
    (1..=3).for_each(|seq| node.up(trunk, 0, seq, "nobody", 0));
    // For messages that were at another node, only the clock would end custody.
    node.send_frame(trunk, &ToNode::Release { slot: 0, to: "a" });
    node.attach(trunk, 1, "anna", 3);
    (1..=3).for_each(|seq| node.up(trunk, 1, seq, "nobody", 0));
    node.take_output(trunk);
    node.pass(HOLD + 3 * SECOND + Duration::from_millis(100));
    assert_eq!(node.take_output(trunk).outcomes, [1, 2, 3].map(|seq| (seq, DeliveryOutcome::Unavailable)));
}

#[test]
fn only_unsent_messages_are_unavailable_at_once() {
    let (mut node, trunk) = Node::with_trunk();
    node.attach(trunk, 0, "anna", 70);
    (1..=72).for_each(|seq| node.up(trunk, 0, seq, "nobody", 0));
    assert_eq!(node.take_output(trunk).outcomes, [71, 72].map(|seq| (seq, DeliveryOutcome::Unavailable)));
}

#[test]
fn message_without_hold_is_delivered_or_answered_at_once() {
    let (mut node, trunk) = Node::with_client("alice");
    node.attach(trunk, 1, "bob", 0);
    node.take_output(trunk);
    let no_wait = |to| format!(r#"{{"type":"signal","to":"{to}","data":1,"id":1,"ttl_ms":0}}"#);
    for (seq, to) in [(1, "bob"), (2, "nobody")] {
        let text = no_wait(to);
        node.send(trunk, 0, seq, &text);
    }
    let said = node.take_output(trunk);
    assert_eq!((said.downs, said.outcomes), (vec![1], vec![(2, DeliveryOutcome::Unavailable)]));
    node.send_frame(trunk, &ToNode::Confirm { slot: 1, up_to: DownSeq(1), exceptions: vec![] });
    assert_eq!(node.take_output(trunk).outcomes, [(1, DeliveryOutcome::Done)]);
}

#[test]
fn possibly_written_message_without_hold_is_not_unavailable() {
    let mut node = Node::new("a");
    let (senders, recipients) = (node.core.trunk_up(node.now), node.core.trunk_up(node.now));
    node.attach(senders, 0, "alice", 0);
    node.attach(recipients, 0, "bob", 0);
    let text = r#"{"type":"signal","to":"bob","data":1,"id":1,"ttl_ms":0}"#;
    node.send(senders, 0, 1, text);
    node.core.trunk_down(node.now, recipients);
    assert_eq!(node.take_output(senders).outcomes, [], "its edge may have written it");
}

#[test]
fn held_messages_arrive_as_fast_as_the_client_reads() {
    let (mut node, trunk) = Node::with_client("anna");
    (1..=40).for_each(|seq| node.up(trunk, 0, seq, "bob", 10_000));
    node.attach(trunk, 1, "bob", 0);
    let mut outcomes = 0;
    loop {
        let said = node.take_output(trunk);
        outcomes += said.outcomes.len();
        assert!(said.down_bytes < 200 * 1024, "{} bytes at once", said.down_bytes);
        let Some(up_to) = said.downs.into_iter().max() else { break };
        node.send_frame(trunk, &ToNode::Confirm { slot: 1, up_to: DownSeq(up_to), exceptions: vec![] });
    }
    assert_eq!(outcomes, 40);
    assert_eq!(node.core.held_bytes(), 0);
}

#[test]
fn duplicate_of_an_unconfirmed_message_is_not_sent_down() {
    let (mut node, trunk) = Node::with_client("anna");
    node.attach(trunk, 1, "bob", 0);
    node.up(trunk, 0, 1, "bob", 0);
    assert_eq!(node.take_output(trunk).downs, [1]);
    node.pass(5 * SECOND);
    assert!(node.take_output(trunk).downs.is_empty());
    node.send_frame(trunk, &ToNode::Confirm { slot: 1, up_to: DownSeq(1), exceptions: vec![] });
    assert_eq!(node.take_output(trunk).outcomes, [(1, DeliveryOutcome::Done)]);
}
