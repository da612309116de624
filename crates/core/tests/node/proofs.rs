//! Newcomers with a right to an id, which must prove that they live before they take it from an
//! open socket: their request may be older than that.

use std::time::Duration;

use serde_json::Value;
use signaling_core::node::TrunkKey;
use signaling_wire::trunk::{Attach, DetachReason, Request, Slot, ToNode};
use signaling_wire::{Credential, RateDebts};

use crate::node::{Node, Output, SECOND, client_of, newcomer};

/// Attaches a client in this slot, which takes the id over by its credential.
fn attach(node: &mut Node, trunk: TrunkKey, slot: Slot, live: bool) -> Output {
    let credential = Some(Credential([1; 32]));
    let attach = Attach { credential, live, ..newcomer(slot, "anna", slot as u8 + 1) };
    node.send_frame(trunk, &ToNode::Attach(attach));
    node.take_output(trunk)
}

/// Returns a node with a client in slot 0, and a newcomer in slot 1 that has to answer.
fn contended() -> (Node, TrunkKey) {
    let (mut node, trunk) = Node::with_trunk();
    attach(&mut node, trunk, 0, false);
    let said = attach(&mut node, trunk, 1, false);
    assert_eq!((said.proves, said.attached, said.closed), (vec![1], vec![], vec![]));
    (node, trunk)
}

fn proved(slot: Slot) -> ToNode<'static> {
    ToNode::Proved { slot, client_id: "anna" }
}

fn end(node: &mut Node, trunk: TrunkKey, slot: Slot) -> Output {
    node.send_frame(trunk, &ToNode::Detach { slot, cause: DetachReason::Lost, debts: RateDebts::default() });
    node.take_output(trunk)
}

#[test]
fn newcomer_that_answers_resumes_the_holders_session() {
    let (mut node, trunk) = contended();
    node.send_frame(trunk, &proved(1));
    let said = node.take_output(trunk);
    assert_eq!((said.sessions, said.closed), (vec![(newcomer(0, "anna", 1).session, true)], vec![(0, 4410)]));
}

#[test]
fn newcomer_without_an_answer_leaves_the_id_to_its_holder() {
    let (mut node, trunk) = contended();
    assert_eq!(end(&mut node, trunk, 1).closed, []);
    node.pass(5 * SECOND);
    let said = node.take_output(trunk);
    assert_eq!((node.core.sessions(), said.closed, said.rejected), (1, vec![], vec![]));

    let (mut node, trunk) = contended();
    node.pass(5 * SECOND);
    let said = node.take_output(trunk);
    assert_eq!((said.closed, said.rejected), (vec![], vec![(1, 503)]), "its edge said nothing");
}

#[test]
fn further_newcomer_replaces_the_one_that_has_to_answer() {
    let (mut node, trunk) = contended();
    let said = attach(&mut node, trunk, 2, false);
    assert_eq!((said.proves, said.rejected), (vec![2], vec![(1, 503)]), "it may be the one that lives");
    node.send_frame(trunk, &proved(1));
    assert_eq!(node.take_output(trunk).attached, [0_u32; 0]);
    node.send_frame(trunk, &proved(2));
    assert_eq!(node.take_output(trunk).attached, [2]);
}

#[test]
fn newcomer_has_to_prove_nothing_when_the_old_socket_is_gone() {
    let (mut node, trunk) = contended();
    assert_eq!(end(&mut node, trunk, 0).attached, [1], "it ends during the wait");
    end(&mut node, trunk, 1);
    let said = attach(&mut node, trunk, 2, false);
    assert_eq!((said.proves, said.attached), (vec![], vec![2]));
}

#[test]
fn newcomer_waits_on_when_the_edge_of_the_holder_is_lost() {
    let (mut node, lost) = Node::with_trunk();
    let trunk = node.core.trunk_up(node.now);
    attach(&mut node, lost, 0, false);
    attach(&mut node, trunk, 1, false);
    node.core.trunk_down(node.now, lost);
    assert_eq!(node.take_output(trunk).attached, [0_u32; 0]);
    node.send_frame(trunk, &proved(1));
    assert_eq!(node.take_output(trunk).sessions, [(newcomer(0, "anna", 1).session, true)]);
}

#[test]
fn newcomer_that_has_answered_before_need_not_again() {
    let (mut node, trunk) = Node::with_trunk();
    attach(&mut node, trunk, 0, false);
    let said = attach(&mut node, trunk, 1, true);
    assert_eq!((said.proves, said.attached, said.closed), (vec![], vec![1], vec![(0, 4410)]));
}

#[test]
fn newcomer_goes_on_when_the_holder_is_handed_off() {
    let (mut node, trunk) = contended();
    node.set_view(&["a", "b"]);
    node.send_frame(trunk, &ToNode::Release { slot: 0, to: "b" });
    let mut released = node.take_output(trunk).released;
    released.sort_unstable();
    assert_eq!((released.len(), &released[1]), (2, &(1, vec![])));
    assert_eq!(node.core.sessions(), 0);
}

#[test]
fn session_of_another_node_is_requested_once_its_client_answers() {
    let [(mut node, trunk), (mut other, edge)] = Node::two();
    let anna = client_of("a", &["a", "b"]);
    other.send_frame(edge, &ToNode::Attach(newcomer(0, &anna, 1)));
    let greeting: Value = serde_json::from_str(&other.take_output(edge).greeting).unwrap();
    let request = Request { resume: greeting["resume"].as_str(), ..Request::default() };
    node.now += Duration::from_millis(1);
    node.send_frame(trunk, &ToNode::Attach(Attach { request, ..newcomer(1, &anna, 2) }));
    assert_eq!(node.take_output(trunk).proves, [1]);
    node.sends_to(&mut other);
    assert_eq!(other.take_output(edge).closed, [], "it is not asked for yet");
    node.send_frame(trunk, &ToNode::Proved { slot: 1, client_id: &anna });
    node.send_frame(trunk, &ToNode::Attach(Attach { request, ..newcomer(2, &anna, 3) }));
    assert_eq!(node.take_output(trunk).rejected, [(2, 503)], "the first one has answered");
    node.sends_to(&mut other);
    assert_eq!(other.take_output(edge).closed, [(0, 4410)]);
    other.sends_to(&mut node);
    assert_eq!(node.take_output(trunk).sessions, [(newcomer(0, &anna, 1).session, true)]);
}
