//! Pauses of a node's process that are too short to be detected: its timers run before its inputs.

use std::time::Duration;

use signaling_core::node::IDLE_SWEEP_INTERVAL;
use signaling_wire::trunk::ToNode;

use crate::node::{Node, SECOND, newcomer};

const PAUSE: Duration = Duration::from_millis(1_700);

impl Node {
    /// Pauses the node. The first timer after it is that of the sweep.
    fn is_paused(&mut self) {
        self.now += PAUSE;
        self.core.sweep(self.now);
    }

    /// Sweeps at this interval without input until a peer is suspect. Returns the number of sweeps.
    fn sweeps_until_suspect(&mut self, interval: Duration) -> Option<u32> {
        (1..100).find(|_| {
            self.now += interval;
            self.core.sweep(self.now);
            self.core.peers().suspects().count() > 0
        })
    }
}

#[test]
fn short_pause_suspects_nobody() {
    let (mut node, _) = Node::among(&["a", "b"]);
    let (peer, exchange) = node.opens_lane();
    node.pass(SECOND);
    node.is_paused();
    assert_eq!(node.core.peers().suspects().count(), 0);
    assert!(!node.core.peers().is_lane_cut(peer));
    node.core.lane_acknowledged(node.now, peer, exchange, Default::default()).unwrap();
    node.pass(SECOND);
    assert_eq!(node.core.peers().suspects().count(), 0);
    assert_eq!(node.sweeps_until_suspect(SECOND / 20), Some(20), "the pause does not count for later silence");
}

#[test]
fn answer_right_before_the_sweep_earns_no_time_in_advance() {
    let (mut node, _) = Node::among(&["a", "b"]);
    let (peer, exchange) = node.opens_lane();
    node.pass(SECOND);
    node.core.lane_acknowledged(node.now + PAUSE, peer, exchange, Default::default()).unwrap();
    node.is_paused();
    assert_eq!(node.sweeps_until_suspect(SECOND / 20), Some(40));
}

#[test]
fn rare_sweeps_detect_a_silent_peer() {
    for (interval, sweeps) in [(IDLE_SWEEP_INTERVAL, 8), (2 * IDLE_SWEEP_INTERVAL, 4), (SECOND, 4)] {
        let (mut node, _) = Node::among(&["a", "b"]);
        node.core.sweep(node.now);
        assert_eq!(node.sweeps_until_suspect(interval), Some(sweeps), "{interval:?}");
    }
}

#[test]
fn short_pause_leaves_a_contended_id_to_its_holder() {
    let (mut node, trunk) = Node::with_client("anna");
    let other = node.core.trunk_up(node.now);
    node.pass(SECOND);
    node.send_frame(other, &ToNode::Attach(newcomer(0, "anna", 2)));
    node.pass(SECOND / 2);
    node.is_paused();
    node.send_frame(trunk, &ToNode::Alive { slot: 0 });
    assert_eq!((node.take_output(trunk).closed, node.take_output(other).rejected), (vec![], vec![(0, 409)]));
}

#[test]
fn lane_that_was_asked_for_during_a_pause_is_refused() {
    let [(mut node, _), (mut other, _)] = Node::two();
    let (_, exchange) = other.opens_lane();
    let peer = other.core.peers().addressed().next().unwrap().0;
    let mut opens = |node: &mut Node| {
        let opening = other.core.peers_mut().open_lane(other.now, peer).unwrap();
        assert!(opening.exchange > exchange);
        node.core.accept_lane(node.now, &opening).unwrap().is_some()
    };
    node.now += 3 * SECOND;
    node.core.on_process_pause(node.now);
    assert!(!opens(&mut node), "its batches would count as prompt");
    node.now += SECOND / 10;
    assert!(opens(&mut node));
}
