//! Clients with a credential, which take their ids over and resume without a resume token.

use signaling_core::node::TrunkKey;
use signaling_wire::trunk::{Attach, DetachReason, Slot, ToEdge, ToNode};
use signaling_wire::{Credential, SessionId};

use crate::node::{Node, client_of, newcomer};

const OWN: Credential = Credential([1; 32]);
const OTHER: Credential = Credential([2; 32]);

fn attach(node: &mut Node, trunk: TrunkKey, attach: Attach<'_>, credential: Credential) {
    node.send_frame(trunk, &ToNode::Attach(Attach { credential: Some(credential), ..attach }));
}

fn lose_socket(node: &mut Node, trunk: TrunkKey, slot: Slot) {
    node.send_frame(trunk, &ToNode::Detach { slot, cause: DetachReason::Lost });
}

/// A session as the node reports it to the edge.
#[derive(Debug, PartialEq, Eq)]
struct Attached {
    session: SessionId,
    resumed: bool,
    seq: u64,
    downs: usize,
}

/// Returns the last session that the node attached on the trunk, with the number of `Down`s.
fn attached(node: &mut Node, trunk: TrunkKey) -> Attached {
    let batch = node.core.take_trunk_batch(trunk);
    let (mut rest, mut last, mut downs) = (&batch[..], None, 0);
    while !rest.is_empty() {
        match ToEdge::take(&mut rest).unwrap() {
            ToEdge::Attached { session, resumed, seq, .. } => last = Some((session, resumed, seq.0)),
            ToEdge::Down { .. } => downs += 1,
            _ => {}
        }
    }
    let (session, resumed, seq) = last.unwrap();
    Attached { session, resumed, seq, downs }
}

#[test]
fn equal_credential_takes_a_live_session_at_once() {
    let (mut node, trunk) = Node::with_trunk();
    attach(&mut node, trunk, newcomer(0, "anna", 1), OWN);
    attach(&mut node, trunk, newcomer(1, "anna", 2), OWN);
    let said = node.take_output(trunk);
    assert_eq!((said.attached, said.closed, said.rejected), (vec![0, 1], vec![(0, 4410)], vec![]));
    assert_eq!(node.core.sessions(), 1);
}

#[test]
fn other_credential_is_refused_while_the_holder_answers() {
    let (mut node, trunk) = Node::with_trunk();
    attach(&mut node, trunk, newcomer(0, "anna", 1), OWN);
    attach(&mut node, trunk, newcomer(1, "anna", 2), OTHER);
    node.send_frame(trunk, &ToNode::Alive { slot: 0 });
    node.send_frame(trunk, &ToNode::Attach(newcomer(2, "anna", 3)));
    node.send_frame(trunk, &ToNode::Alive { slot: 0 });
    let said = node.take_output(trunk);
    assert_eq!((said.attached, said.closed, said.rejected), (vec![0], vec![], vec![(1, 409), (2, 409)]));
}

#[test]
fn missing_credentials_are_not_equal() {
    let (mut node, trunk) = Node::with_trunk();
    node.send_frame(trunk, &ToNode::Attach(newcomer(0, "anna", 1)));
    node.send_frame(trunk, &ToNode::Attach(newcomer(1, "anna", 2)));
    node.send_frame(trunk, &ToNode::Alive { slot: 0 });
    let said = node.take_output(trunk);
    assert_eq!((said.attached, said.closed, said.rejected), (vec![0], vec![], vec![(1, 409)]));
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
    let Attached { session, resumed, downs, .. } = attached(&mut node, trunk);
    assert_eq!((session, resumed, downs), (former.session, true, 1));
}

#[test]
fn other_credential_gets_a_new_session_when_the_former_lingers() {
    let (mut node, trunk) = Node::with_trunk();
    attach(&mut node, trunk, newcomer(0, "anna", 1), OWN);
    lose_socket(&mut node, trunk, 0);
    let later = newcomer(1, "anna", 2);
    attach(&mut node, trunk, later, OTHER);
    let Attached { session, resumed, .. } = attached(&mut node, trunk);
    assert_eq!((session, resumed), (later.session, false));
}

#[test]
fn credential_moves_with_a_lingering_session_to_its_owner() {
    let (mut node, mut owner) = (Node::new("a"), Node::new("b"));
    [&mut node, &mut owner].into_iter().for_each(|node| node.set_view(&["a", "b"]));
    let (trunk, other) = (node.core.trunk_up(), owner.core.trunk_up());
    let anna = client_of("b", &["a", "b"]);
    let former = newcomer(0, &anna, 1);
    attach(&mut node, trunk, former, OWN);
    node.core.trunk_down(node.now, trunk);
    node.sends_to(&mut owner);
    attach(&mut owner, other, newcomer(0, &anna, 2), OWN);
    let Attached { session, resumed, .. } = attached(&mut owner, other);
    assert_eq!((session, resumed), (former.session, true));
}

#[test]
fn credential_holds_at_the_next_node_after_a_handoff() {
    let (mut node, trunk) = Node::with_trunk();
    let former = newcomer(0, "anna", 1);
    attach(&mut node, trunk, Attach { state: Some(b"admitted"), ..former }, OWN);
    attach(&mut node, trunk, newcomer(1, "anna", 2), OWN);
    let said = node.take_output(trunk);
    assert_eq!((said.attached, said.closed, said.rejected), (vec![0, 1], vec![(0, 4410)], vec![]));
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
    let Attached { session, resumed, .. } = attached(&mut node, trunk);
    assert_eq!((session, resumed), (former.session, true));
}

#[test]
fn resumed_session_repeats_no_number_when_ids_begin_anew() {
    let (mut node, trunk) = Node::with_client("bob");
    let receive = |node: &mut Node, trunk| {
        let batch = node.core.take_trunk_batch(trunk);
        let mut rest = &batch[..];
        let mut numbers = Vec::new();
        while !rest.is_empty() {
            if let ToEdge::Down { origin: Some(origin), .. } = ToEdge::take(&mut rest).unwrap() {
                numbers.push((origin.session, origin.number.0));
            }
        }
        numbers
    };
    let former = newcomer(1, "anna", 1);
    attach(&mut node, trunk, former, OWN);
    node.up(trunk, 1, 1, "bob", 0);
    assert_eq!(receive(&mut node, trunk), [(former.session, 1)]);
    lose_socket(&mut node, trunk, 1);
    attach(&mut node, trunk, newcomer(2, "anna", 2), OWN);
    let Attached { session, seq, .. } = attached(&mut node, trunk);
    assert!(session == former.session && seq > 1, "{seq}");
    node.send(trunk, 2, seq + 1, r#"{"type":"signal","to":"bob","data":1,"id":1}"#);
    assert_eq!(receive(&mut node, trunk), [(session, seq + 1)]);
}
