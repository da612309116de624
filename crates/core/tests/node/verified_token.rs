//! Clients with a token that names their id.

use signaling_wire::grant::Grant;
use signaling_wire::trunk::{Attach, ToNode};

use crate::node::{Node, SECOND, newcomer};

fn attach_with_token(node: &mut Node, trunk: signaling_core::node::TrunkKey, attach: Attach<'_>) {
    let grant = Grant::default().to_bytes();
    node.send_frame(trunk, &ToNode::Attach(Attach { grant: Some(&grant), ..attach }));
}

#[test]
fn newest_connection_with_token_gets_the_id_at_once() {
    let (mut node, trunk) = Node::with_trunk();
    attach_with_token(&mut node, trunk, newcomer(0, "anna", 2));
    assert_eq!(node.take_output(trunk).attached, [0]);
    // The clock of its edge is behind.
    attach_with_token(&mut node, trunk, newcomer(1, "anna", 1));
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
    let said = node.take_output(trunk);
    assert_eq!((said.attached, said.closed, said.rejected), (vec![0, 2], vec![(0, 4410)], vec![(1, 409)]));
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
