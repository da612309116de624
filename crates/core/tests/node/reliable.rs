//! Reliable clients, whose messages are numbered by their ids.

use signaling_core::node::TrunkKey;
use signaling_wire::trunk::{Attach, DeliveryOutcome, DetachReason, Slot, ToNode};
use signaling_wire::{Credential, DownSeq, RateDebts, Seq};

use crate::node::{HOLD, Node, SECOND, newcomer};

#[test]
fn reliable_clients_messages_are_named_by_id_and_others_by_seq() {
    let named = |(mut node, trunk): (Node, TrunkKey), messages: &[(u64, u64)]| {
        node.attach(trunk, 1, "bob", 0);
        say(&mut node, trunk, 0, messages);
        node.take_output(trunk).messages.into_iter().map(|(_, number, prev)| (number, prev)).collect::<Vec<_>>()
    };
    assert_eq!(named(Node::with_client("alice"), &[(1, 7), (2, 7), (3, 2)]), [(1, 0), (2, 1), (3, 2)]);
    assert_eq!(named(alice_is_here(), &[(1, 41), (2, 42)]), [(41, 0), (42, 41)]);
}

#[test]
fn repeat_before_the_outcome_is_one_message() {
    let (mut node, trunk) = alice_is_here();
    node.attach(trunk, 1, "bob", 0);
    say(&mut node, trunk, 0, &[(1, 1), (2, 2), (3, 1)]);
    let said = node.take_output(trunk);
    assert_eq!(said.downs, [1, 2]);
    assert_eq!(said.outcomes, [(1, DeliveryOutcome::Done)], "its first frame is done with");
    node.send_frame(trunk, &ToNode::Confirm { slot: 1, up_to: DownSeq(2), exceptions: vec![] });
    assert_eq!(node.take_output(trunk).outcomes, [(3, DeliveryOutcome::Done), (2, DeliveryOutcome::Done)]);
}

#[test]
fn repeat_of_a_delivered_signal_is_acknowledged_and_not_sent() {
    let (mut node, trunk) = alice_is_here();
    node.attach(trunk, 1, "bob", 0);
    say(&mut node, trunk, 0, &[(1, 1), (2, 2)]);
    node.send_frame(trunk, &ToNode::Confirm { slot: 1, up_to: DownSeq(1), exceptions: vec![] });
    node.take_output(trunk);
    say(&mut node, trunk, 0, &[(3, 1)]);
    let said = node.take_output(trunk);
    assert_eq!((said.downs, said.outcomes), (vec![], vec![(3, DeliveryOutcome::Done)]));
}

#[test]
fn ack_that_a_crashed_edge_has_lost_is_repeated_after_resume() {
    let (mut node, trunk) = alice_is_here();
    node.attach(trunk, 1, "bob", 0);
    say(&mut node, trunk, 0, &[(1, 1), (2, 2), (3, 3)]);
    node.send_frame(trunk, &ToNode::Confirm { slot: 1, up_to: DownSeq(1), exceptions: vec![] });
    node.core.trunk_down(node.now, trunk);

    // Another edge writes the second message first on bob's next socket.
    let trunk = node.core.trunk_up(node.now);
    node.attach(trunk, 1, "bob", 0);
    node.send_frame(trunk, &ToNode::Confirm { slot: 1, up_to: DownSeq(1), exceptions: vec![] });
    node.send_frame(trunk, &ToNode::Attach(alice(2, 2)));
    let seq = 1 << 60;
    say(&mut node, trunk, 2, &[(seq, 1), (seq + 1, 2), (seq + 2, 3)]);
    let done = DeliveryOutcome::Done;
    let said = node.take_output(trunk);
    assert_eq!(said.outcomes, [(seq, done), (seq + 1, done)], "the third is not delivered yet");
}

#[test]
fn delivered_signals_are_known_after_a_lost_trunk_and_socket() {
    let (mut node, trunk) = alice_is_here();
    node.attach(trunk, 1, "bob", 0);
    say(&mut node, trunk, 0, &[(1, 1)]);
    node.send_frame(trunk, &ToNode::Confirm { slot: 1, up_to: DownSeq(1), exceptions: vec![] });
    node.core.trunk_down(node.now, trunk);

    let trunk = node.core.trunk_up(node.now);
    node.attach(trunk, 1, "bob", 0);
    node.send_frame(trunk, &ToNode::Attach(Attach { state: Some(b"admitted"), ..alice(0, 1) }));
    node.send_frame(trunk, &ToNode::Detach { slot: 0, cause: DetachReason::Lost, debts: RateDebts::default() });
    node.send_frame(trunk, &ToNode::Attach(alice(2, 2)));
    let seq = 1 << 60;
    say(&mut node, trunk, 2, &[(seq, 1)]);
    let said = node.take_output(trunk);
    assert_eq!((said.downs, said.outcomes), (vec![], vec![(seq, DeliveryOutcome::Done)]));
}

