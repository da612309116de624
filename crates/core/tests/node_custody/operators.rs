//! What operators are told of clients, and what they do to one.

use signaling_admin::Page;
use signaling_admin::explain::{ClientAt, Explanation};
use signaling_core::node::TrunkKey;
use signaling_protocol::ClientId;
use signaling_wire::trunk::{DetachReason, ToEdge, ToNode};

use crate::node::{Node, SECOND, newcomer};

fn explain(node: &Node, client: &str) -> Explanation {
    node.core.explain(node.now, &ClientId::new(client).unwrap())
}

fn here(node: &Node, client: &str) -> ClientAt {
    explain(node, client).nodes.pop().unwrap()
}

#[test]
fn what_a_client_waits_for_and_what_waits_for_another_is_told() {
    let mut node = Node::new("a");
    node.sees(&["a"]);
    let trunk = node.core.trunk_up();
    node.core.name_edge(trunk, "balancer-0");
    node.attach(trunk, 0, "anna", 0);
    node.up(trunk, 0, 1, "bert", 10);
    node.up(trunk, 0, 2, "bert", 10);

    let anna = here(&node, "anna").session.unwrap();
    assert_eq!((anna.edge.as_deref(), anna.unfated, anna.recipients), (Some("balancer-0"), 2, 1));
    let bert = here(&node, "bert");
    assert!(bert.session.is_none() && bert.held.unwrap().messages == 2, "{bert:?}");
    assert!(explain(&node, "carla").nodes.is_empty(), "of whom nothing is here");

    node.attach(trunk, 1, "bert", 0);
    let bert = here(&node, "bert");
    assert_eq!((bert.held, bert.session.unwrap().unconfirmed.messages), (None, 2));
    let page = node.core.clients_page(&Page::new(None, 1));
    assert_eq!((page.clients[0].client_id.as_str(), page.next.as_deref()), ("anna", Some("anna")));
}

#[test]
fn suspects_and_draining_nodes_are_told_from_owners() {
    let mut node = Node::new("a");
    node.sees(&["a", "b"]);
    let of_b =
        (0..).map(|n| format!("client-{n}")).find(|id| explain(&node, id).owner.as_deref() == Some("b")).unwrap();
    let told = explain(&node, &of_b);
    assert_eq!((told.ranking[0].node.as_str(), told.stand_in), ("b", None));

    node.pass(3 * SECOND);
    let told = explain(&node, &of_b);
    assert!(told.ranking[0].suspect && told.ranking[0].eligible, "{told:?}");
    assert_eq!((told.owner.as_deref(), told.stand_in.as_deref()), (Some("b"), Some("a")));

    node.core.drain(node.now);
    assert!(explain(&node, &of_b).ranking.iter().any(|it| it.node == "a" && it.draining && !it.eligible));
}

#[test]
fn who_is_put_out_is_named_to_every_edge_and_cannot_come_back_to_a_session() {
    let mut node = Node::new("a");
    node.sees(&["a"]);
    let trunks = [node.core.trunk_up(), node.core.trunk_up()];
    node.attach(trunks[0], 0, "anna", 0);
    let anna = ClientId::new("anna").unwrap();
    for trunk in trunks {
        node.said(trunk);
    }

    assert!(node.core.kick(&anna, 1_000));
    for trunk in trunks {
        let batch = node.core.take_trunk_batch(trunk);
        let kicked = ToEdge::Kicked { client_id: "anna", at: 1_000, at_once: true };
        assert_eq!(ToEdge::take(&mut &batch[..]).unwrap(), kicked);
    }
    assert!(!node.core.kick(&ClientId::new("bert").unwrap(), 1_000));

    node.tell(trunks[0], &ToNode::Detach { slot: 0, gone: DetachReason::Lost });
    assert_eq!(node.core.lingering(), 1);
    assert!(node.core.kick(&anna, 1_001), "its session was still there");
    assert_eq!(node.core.lingering(), 0);
    node.tell(trunks[0], &ToNode::Attach(newcomer(1, "anna", 2)));
    assert!(node.core.sessions() == 1, "with tokens off anybody may come anew");
}

/// What a node says of clients that were put out.
fn kicked(node: &mut Node, trunk: TrunkKey) -> Vec<(String, u64, bool)> {
    let batch = node.core.take_trunk_batch(trunk);
    let (mut rest, mut said) = (&batch[..], Vec::new());
    while !rest.is_empty() {
        if let ToEdge::Kicked { client_id, at, at_once } = ToEdge::take(&mut rest).unwrap() {
            said.push((client_id.to_owned(), at, at_once));
        }
    }
    said
}

#[test]
fn an_edge_that_comes_later_hears_whom_an_operator_has_put_out() {
    let mut node = Node::new("a");
    node.sees(&["a"]);
    let first = node.core.trunk_up();
    node.core.kick(&ClientId::new("anna").unwrap(), 1_000);
    assert_eq!(kicked(&mut node, first), [("anna".to_owned(), 1_000, true)]);

    let later = node.core.trunk_up();
    assert_eq!(kicked(&mut node, later), [("anna".to_owned(), 1_000, false)]);
}

#[test]
fn what_an_edge_remembers_of_kicks_the_node_passes_on_once() {
    let mut node = Node::new("a");
    node.sees(&["a"]);
    let [knows, others] = [(); 2].map(|()| node.core.trunk_up());
    // The last of these is years ahead of this node's clock.
    for (at, told) in [(1_000, true), (1_000, false), (999, false), (1_001, true), (u64::MAX / 2, false)] {
        node.tell(knows, &ToNode::Kicked { client_id: "anna", at });
        let expected = Vec::from_iter(told.then(|| ("anna".to_owned(), at, false)));
        assert_eq!(kicked(&mut node, others), expected, "{at}");
        assert_eq!(kicked(&mut node, knows), [], "it said so itself");
    }
}
