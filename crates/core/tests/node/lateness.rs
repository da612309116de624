//! Batches that arrive late, over lanes and trunks: the TTLs in them are shorter by that time.

use std::time::Duration;

use signaling_core::edge::TrunkError;
use signaling_core::node::{BatchError, NodeCore, TrunkKey};
use signaling_wire::lane::HEAD_BYTES;
use signaling_wire::trunk::{ToEdge, ToNode};
use signaling_wire::{Elapsed, RemainingTtl, Seq};

use crate::node::{HOLD, Node, SECOND};

const MS: Duration = Duration::from_millis(1);

/// Takes the trunk's next batch. Returns the time in front of its messages, and their TTLs.
fn ttls(core: &mut NodeCore, trunk: TrunkKey) -> (Option<Duration>, Vec<Duration>) {
    let batch = core.take_trunk_batch(trunk);
    let (mut rest, mut time, mut ttls) = (&batch[..], None, Vec::new());
    while !rest.is_empty() {
        match ToEdge::take(&mut rest).unwrap() {
            ToEdge::Clock { elapsed, .. } => time = Some(elapsed.as_duration()),
            ToEdge::Down { ttl, .. } => ttls.push(ttl.as_duration()),
            _ => {}
        }
    }
    (time, ttls)
}

#[test]
fn late_batch_of_a_lane_shortens_the_ttls_in_it() {
    let ((mut sender, senders), (mut holder, recipients), bob) = Node::pair();
    let (exchange, inbound) = sender.opens_lane_to(&mut holder);
    let peer = sender.core.peers().addressed().next().unwrap().0;
    for (seq, late) in [(1, 0), (2, 3), (3, 4), (4, 5)] {
        sender.now += SECOND;
        sender.up(senders, 0, seq, &bob, 0);
        let frame = sender.core.peers_mut().take_lane_frame(sender.now, peer, exchange).unwrap();
        holder.now = sender.now + late * SECOND;
        holder.core.batch(holder.now, inbound, &frame[HEAD_BYTES..]).unwrap();
        assert_eq!(ttls(&mut holder.core, recipients).1, [HOLD - late * SECOND]);
    }
}

#[test]
fn batch_over_5_s_late_comes_again_in_the_next_exchange() {
    let ((mut sender, senders), (mut holder, recipients), bob) = Node::pair();
    let (exchange, inbound) = sender.opens_lane_to(&mut holder);
    let peer = sender.core.peers().addressed().next().unwrap().0;
    sender.up(senders, 0, 1, &bob, 0);
    let frame = sender.core.peers_mut().take_lane_frame(sender.now, peer, exchange).unwrap();
    holder.now = sender.now + 5 * SECOND + 10 * MS;
    let batch = &frame[HEAD_BYTES..];
    assert!(matches!(holder.core.batch(holder.now, inbound, batch), Err(BatchError::TooLate(_))));
    assert!(matches!(holder.core.batch(holder.now, inbound, batch), Err(BatchError::Over)), "the exchange is over");
    assert_eq!(ttls(&mut holder.core, recipients).1, []);
    sender.now = holder.now;
    sender.sends_to(&mut holder);
    assert_eq!(ttls(&mut holder.core, recipients).1, [HOLD - 5 * SECOND - 10 * MS]);
}

#[test]
fn slow_opening_of_an_exchange_shortens_no_ttl() {
    let ((mut sender, senders), (mut holder, recipients), bob) = Node::pair();
    holder.now += 2 * SECOND;
    let (exchange, inbound) = sender.opens_lane_to(&mut holder);
    let peer = sender.core.peers().addressed().next().unwrap().0;
    (sender.now, holder.now) = (sender.now + 2 * SECOND, holder.now + 2 * SECOND);
    sender.up(senders, 0, 1, &bob, 0);
    let frame = sender.core.peers_mut().take_lane_frame(sender.now, peer, exchange).unwrap();
    holder.core.batch(holder.now, inbound, &frame[HEAD_BYTES..]).unwrap();
    assert_eq!(ttls(&mut holder.core, recipients).1, [HOLD]);
}

/// Passes a signal from slot 0 to bob, sent at this time on the trunk's clock.
fn up(node: &mut Node, trunk: TrunkKey, seq: u64, elapsed: Elapsed) -> Result<(), TrunkError> {
    let (seq, ttl) = (Seq(seq), RemainingTtl::from_duration(HOLD));
    let mut bytes = Vec::new();
    ToNode::Clock { elapsed, counter: 0 }.append(&mut bytes);
    ToNode::Up { slot: 0, seq, ttl, payload: br#"{"type":"signal","to":"bob","data":""}"# }.append(&mut bytes);
    node.core.trunk_frames(node.now, trunk, &bytes)
}

#[test]
fn late_frames_of_an_edge_shorten_the_ttls_in_them() {
    let (mut node, trunk) = Node::with_client("alice");
    node.attach(trunk, 1, "bob", 0);
    let start = node.now;
    let at = |ms: u32| Elapsed::between(start, start + ms * MS);
    up(&mut node, trunk, 1, at(0)).unwrap();
    node.now = start + 2 * SECOND;
    up(&mut node, trunk, 2, at(500)).unwrap();
    assert_eq!(ttls(&mut node.core, trunk).1, [HOLD, HOLD - 1500 * MS]);
    node.now = start + 6 * SECOND;
    assert!(matches!(up(&mut node, trunk, 3, at(990)), Err(TrunkError::TooLate(_))));
    assert_eq!(ttls(&mut node.core, trunk).1, []);
    up(&mut node, trunk, 3, at(6_000)).unwrap();
    assert_eq!(ttls(&mut node.core, trunk).1, [HOLD]);
}

#[test]
fn messages_to_an_edge_carry_the_time_at_which_they_were_queued() {
    let (mut node, trunk) = Node::with_client("alice");
    node.attach(trunk, 1, "bob", 0);
    node.now += SECOND;
    let prompt = Elapsed::between(node.now, node.now + SECOND);
    up(&mut node, trunk, 1, prompt).unwrap();
    // The trunk takes no batch for a while.
    node.now += SECOND;
    assert_eq!(ttls(&mut node.core, trunk), (Some(SECOND), vec![HOLD]));
}

#[test]
fn silent_trunk_carries_its_time_every_500_ms() {
    let (mut node, trunk) = Node::with_client("alice");
    ttls(&mut node.core, trunk);
    let times = (0..7).filter_map(|_| {
        node.pass(250 * MS);
        ttls(&mut node.core, trunk).0
    });
    assert_eq!(times.collect::<Vec<_>>(), [500 * MS, SECOND, 1_500 * MS]);
}
