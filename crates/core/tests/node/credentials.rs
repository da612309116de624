//! Clients with a credential, which take their ids over and resume without a resume token, and
//! clients with a token that names their id.

use signaling_core::node::{Rules, TrunkKey};
use signaling_wire::grant::Grant;
use signaling_wire::trunk::{Attach, DeliveryOutcome, DetachReason, Slot, ToNode};
use signaling_wire::{Credential, RateDebts};

use crate::node::{Node, Output, SECOND, client_of, newcomer};

const OWN: Credential = Credential([1; 32]);
const OTHER: Credential = Credential([2; 32]);
/// Outcomes of a sender's first two messages to a client that has gone.
const UNAVAILABLE: [(u64, DeliveryOutcome); 2] = [(1, DeliveryOutcome::Unavailable), (2, DeliveryOutcome::Unavailable)];

fn attach(node: &mut Node, trunk: TrunkKey, attach: Attach<'_>, credential: Credential) {
    node.send_frame(trunk, &ToNode::Attach(Attach { credential: Some(credential), ..attach }));
}

fn lose_socket(node: &mut Node, trunk: TrunkKey, slot: Slot) {
    node.send_frame(trunk, &ToNode::Detach { slot, cause: DetachReason::Lost, debts: RateDebts::default() });
}

/// Attaches a holder and then newcomers, all with a credential or none, while the holder answers.
fn compete(holder: Attach<'_>, newcomers: &[Option<Credential>]) -> Output {
    let (mut node, trunk) = Node::with_trunk();
    node.send_frame(trunk, &ToNode::Attach(holder));
    for (slot, credential) in (1..).zip(newcomers) {
        let newcomer = newcomer(slot, "anna", slot as u8 + 1);
        node.send_frame(trunk, &ToNode::Attach(Attach { credential: *credential, ..newcomer }));
        // The answers of both clients.
        node.send_frame(trunk, &ToNode::Alive { slot: 0 });
        node.send_frame(trunk, &ToNode::Proved { slot, client_id: "anna" });
    }
    assert_eq!(node.core.sessions(), 1);
    node.take_output(trunk)
}

/// Asserts that each newcomer was refused.
fn assert_refused(Output { attached, closed, rejected, .. }: Output, newcomers: &[Slot]) {
    let refusals = newcomers.iter().map(|slot| (*slot, 409)).collect();
    assert_eq!((attached, closed, rejected), (vec![0], vec![], refusals));
}

#[test]
fn equal_credential_takes_a_live_session_at_once() {
    // The holder is a newcomer, or comes from another node.
    for state in [None, Some(&b"admitted"[..])] {
        let holder = Attach { credential: Some(OWN), state, ..newcomer(0, "anna", 1) };
        let said = compete(holder, &[Some(OWN)]);
        assert_eq!((said.attached, said.closed, said.rejected), (vec![0, 1], vec![(0, 4410)], vec![]));
    }
}

#[test]
fn other_or_no_credential_is_refused_while_the_holder_answers() {
    let holder = newcomer(0, "anna", 1);
    let owned = Attach { credential: Some(OWN), ..holder };
    assert_refused(compete(owned, &[Some(OTHER), None]), &[1, 2]);
    assert_refused(compete(holder, &[None]), &[1]);
}

#[test]
fn equal_credential_resumes_a_lingering_session() {
    let (mut node, trunk) = Node::with_client("bob");
    attach(&mut node, trunk, newcomer(1, "anna", 1), OWN);
    lose_socket(&mut node, trunk, 1);
    node.up(trunk, 0, 1, "anna", 0);
    node.take_output(trunk);
    let (former, later) = (newcomer(1, "anna", 1), newcomer(2, "anna", 2));
    attach(&mut node, trunk, later, OWN);
    let said = node.take_output(trunk);
    assert_eq!((said.sessions, said.downs.len()), (vec![(former.session, true)], 1));
}

#[test]
fn resumed_session_keeps_the_rates_that_it_has_used() {
    let (mut node, trunk) = Node::with_trunk();
    attach(&mut node, trunk, newcomer(0, "anna", 1), OWN);
    let debts = RateDebts { messages: 5_000, bytes: 900, controls: 0 };
    node.send_frame(trunk, &ToNode::Detach { slot: 0, cause: DetachReason::Lost, debts });
    node.take_output(trunk);
    node.now += SECOND;
    attach(&mut node, trunk, newcomer(1, "anna", 2), OWN);
    assert_eq!(node.take_output(trunk).debts, [RateDebts { messages: 4_000, bytes: 0, controls: 0 }]);
}

