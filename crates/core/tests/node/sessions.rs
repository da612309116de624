//! Sessions that attach, detach and compete for an id at one node.

use signaling_core::node::{NodeCore, Rules, Settings};
use signaling_protocol::ClientId;
use signaling_rooms::{Registrations, RoomSettings};
use signaling_wire::grant::Grant;
use signaling_wire::trunk::{Attach, DeliveryOutcome, DetachReason, ToNode};
use signaling_wire::{DownSeq, Incarnation, Rank, RateDebts, SessionId};

use crate::node::{Node, SECOND, newcomer, settings};

#[test]
fn newcomer_that_waits_for_a_contended_id_can_be_moved() {
    let (mut node, trunk) = Node::with_trunk();
    node.send_frame(trunk, &ToNode::Attach(newcomer(0, "anna", 1)));
    node.send_frame(trunk, &ToNode::Attach(newcomer(1, "anna", 2)));
    node.take_output(trunk);
    node.send_frame(trunk, &ToNode::Release { slot: 1, to: "b" });
    assert_eq!(node.take_output(trunk).released, [(1, vec![])]);
    node.pass(3 * SECOND);
    assert_eq!(node.core.sessions(), 1, "the holder of the id stays");
}

#[test]
fn newcomer_waits_on_when_its_ids_socket_attaches_again() {
    let mut node = Node::new("a");
    let (trunk, other, new_trunk) =
        (node.core.trunk_up(node.now), node.core.trunk_up(node.now), node.core.trunk_up(node.now));
    node.attach(trunk, 0, "anna", 1);
    node.send_frame(other, &ToNode::Attach(newcomer(0, "anna", 2)));
    // The edge has lost the first trunk, which this node does not know yet.
    let same = Attach { state: Some(b"admitted"), ..newcomer(0, "anna", 1) };
    node.send_frame(new_trunk, &ToNode::Attach(same));
    assert_eq!((node.core.sessions(), node.take_output(other).rejected), (1, vec![]));
    node.send_frame(new_trunk, &ToNode::Alive { slot: 0 });
    assert_eq!(node.take_output(other).rejected, [(0, 409)]);
}

#[test]
fn attach_of_one_socket_counts_by_its_attachment_alone() {
    let (mut node, trunk) = Node::with_trunk();
    let attach = |slot, attachment, rank| Attach {
        state: Some(b"admitted"),
        attachment,
        rank: Rank(rank),
        ..newcomer(slot, "anna", 1)
    };
    node.send_frame(trunk, &ToNode::Attach(attach(0, 2, 5)));
    // The edge abandoned this one, which another node had ranked higher.
    node.send_frame(trunk, &ToNode::Attach(attach(1, 1, 9)));
    let output = node.take_output(trunk);
    assert_eq!((output.attached, output.rejected), (vec![0], vec![(1, 409)]));
    node.send_frame(trunk, &ToNode::Attach(attach(2, 3, 4)));
    let output = node.take_output(trunk);
    assert_eq!((output.attached, output.rejected, output.closed), (vec![2], vec![], vec![]));
}

#[test]
fn attach_of_another_socket_counts_by_its_rank() {
    for (rank, attached, rejected, closed) in
        [(4, vec![0], vec![(1, 409)], vec![]), (6, vec![0, 1], vec![], vec![(0, 4410)])]
    {
        let (mut node, trunk) = Node::with_trunk();
        let attach = |slot, session, rank| {
            let (state, rank) = (Some(&b"admitted"[..]), Rank(rank));
            Attach { state, rank, ..newcomer(slot, "anna", session) }
        };
        node.send_frame(trunk, &ToNode::Attach(attach(0, 1, 5)));
        node.send_frame(trunk, &ToNode::Attach(Attach { attachment: 7, ..attach(1, 2, rank) }));
        let output = node.take_output(trunk);
        assert_eq!((output.attached, output.rejected, output.closed), (attached, rejected, closed), "{rank}");
    }
}

#[test]
fn frames_that_cross_a_close_get_their_outcomes() {
    let mut node = Node::new("a");
    let (trunk, other) = (node.core.trunk_up(node.now), node.core.trunk_up(node.now));
    node.attach(trunk, 0, "bob", 0);
    node.attach(trunk, 1, "anna", 0);
    let newer = Attach { state: Some(b"admitted"), ..newcomer(0, "anna", 2) };
    node.send_frame(other, &ToNode::Attach(newer));
    node.up(trunk, 1, 1, "bob", 0);
    node.send_frame(trunk, &ToNode::Confirm { slot: 0, up_to: DownSeq(1), exceptions: vec![] });
    assert_eq!(node.take_output(trunk).outcomes, [(1, DeliveryOutcome::Done)]);
}

