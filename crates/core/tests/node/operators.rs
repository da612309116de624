//! Client data for operators, and kicks.

use signaling_core::edge::KickName;
use signaling_core::node::KickedHere;
use signaling_protocol::ClientId;
use signaling_wire::RateDebts;
use signaling_wire::grant::Grant;
use signaling_wire::trunk::{Attach, DetachReason, ToNode};

use crate::node::{Node, SECOND, newcomer};

fn client(name: &str) -> ClientId {
    ClientId::new(name).unwrap()
}

#[test]
fn reports_show_pending_held_and_unconfirmed_messages() {
    let (mut node, trunk) = Node::among(&["a"]);
    node.core.trunks_mut().name_edge(trunk, "balancer-0");
    node.attach(trunk, 0, "anna", 0);
    node.up(trunk, 0, 1, "bert", 10);
    node.up(trunk, 0, 2, "bert", 10);

    let (anna, bert, carla) = (client("anna"), client("bert"), client("carla"));
    assert_eq!(node.core.session(&anna).unwrap().edge, Some("balancer-0"));
    assert_eq!(node.core.pending(&anna), (1, 2));
    assert!(node.core.session(&bert).is_none());
    assert_eq!(node.core.held_for(&bert).unwrap().0, 2);
    assert!(node.core.session(&carla).is_none() && node.core.held_for(&carla).is_none());

    node.attach(trunk, 1, "bert", 0);
    assert_eq!(node.core.held_for(&bert), None);
    assert_eq!(node.core.session(&bert).unwrap().unconfirmed.0, 2);
    assert_eq!(node.core.edges().collect::<Vec<_>>(), [(Some("balancer-0"), 2, 2)]);
}

#[test]
fn reports_tell_suspects_and_draining_nodes_from_owners() {
    let (mut node, _) = Node::among(&["a", "b"]);
    let owners = |node: &Node, client: &ClientId| {
        let (owner, stand_in) = node.core.owners(client);
        (owner.unwrap().to_string(), stand_in.map(ToString::to_string))
    };
    let of_b = (0..).map(|n| client(&format!("client-{n}"))).find(|id| owners(&node, id).0 == "b").unwrap();
    assert_eq!(owners(&node, &of_b).1, None);

    node.pass(3 * SECOND);
    assert!(node.core.peers().suspects().any(|id| id.as_str() == "b") && node.core.peers().is_eligible("b"));
    assert_eq!(owners(&node, &of_b), ("b".to_owned(), Some("a".to_owned())));

    node.core.drain(node.now);
    assert!(node.core.peers().is_draining() && !node.core.peers().is_eligible("a"));
}

#[test]
fn kicked_client_is_sent_to_all_edges_and_cannot_resume() {
    let (mut node, trunk) = Node::among(&["a"]);
    let trunks = [trunk, node.core.trunk_up(node.now)];
    node.attach(trunks[0], 0, "anna", 0);
    let anna = KickName::new("anna");
    for trunk in trunks {
        node.take_output(trunk);
    }

    assert_eq!(node.core.kick(&anna, 1_000), KickedHere { was_here: true, subject: None });
    for trunk in trunks {
        assert_eq!(node.take_output(trunk).kicked, [("anna".to_owned(), 1_000, true)]);
    }
    assert!(!node.core.kick(&KickName::new("bert"), 1_000).was_here);

    node.send_frame(trunks[0], &ToNode::Detach { slot: 0, cause: DetachReason::Lost, debts: RateDebts::default() });
    assert_eq!(node.core.lingering(), 1);
    assert!(node.core.kick(&anna, 1_001).was_here, "its session was still there");
    assert_eq!(node.core.lingering(), 0);
    node.send_frame(trunks[0], &ToNode::Attach(newcomer(1, "anna", 2)));
    assert!(node.core.sessions() == 1, "with tokens off anybody may come anew");
}

#[test]
fn kick_by_a_name_of_a_dialect_is_one_of_its_subject_too() {
    let (mut node, trunk) = Node::among(&["a"]);
    let grant = Grant { subject: Some("auth0|7".into()), ..Grant::default() }.to_bytes();
    for (slot, id) in (0..).zip(["~yw:a", "~yw:b"]) {
        let attach = Attach { grant: Some(&grant), ..newcomer(slot, id, 1) };
        node.send_frame(trunk, &ToNode::Attach(attach));
    }
    node.take_output(trunk);
    let subject = Some(KickName::new("auth0|7"));
    assert_eq!(node.core.kick(&KickName::new("~yw:a"), 1_000), KickedHere { was_here: true, subject });
    let kicked = |name: &str| (name.to_owned(), 1_000, true);
    assert_eq!(node.take_output(trunk).kicked, [kicked("~yw:a"), kicked("auth0|7")]);
    assert!(node.core.kick(&KickName::new("auth0|7"), 1_001).was_here);
    node.send_frame(trunk, &ToNode::Kicked { name: "\u{e4}lice \n", at: 1_002 });
    let later = node.core.trunk_up(node.now);
    let names: Vec<String> = node.take_output(later).kicked.into_iter().map(|(name, ..)| name).collect();
    assert_eq!(names, ["~yw:a", "auth0|7", "\u{e4}lice \n"]);
}

#[test]
fn restored_kick_counts_before_its_time() {
    let (mut node, _) = Node::among(&["a"]);
    node.core.restore_kick(&KickName::new("anna"), u64::MAX);
    let later = node.core.trunk_up(node.now);
    assert_eq!(node.take_output(later).kicked, [("anna".to_owned(), u64::MAX, false)]);
}

#[test]
fn kicks_of_an_edge_are_forwarded_once() {
    let (mut node, knows) = Node::among(&["a"]);
    let others = node.core.trunk_up(node.now);
    // The last time is years ahead of this node's clock.
    for (at, told) in [(1_000, true), (1_000, false), (999, false), (1_001, true), (u64::MAX / 2, false)] {
        node.send_frame(knows, &ToNode::Kicked { name: "anna", at });
        let expected = Vec::from_iter(told.then(|| ("anna".to_owned(), at, false)));
        assert_eq!(node.take_output(others).kicked, expected, "{at}");
        assert_eq!(node.take_output(knows).kicked, [], "it said so itself");
    }
}