#[test]
fn lingering_id_is_refused_to_another_credential() {
    let (mut node, trunk) = Node::with_client("bob");
    attach(&mut node, trunk, newcomer(1, "anna", 1), OWN);
    lose_socket(&mut node, trunk, 1);
    node.up(trunk, 0, 1, "anna", 0);
    attach(&mut node, trunk, newcomer(2, "anna", 2), OTHER);
    node.send_frame(trunk, &ToNode::Attach(newcomer(3, "anna", 3)));
    let said = node.take_output(trunk);
    assert_eq!((said.rejected, said.downs.len()), (vec![(2, 409), (3, 409)], 0));
    attach(&mut node, trunk, newcomer(4, "anna", 4), OWN);
    assert_eq!(node.take_output(trunk).downs.len(), 1, "it is still its own");
    lose_socket(&mut node, trunk, 4);
    node.pass(31 * SECOND);
    attach(&mut node, trunk, newcomer(5, "anna", 5), OTHER);
    assert_eq!(node.take_output(trunk).attached, [5], "the session has ended");
}

#[test]
fn silent_holder_with_a_credential_keeps_its_id() {
    let (mut node, trunk) = Node::with_trunk();
    attach(&mut node, trunk, newcomer(0, "anna", 1), OWN);
    attach(&mut node, trunk, newcomer(1, "anna", 2), OTHER);
    node.pass(3 * SECOND);
    let said = node.take_output(trunk);
    assert_eq!((said.attached, said.closed, said.rejected), (vec![0], vec![(0, 4004)], vec![(1, 409)]));
    lose_socket(&mut node, trunk, 0);
    attach(&mut node, trunk, newcomer(2, "anna", 3), OTHER);
    assert_eq!(node.take_output(trunk).rejected, [(2, 409)]);
}

#[test]
fn waiting_newcomer_is_refused_when_the_holder_lingers() {
    let (mut node, trunk) = Node::with_trunk();
    attach(&mut node, trunk, newcomer(0, "anna", 1), OWN);
    attach(&mut node, trunk, newcomer(1, "anna", 2), OTHER);
    lose_socket(&mut node, trunk, 0);
    let said = node.take_output(trunk);
    assert_eq!((said.attached, said.rejected), (vec![0], vec![(1, 409)]));
}

#[test]
fn message_of_an_ended_session_waits_for_its_credential() {
    for (credential, downs, outcomes) in [(OWN, vec![1], vec![]), (OTHER, vec![], UNAVAILABLE.to_vec())] {
        // The second message waits for the confirm of the first.
        let mut node = Node::with_rules("a", Rules { max_unconfirmed: 1, ..Rules::default() });
        let trunk = node.core.trunk_up(node.now);
        node.attach(trunk, 0, "bob", 0);
        attach(&mut node, trunk, newcomer(1, "anna", 1), OWN);
        (1..=2).for_each(|seq| node.up(trunk, 0, seq, "anna", 0));
        node.send_frame(trunk, &ToNode::Detach { slot: 1, cause: DetachReason::Left, debts: RateDebts::default() });
        node.take_output(trunk);
        attach(&mut node, trunk, newcomer(2, "anna", 2), credential);
        let said = node.take_output(trunk);
        assert_eq!((said.attached, said.downs, said.outcomes), (vec![2], downs, outcomes));
    }
}

#[test]
fn message_of_a_replaced_session_stays_with_its_credential() {
    let (mut node, trunk) = Node::with_client("bob");
    attach_with_token(&mut node, trunk, Attach { credential: Some(OWN), ..newcomer(1, "anna", 1) });
    (1..=2).for_each(|seq| node.up(trunk, 0, seq, "anna", 0));
    attach_with_token(&mut node, trunk, Attach { credential: Some(OTHER), ..newcomer(2, "anna", 2) });
    node.send_frame(trunk, &ToNode::Proved { slot: 2, client_id: "anna" });
    node.take_output(trunk);
    node.send_frame(trunk, &ToNode::Detach { slot: 1, cause: DetachReason::Closed, debts: RateDebts::default() });
    let said = node.take_output(trunk);
    assert_eq!((said.downs, said.outcomes), (vec![], UNAVAILABLE.to_vec()));
}

