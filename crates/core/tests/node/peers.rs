//! Messages and reports between nodes.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use signaling_core::node::{BatchError, Rules};
use signaling_wire::forward::{self, Item};
use signaling_wire::lane::{Acknowledgement, HEAD_BYTES, Opening};
use signaling_wire::trunk::{Attach, DeliveryOutcome, ToNode};
use signaling_wire::{BatchNumber, DownSeq, ExchangeNumber, Incarnation};

use crate::node::{HOLD, Node, SECOND, client_of, clients_of, newcomer, read};

#[test]
fn peer_back_in_the_view_gets_no_number_twice() {
    let ((mut node, trunk), there) = (Node::among(&["a", "b"]), client_of("b", &["a", "b"]));
    node.attach(trunk, 0, "anna", 0);
    let [before, after] = [1, 2].map(|seq| {
        node.set_view(&["a"]);
        node.set_view(&["a", "b"]);
        node.up(trunk, 0, seq, &there, 0);
        let (peer, exchange) = node.opens_lane();
        let frame = node.core.peers_mut().take_lane_frame(node.now, peer, exchange).unwrap();
        let (batch, recipients) = read(&frame[HEAD_BYTES..]);
        assert!(recipients.contains(&there));
        (batch, exchange)
    });
    assert!(after.0 > before.0 && after.1 > before.1, "{after:?} after {before:?}");
}

#[test]
fn redirected_messages_reach_a_client_that_attached_here() {
    let ((mut node, trunk), there) = (Node::among(&["a", "b"]), client_of("b", &["a", "b"]));
    node.attach(trunk, 0, "anna", 0);
    node.up(trunk, 0, 1, &there, 0);
    assert_eq!(node.take_batches().len(), 1);
    node.attach(trunk, 1, &there, 0);
    node.pass(Duration::from_millis(100));
    assert_eq!(node.take_output(trunk).downs, [1]);
    assert!(node.take_batches().iter().any(|batch| forgets(batch, &there)), "its former destination forgets it");
}

#[test]
fn former_destination_gets_forget_after_acknowledgement() {
    let [(mut node, trunk), (mut other, _)] = Node::two();
    let there = client_of("b", &["a", "b"]);
    node.attach(trunk, 0, "anna", 0);
    node.up(trunk, 0, 1, &there, 0);
    node.sends_to(&mut other);
    node.attach(trunk, 1, &there, 0);
    node.pass(Duration::from_millis(100));
    assert!(node.take_batches().iter().any(|batch| forgets(batch, &there)));
}

#[test]
fn message_is_rerouted_when_its_location_expires() {
    let rules = Rules { located_for: 5 * SECOND, suspect_after: HOLD, ..Rules::default() };
    let (mut node, mut other) = (Node::with_rules("a", rules), Node::new("b"));
    [&mut node, &mut other].into_iter().for_each(|node| node.set_view(&["a", "b"]));
    let here = client_of("a", &["a", "b"]);
    let trunk = other.core.trunk_up(other.now);
    other.attach(trunk, 0, &here, 0);
    other.sends_to(&mut node);
    let trunk = node.core.trunk_up(node.now);
    node.attach(trunk, 0, "anna", 0);
    node.up(trunk, 0, 1, &here, 0);
    let batches = node.take_batches();
    assert!(batches.iter().any(|batch| read(batch).1.contains(&here)), "it goes to the reported node");
    assert!(!batches.iter().any(|batch| forgets(batch, &here)));
    node.pass(6 * SECOND);
    assert!(node.take_batches().iter().any(|batch| forgets(batch, &here)));
}

#[test]
fn message_is_rerouted_when_a_suspect_stops_answering_again() {
    let [(mut node, trunk), (mut other, there)] = Node::two();
    let here = client_of("a", &["a", "b"]);
    other.attach(there, 0, &here, 0);
    other.sends_to(&mut node);
    let peer = node.core.peers().addressed().next().unwrap().0;
    node.core.refused(node.now, peer);
    // It answers again, as a suspect.
    node.opens_lane();
    node.attach(trunk, 0, "anna", 0);
    node.up(trunk, 0, 1, &here, 0);
    assert!(node.take_batches().iter().any(|batch| read(batch).1.contains(&here)), "it has the client");
    node.core.refused(node.now, peer);
    assert!(node.take_batches().iter().any(|batch| forgets(batch, &here)));
}

/// Returns `true` if a batch has the peer forget the messages to a client.
fn forgets(mut batch: &[u8], client: &str) -> bool {
    forward::open(&mut batch).unwrap();
    let mut items = std::iter::from_fn(|| Item::take(&mut batch).ok());
    items.any(|item| matches!(item, Item::Forget { to, .. } if to == client))
}