#[test]
fn ended_session_is_removed_after_its_last_outcome() {
    let (mut node, trunk) = Node::with_client("bob");
    let settling = Attach { cause: Some(DetachReason::Lost), ..newcomer(1, "anna", 1) };
    node.send_frame(trunk, &ToNode::Attach(settling));
    node.up(trunk, 1, 1, "bob", 0);
    node.send_frame(trunk, &ToNode::Confirm { slot: 0, up_to: DownSeq(1), exceptions: vec![] });
    node.send_frame(trunk, &ToNode::Detach { slot: 0, cause: DetachReason::Left, debts: RateDebts::default() });
    assert_eq!(node.take_output(trunk).outcomes, [(1, DeliveryOutcome::Done)]);
    node.send_frame(trunk, &ToNode::Detach { slot: 1, cause: DetachReason::Lost, debts: RateDebts::default() });
    assert!(node.core.is_quiet());
}

#[test]
fn sessions_past_the_lingering_limit_are_refused_and_counted() {
    let mut node = Node::with_rules("a", Rules { max_lingering: 1, ..Rules::default() });
    let trunk = node.core.trunk_up(node.now);
    for (slot, client) in [(0, "anna"), (1, "bob")] {
        node.attach(trunk, slot, client, 0);
        node.send_frame(trunk, &ToNode::Detach { slot, cause: DetachReason::Lost, debts: RateDebts::default() });
    }
    assert_eq!((node.core.lingering(), node.core.counts().lingering_refused), (1, 1));
}

#[test]
fn oldest_lingering_sessions_of_a_subject_end_beyond_64() {
    let (mut node, trunk) = Node::with_trunk();
    let grant = Grant { subject: Some("alice".into()), ..Grant::default() }.to_bytes();
    let clients: Vec<_> = (0..65).map(|number| format!("~pj:{number}")).collect();
    let lose = |node: &mut Node, slot: u32, client: &str, session: u8| {
        let session = SessionId([session; 16]);
        let arrival = Attach { grant: Some(&grant), session, ..newcomer(slot, client, 1) };
        node.send_frame(trunk, &ToNode::Attach(arrival));
        node.send_frame(trunk, &ToNode::Detach { slot, cause: DetachReason::Lost, debts: RateDebts::default() });
    };
    lose(&mut node, 70, "alice", 70);
    (0..64).for_each(|slot| lose(&mut node, slot, &clients[slot as usize], slot as u8));
    assert_eq!(node.core.lingering(), 65, "the client with the subject as its id is not one of them");
    lose(&mut node, 0, &clients[0], 100);
    assert_eq!(node.core.lingering(), 65, "it lingers once");
    lose(&mut node, 64, &clients[64], 64);
    assert_eq!(node.core.lingering(), 65);
    node.send_frame(trunk, &ToNode::Attach(newcomer(71, &clients[1], 3)));
    let figures = (node.core.lingering(), node.core.counts().lingering_refused);
    assert_eq!(figures, (65, 1), "the oldest has gone");
    node.pass(31 * SECOND);
    assert_eq!(node.core.lingering(), 0);
}

/// Returns changes of the registry: clients with a socket, and clients without one.
fn changes(starts_anew: bool, present: &[&str], absent: &[&str]) -> Registrations {
    let ids = |names: &[&str]| names.iter().map(|name| ClientId::new(name).unwrap()).collect();
    Registrations { starts_anew, present: ids(present), absent: ids(absent) }
}

#[test]
fn registry_has_the_present_state_of_changed_clients() {
    let mut node = Node::new("a");
    let rooms = RoomSettings { has_journal: true, ..RoomSettings::default() };
    node.core = NodeCore::new(Settings { rooms, ..settings("a", node.now) });
    let trunk = node.core.trunk_up(node.now);
    ["anna", "bob", "carol"].into_iter().zip(0..).for_each(|(client, slot)| node.attach(trunk, slot, client, 0));
    node.send_frame(trunk, &ToNode::Detach { slot: 1, cause: DetachReason::Lost, debts: RateDebts::default() });
    assert_eq!(node.core.take_registrations(2), changes(false, &["anna"], &["bob"]));
    assert_eq!(node.core.take_registrations(2), changes(false, &["carol"], &[]));
    assert_eq!(node.core.take_registrations(2), changes(false, &[], &[]));
    node.core.forget_registrations();
    assert_eq!(node.core.take_registrations(9), changes(true, &["anna", "carol"], &[]));
}

#[test]
fn process_is_former_if_its_node_left_or_restarted() {
    let (mut node, _) = Node::among(&["a", "b"]);
    let own = node.core.settings().incarnation;
    let is_former = |node: &Node, id, incarnation| node.core.is_former_process(id, incarnation);
    assert!(!is_former(&node, "a", own) && is_former(&node, "a", Incarnation([9; 8])));
    assert!(!is_former(&node, "b", own) && is_former(&node, "c", own));
    assert!(!Node::new("a").core.is_former_process("c", own), "there is no view");
    node.set_view(&["a"]);
    assert!(is_former(&node, "b", own) && node.core.cleans("b"));
}