#[test]
fn credential_moves_with_a_lingering_session_to_its_owner() {
    let [(mut node, trunk), (mut owner, other)] = Node::two();
    let anna = client_of("b", &["a", "b"]);
    let former = newcomer(0, &anna, 1);
    attach(&mut node, trunk, former, OWN);
    node.core.trunk_down(node.now, trunk);
    node.sends_to(&mut owner);
    attach(&mut owner, other, newcomer(0, &anna, 2), OWN);
    assert_eq!(owner.take_output(other).sessions, [(former.session, true)]);
}

#[test]
fn credential_stays_when_the_socket_closed_between_two_nodes() {
    let (mut node, trunk) = Node::with_trunk();
    let former = newcomer(0, "anna", 1);
    let closed = Attach { state: Some(b"admitted"), cause: Some(DetachReason::Lost), ..former };
    attach(&mut node, trunk, closed, OWN);
    lose_socket(&mut node, trunk, 0);
    node.take_output(trunk);
    attach(&mut node, trunk, newcomer(1, "anna", 2), OWN);
    assert_eq!(node.take_output(trunk).sessions, [(former.session, true)]);
}

#[test]
fn resumed_session_repeats_no_number_when_ids_begin_anew() {
    let (mut node, trunk) = Node::with_client("bob");
    let former = newcomer(1, "anna", 1);
    attach(&mut node, trunk, former, OWN);
    node.up(trunk, 1, 1, "bob", 0);
    assert_eq!(node.take_output(trunk).messages, [(former.session, 1, 0)]);
    lose_socket(&mut node, trunk, 1);
    attach(&mut node, trunk, newcomer(2, "anna", 2), OWN);
    let Output { sessions, seq, .. } = node.take_output(trunk);
    assert!(sessions == [(former.session, true)] && seq > 1, "{seq}");
    node.send(trunk, 2, seq + 1, r#"{"type":"signal","to":"bob","data":1,"id":1}"#);
    assert_eq!(node.take_output(trunk).messages, [(former.session, seq + 1, 0)]);
}

fn attach_with_token(node: &mut Node, trunk: TrunkKey, attach: Attach<'_>) {
    let grant = Grant::default().to_bytes();
    node.send_frame(trunk, &ToNode::Attach(Attach { grant: Some(&grant), ..attach }));
}

#[test]
fn newest_connection_with_token_gets_the_id_when_it_lives() {
    let (mut node, trunk) = Node::with_trunk();
    attach_with_token(&mut node, trunk, newcomer(0, "anna", 2));
    assert_eq!(node.take_output(trunk).attached, [0]);
    // The clock of its edge is behind.
    attach_with_token(&mut node, trunk, newcomer(1, "anna", 1));
    let said = node.take_output(trunk);
    assert_eq!((said.proves, said.attached, said.closed), (vec![1], vec![], vec![]));
    node.send_frame(trunk, &ToNode::Alive { slot: 0 });
    assert_eq!(node.take_output(trunk).rejected, [], "the holder's life does not matter");
    node.send_frame(trunk, &ToNode::Proved { slot: 1, client_id: "anna" });
    let said = node.take_output(trunk);
    assert_eq!((said.attached, said.closed, said.rejected), (vec![1], vec![(0, 4410)], vec![]));
    assert_eq!(node.core.sessions(), 1);
}

#[test]
fn newcomer_waiting_for_the_holder_yields_to_one_with_token() {
    let (mut node, trunk) = Node::with_trunk();
    node.send_frame(trunk, &ToNode::Attach(newcomer(0, "anna", 1)));
    node.send_frame(trunk, &ToNode::Attach(newcomer(1, "anna", 2)));
    attach_with_token(&mut node, trunk, newcomer(2, "anna", 3));
    node.send_frame(trunk, &ToNode::Proved { slot: 2, client_id: "anna" });
    let said = node.take_output(trunk);
    assert_eq!((said.attached, said.closed, said.rejected), (vec![0, 2], vec![(0, 4410)], vec![(1, 503)]));
    node.pass(3 * SECOND);
    assert_eq!(node.core.sessions(), 1);
}

#[test]
fn id_of_a_client_with_token_is_safe_from_those_without() {
    let (mut node, trunk) = Node::with_trunk();
    attach_with_token(&mut node, trunk, newcomer(0, "anna", 1));
    node.send_frame(trunk, &ToNode::Attach(newcomer(1, "anna", 2)));
    node.send_frame(trunk, &ToNode::Alive { slot: 0 });
    let said = node.take_output(trunk);
    assert_eq!((said.attached, said.closed, said.rejected), (vec![0], vec![], vec![(1, 409)]));
}