#[test]
fn node_outside_the_view_gets_outcomes_while_its_lane_is_open() {
    let ((mut sender, senders), mut holder) = (Node::among(&["a", "b"]), Node::new("b"));
    holder.set_view(&["b"]);
    let recipients = holder.core.trunk_up(holder.now);
    sender.attach(senders, 0, "alice", 0);
    let bob = client_of("b", &["a", "b"]);
    holder.attach(recipients, 0, &bob, 0);
    sender.up(senders, 0, 1, &bob, 0);
    let (peer, exchange) = sender.opens_lane();
    let frame = sender.core.peers_mut().take_lane_frame(sender.now, peer, exchange).unwrap();
    sender.core.peers_mut().lane_ended(sender.now, peer, exchange);
    let (exchange, inbound) = sender.opens_lane_to(&mut holder);
    assert_eq!(
        sender.core.peers_mut().take_lane_frame(sender.now, peer, exchange),
        Some(frame.clone()),
        "the window comes again"
    );
    holder.core.batch(holder.now, inbound, &frame[HEAD_BYTES..]).unwrap();
    holder.send_frame(recipients, &ToNode::Confirm { slot: 0, up_to: DownSeq(1), exceptions: vec![] });
    assert_eq!(holder.core.peers().addressed().next().unwrap().1, None, "it has no address");
    holder.returns_to(&mut sender, inbound, (peer, exchange));
    assert_eq!(sender.take_output(senders).outcomes, [(1, DeliveryOutcome::Done)]);
    holder.core.inbound_lane_ended(holder.now, inbound);
    assert!(holder.core.open_return(holder.now, inbound).is_none());
    assert_eq!(holder.core.peers().addressed().count(), 0);
}

#[test]
fn silent_node_outside_the_view_has_no_client_any_more() {
    let ((mut node, trunk), mut other) = (Node::among(&["a", "b"]), Node::new("c"));
    other.set_view(&["a", "c"]);
    let owned = clients_of("a", &["a", "c"], 50, 1);
    let bob = clients_of("b", &["a", "b"], 50, 1).into_iter().find(|id| owned.contains(id)).unwrap();
    let recipients = other.core.trunk_up(other.now);
    other.attach(recipients, 0, &bob, 0);
    other.sends_to(&mut node);
    node.attach(trunk, 0, "alice", 0);
    node.up(trunk, 0, 1, &bob, 0);
    let owner = node.core.peers().addressed().find(|(_, address)| address.is_some()).unwrap().0;
    let is_sent = |node: &mut Node| {
        let exchange = node.core.peers_mut().open_lane(node.now, owner).unwrap().exchange;
        node.core.lane_opened(node.now, owner, exchange, Incarnation([2; 8]));
        let mut recipients = Vec::new();
        while let Some(frame) = node.core.peers_mut().take_lane_frame(node.now, owner, exchange) {
            let (number, names) = read(&frame[HEAD_BYTES..]);
            recipients.extend(names);
            let of = Acknowledgement { number: BatchNumber(number), names_you: true };
            node.core.lane_acknowledged(node.now, owner, exchange, (of, 0)).unwrap();
        }
        recipients.contains(&bob)
    };
    node.pass(SECOND);
    assert!(!is_sent(&mut node), "the other node has the client");
    node.pass(SECOND);
    assert!(is_sent(&mut node));
}

#[test]
fn batch_of_an_earlier_exchange_is_not_executed() {
    let [(mut sender, trunk), (mut holder, _)] = Node::two();
    sender.attach(trunk, 0, "alice", 0);
    let bob = client_of("b", &["a", "b"]);
    (1..=2).for_each(|seq| sender.up(trunk, 0, seq, &bob, 0));
    let (exchange, earlier) = sender.opens_lane_to(&mut holder);
    let (peer, _) = sender.core.peers().addressed().next().unwrap();
    let frame = sender.core.peers_mut().take_lane_frame(sender.now, peer, exchange).unwrap();
    let (own, later) = sender.opens_lane_to(&mut holder);
    let mut accepts = |own| sender.core.accept_return(sender.now, (peer, own), ExchangeNumber(1)).is_some();
    assert_eq!([accepts(exchange), accepts(own)], [false, true], "nothing returns in a replaced exchange");
    let outcome = holder.core.batch(holder.now, earlier, &frame[HEAD_BYTES..]);
    assert!(matches!(outcome, Err(BatchError::Over)), "{outcome:?}");
    assert!(holder.core.batch(holder.now, later, &frame[HEAD_BYTES..]).is_ok());
    holder.core.on_process_pause(holder.now);
    assert!(matches!(holder.core.batch(holder.now, later, &frame[HEAD_BYTES..]), Err(BatchError::Over)));
}

