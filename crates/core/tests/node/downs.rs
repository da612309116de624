//! Messages of a node to a client's edge: bounded by confirms, and without duplicates.

use signaling_wire::DownSeq;
use signaling_wire::trunk::{DeliveryOutcome, ToNode};

use crate::node::{Node, SECOND};

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