#[test]
fn ack_that_a_crashed_edge_has_lost_is_repeated_after_handoff() {
    let (mut node, trunk) = alice_is_here();
    node.attach(trunk, 1, "bob", 0);
    say(&mut node, trunk, 0, &[(1, 1), (2, 2)]);
    node.send_frame(trunk, &ToNode::Confirm { slot: 1, up_to: DownSeq(1), exceptions: vec![] });
    node.send_frame(trunk, &ToNode::Release { slot: 0, to: "next" });
    let (_, state) = node.take_output(trunk).released.remove(0);

    let (mut next, trunk) = Node::with_trunk();
    next.send_frame(trunk, &ToNode::Attach(Attach { attachment: 2, seq: Seq(2), state: Some(&state), ..alice(0, 1) }));
    next.core.trunk_down(next.now, trunk);
    let trunk = next.core.trunk_up(next.now);
    next.send_frame(trunk, &ToNode::Attach(alice(0, 2)));
    let seq = 1 << 60;
    say(&mut next, trunk, 0, &[(seq, 1), (seq + 1, 2)]);
    assert_eq!(next.take_output(trunk).outcomes, [(seq, DeliveryOutcome::Done)], "the second is not delivered yet");
}

#[test]
fn delivered_ids_survive_another_attach_of_the_closed_socket() {
    // The node has had two frames. A third one may be lost with the trunk.
    for sent in [2, 3] {
        let (mut node, trunk) = alice_is_here();
        let trunk_of_bob = node.core.trunk_up(node.now);
        node.attach(trunk_of_bob, 0, "bob", 0);
        say(&mut node, trunk, 0, &[(1, 1), (2, 2)]);
        node.send_frame(trunk_of_bob, &ToNode::Confirm { slot: 0, up_to: DownSeq(1), exceptions: vec![] });
        node.send_frame(trunk, &ToNode::Detach { slot: 0, cause: DetachReason::Lost, debts: RateDebts::default() });
        node.core.trunk_down(node.now, trunk);

        // Her edge waits for the outcomes of the other frames.
        let trunk = node.core.trunk_up(node.now);
        let cause = Some(DetachReason::Lost);
        let closed = Attach { attachment: 2, seq: Seq(sent), state: Some(b"admitted"), cause, ..alice(1, 1) };
        node.send_frame(trunk, &ToNode::Attach(closed));
        node.send_frame(trunk, &ToNode::Attach(alice(2, 2)));
        let seq = 1 << 60;
        say(&mut node, trunk, 2, &[(seq, 1)]);
        assert_eq!(node.take_output(trunk).outcomes, [(seq, DeliveryOutcome::Done)], "{sent} frames");
    }
}

#[test]
fn request_of_a_reliable_client_without_an_id_is_refused() {
    let (mut node, trunk) = alice_is_here();
    let requests = [
        r#"{"type":"signal","to":"bob","data":1}"#,
        r#"{"type":"join","room":"r"}"#,
        r#"{"type":"leave","room":"r"}"#,
        r#"{"type":"broadcast","room":"r","data":1}"#,
    ];
    for (seq, text) in (1..).zip(requests) {
        node.send(trunk, 0, seq, text);
        let batch = node.core.take_trunk_batch(trunk);
        assert!(String::from_utf8_lossy(&batch).contains("bad_message"), "{text}");
    }
    let text = r#"{"type":"ice_servers"}"#;
    node.send(trunk, 0, 5, text);
    assert_eq!(node.take_output(trunk).outcomes, [(5, DeliveryOutcome::Done)], "it has no field `id`");
}

#[test]
fn only_unsent_messages_expire_at_their_deadline() {
    let (mut node, trunk) = alice_is_here();
    say(&mut node, trunk, 0, &[(1, 1)]);
    node.pass(HOLD);
    assert_eq!(node.take_output(trunk).outcomes, [(1, DeliveryOutcome::Unavailable)]);
    say(&mut node, trunk, 0, &[(2, 1)]);
    node.pass(HOLD + 2 * SECOND);
    assert_eq!(node.take_output(trunk).outcomes, [], "a copy of the first may still be delivered");
    node.pass(2 * SECOND);
    assert_eq!(node.take_output(trunk).outcomes, [(2, DeliveryOutcome::Unavailable)]);
}

/// A node with the reliable client `alice` in slot 0.
fn alice_is_here() -> (Node, TrunkKey) {
    let (mut node, trunk) = Node::with_trunk();
    node.send_frame(trunk, &ToNode::Attach(alice(0, 1)));
    (node, trunk)
}

/// A socket of the reliable client `alice`, which resumes her session, if any.
fn alice(slot: Slot, accepted: u8) -> Attach<'static> {
    Attach { reliable: true, credential: Some(Credential([1; 32])), ..newcomer(slot, "alice", accepted) }
}

/// Sends signals of the client in a slot to `bob`, each with its frame number and `id`.
fn say(node: &mut Node, trunk: TrunkKey, slot: Slot, messages: &[(u64, u64)]) {
    for (seq, id) in messages {
        let text = format!(r#"{{"type":"signal","to":"bob","data":1,"id":{id}}}"#);
        node.send(trunk, slot, *seq, &text);
    }
}