#[test]
fn batch_of_a_peer_that_left_and_returned_runs_once() {
    let ((mut sender, senders), (mut holder, recipients), bob) = Node::pair();
    sender.up(senders, 0, 1, &bob, 0);
    let peer = sender.core.peers().addressed().next().unwrap().0;
    for (downs, away) in [(vec![1], Duration::ZERO), (vec![], 59 * SECOND), (vec![2], 60 * SECOND)] {
        holder.set_view(&["b"]);
        holder.now += away;
        holder.set_view(&["a", "b"]);
        let (exchange, inbound) = sender.opens_lane_to(&mut holder);
        let frame = sender.core.peers_mut().take_lane_frame(sender.now, peer, exchange).unwrap();
        holder.core.batch(holder.now, inbound, &frame[HEAD_BYTES..]).unwrap();
        assert_eq!(holder.take_output(recipients).downs, downs, "after {away:?}");
        holder.send_frame(recipients, &ToNode::Confirm { slot: 0, up_to: DownSeq(1), exceptions: vec![] });
        holder.core.inbound_lane_ended(holder.now, inbound);
    }
}

#[test]
fn node_remembers_1000_peers_that_left() {
    let mut node = Node::new("b");
    let opens = |node: &mut Node, number: usize| {
        let (incarnation, exchange) = (Incarnation([1; 8]), ExchangeNumber(1));
        let opening = Opening { sender: format!("a{number}"), incarnation, exchange };
        node.core.accept_lane(node.now, &opening).unwrap()
    };
    for number in 0..=1_000 {
        let inbound = opens(&mut node, number).unwrap();
        node.core.inbound_lane_ended(node.now, inbound);
        node.set_view(&["b"]);
    }
    assert!(opens(&mut node, 1).is_none(), "its exchange is known");
    assert!(opens(&mut node, 0).is_some(), "it is forgotten");
}

/// Returns the time in which a node redirects one message to each recipient of a suspect owner.
fn time_to_redirect(recipients: &[String]) -> Duration {
    let (mut node, trunk) = Node::among(&["a", "b", "c"]);
    node.attach(trunk, 0, "anna", 0);
    (1..).zip(recipients).for_each(|(seq, to)| node.up(trunk, 0, seq, to, 0));
    let (owner, _) = node.core.peers().addressed().next().unwrap();
    let start = Instant::now();
    node.core.refused(node.now, owner);
    let took = start.elapsed();
    assert_eq!(node.core.peers().suspects().map(ToString::to_string).collect::<Vec<_>>(), ["b"]);
    took
}

#[test]
fn redirect_takes_linear_time_when_many_messages_wait() {
    let recipients = clients_of("b", &["a", "b", "c"], 40_000, 1);
    // The minimum of several runs counts, since other processes share the cores.
    let runs = (0..8).map(|_| [5_000, 40_000].map(|count| time_to_redirect(&recipients[..count])));
    let [few, many] = runs.reduce(|[a, b], [c, d]| [a.min(c), b.min(d)]).unwrap();
    // The input is 8 times as large. Quadratic time would be 64 times as long.
    assert!(many < few * 24, "{few:?} for 5,000 and {many:?} for 40,000");
}

#[test]
fn every_owner_gets_the_location_after_a_full_lane() {
    const MOVED: usize = 60_000;
    // Together their names exceed the lane.
    let clients = clients_of("b", &["a", "b"], MOVED, 128);
    let (mut node, trunk) = Node::among(&["a"]);
    for (slot, client) in (0..).zip(&clients) {
        node.send_frame(trunk, &ToNode::Attach(Attach { state: Some(b"admitted"), ..newcomer(slot, client, 1) }));
    }
    node.set_view(&["a", "b"]);
    let (peer, exchange) = node.opens_lane();
    let mut told = BTreeSet::new();
    for _ in 0..20 {
        let mut last = BatchNumber::default();
        while let Some(frame) = node.core.peers_mut().take_lane_frame(node.now, peer, exchange) {
            let mut rest = &frame[HEAD_BYTES..];
            last = forward::open(&mut rest).unwrap().0;
            while !rest.is_empty() {
                if let Item::Located { client_id, here: true, .. } = Item::take(&mut rest).unwrap() {
                    told.insert(client_id.to_owned());
                }
            }
        }
        let of = Acknowledgement { number: last, names_you: true };
        node.core.lane_acknowledged(node.now, peer, exchange, (of, 0)).unwrap();
        node.pass(Duration::from_millis(50));
    }
    assert_eq!(told.len(), MOVED);
}
