//! Messages in flight between servers, until the scenario delivers them.

use std::collections::VecDeque;

use signaling_core::edge::LinkKey;
use signaling_core::node::{PeerKey, TrunkKey};

use crate::mesh::Mesh;

/// A connection of an edge to a node, and the bytes in flight on it.
#[derive(Debug)]
pub(crate) struct Trunk {
    pub(crate) link: LinkKey,
    trunk: TrunkKey,
    up: VecDeque<Vec<u8>>,
    down: VecDeque<Vec<u8>>,
}

/// A batch in flight, or its answer.
#[derive(Debug)]
pub(crate) struct Call {
    peer: PeerKey,
    batch: Vec<u8>,
    answer: Option<Vec<u8>>,
    /// `true` after a failure, until the next attempt.
    failed: bool,
}

fn pair(from: &str, to: &str) -> (String, String) {
    (from.to_owned(), to.to_owned())
}

impl Mesh {
    /// Opens a trunk of an edge.
    pub(crate) fn trunk_is_up(&mut self, edge: &str, node: &str) {
        let link = self.edges.get_mut(edge).unwrap().link_up();
        let trunk = self.nodes.get_mut(node).unwrap().trunk_up();
        let trunk = Trunk { link, trunk, up: VecDeque::new(), down: VecDeque::new() };
        self.trunks.insert(pair(edge, node), trunk);
        self.flow();
    }

    /// Breaks a trunk with all bytes in flight. Both ends detect it.
    pub(crate) fn trunk_is_lost(&mut self, edge: &str, node: &str) {
        let trunk = self.trunks.remove(&pair(edge, node)).unwrap();
        self.nodes.get_mut(node).unwrap().trunk_down(self.now, trunk.trunk);
        self.edges.get_mut(edge).unwrap().link_down(trunk.link);
        self.flow();
    }

    /// Closes a trunk at the edge. The node has not detected it, so sent bytes may still arrive.
    pub(crate) fn trunk_is_given_up(&mut self, edge: &str, node: &str) {
        let trunk = self.trunks.remove(&pair(edge, node)).unwrap();
        self.edges.get_mut(edge).unwrap().link_down(trunk.link);
        self.given_up.push((node.to_owned(), trunk));
        self.flow();
    }

    /// Delivers to a node the bytes on trunks that have been closed since.
    pub(crate) fn reads_what_came_long_ago(&mut self, node: &str) {
        for (_, trunk) in self.given_up.extract_if(.., |(at, _)| at == node) {
            for frames in trunk.up {
                self.nodes.get_mut(node).unwrap().trunk_frames(self.now, trunk.trunk, &frames).unwrap();
            }
        }
        self.flow();
    }

    /// Holds back messages from `from` to `to`.
    pub(crate) fn hold_back(&mut self, from: &str, to: &str) {
        self.held_back.insert(pair(from, to));
    }

    /// Holds back messages of node `from` to `to`, and its answers to batches of `to`.
    pub(crate) fn hold_back_with_answers(&mut self, from: &str, to: &str) {
        self.hold_back(from, to);
        self.answers_held_back.insert(pair(from, to));
    }

    pub(crate) fn let_go(&mut self, from: &str, to: &str) {
        self.held_back.remove(&pair(from, to));
        self.answers_held_back.remove(&pair(from, to));
        self.flow();
    }

    /// Drops messages and answers from `from` to `to`.
    pub(crate) fn cut(&mut self, from: &str, to: &str) {
        self.cut.insert(pair(from, to));
    }

    pub(crate) fn heal(&mut self, from: &str, to: &str) {
        self.cut.remove(&pair(from, to));
    }

    /// Sends failed batches again.
    pub(crate) fn try_again(&mut self) {
        let Self { now, nodes, calls, cut, .. } = self;
        calls.retain(|(from, to, lane), call| {
            if call.answer.is_some() || !(call.failed || cut.contains(&pair(from, to))) {
                return true;
            }
            call.failed = false;
            let again = nodes.get(from).and_then(|node| node.lane_batch_again(*now, call.peer, *lane));
            again.map(|batch| call.batch = batch).is_some()
        });
    }

    /// Collects the output of all servers. Returns `true` if there was any.
    pub(crate) fn gather(&mut self) -> bool {
        let Self { now, nodes, edges, trunks, calls, paused, .. } = self;
        let mut busy = false;
        for ((edge, node), trunk) in trunks {
            let up = edges.get_mut(edge).filter(|_| !paused.contains(edge)).map(|core| core.take_batch(trunk.link));
            let down =
                nodes.get_mut(node).filter(|_| !paused.contains(node)).map(|core| core.take_trunk_batch(trunk.trunk));
            trunk.up.extend(up.filter(|bytes| !bytes.is_empty()));
            trunk.down.extend(down.filter(|bytes| !bytes.is_empty()));
        }
        for (from, core) in nodes.iter_mut().filter(|(id, _)| !paused.contains(*id)) {
            let name = |address: &str| address.trim_end_matches(":1").to_owned();
            let peers: Vec<_> = core.peers().map(|(peer, address)| (peer, name(address))).collect();
            for (peer, to) in peers {
                for lane in 0..core.lanes() {
                    if let Some(batch) = core.take_lane_batch(*now, peer, lane) {
                        busy = true;
                        let call = Call { peer, batch, answer: None, failed: false };
                        calls.insert((from.clone(), to.clone(), lane), call);
                    }
                }
            }
        }
        busy
    }

    /// Delivers all messages that are not held back. Returns `true` if there were any.
    pub(crate) fn carry(&mut self) -> bool {
        self.carry_frames() | self.carry_batches() | self.carry_answers()
    }

    fn carry_frames(&mut self) -> bool {
        let Self { now, nodes, edges, trunks, held_back, paused, .. } = self;
        let mut busy = false;
        for ((edge, node), trunk) in trunks {
            if !held_back.contains(&pair(edge, node)) && !paused.contains(node) {
                for frames in trunk.up.drain(..) {
                    busy = true;
                    nodes.get_mut(node).unwrap().trunk_frames(*now, trunk.trunk, &frames).unwrap();
                }
            }
            if !held_back.contains(&pair(node, edge)) && !paused.contains(edge) {
                for frames in trunk.down.drain(..) {
                    busy = true;
                    edges.get_mut(edge).unwrap().link_frames(*now, trunk.link, &frames).unwrap();
                }
            }
        }
        busy
    }

    fn carry_batches(&mut self) -> bool {
        let Self { now, nodes, calls, held_back, cut, paused, .. } = self;
        let mut busy = false;
        for ((from, to, _), call) in calls {
            let way = pair(from, to);
            if call.answer.is_some() || call.failed || held_back.contains(&way) || cut.contains(&way) {
                continue;
            }
            if nodes.get(to).is_some_and(|there| !there.has_view()) {
                call.failed = true;
            } else if let Some(there) = nodes.get_mut(to).filter(|_| !paused.contains(to)) {
                busy = true;
                call.answer = Some(there.batch(*now, &call.batch).unwrap());
            } else if !paused.contains(to) {
                call.failed = true;
                nodes.get_mut(from).unwrap().refused(*now, call.peer);
            }
        }
        busy
    }

    fn carry_answers(&mut self) -> bool {
        let Self { now, nodes, calls, answers_held_back, cut, paused, .. } = self;
        let mut busy = false;
        calls.retain(|(from, to, lane), call| {
            let way = pair(to, from);
            if cut.contains(&way) {
                call.failed |= call.answer.take().is_some();
            }
            if answers_held_back.contains(&way) || paused.contains(from) {
                return true;
            }
            let Some(answer) = call.answer.take() else { return true };
            busy = true;
            nodes.get_mut(from).unwrap().lane_answered(*now, call.peer, *lane, &answer).unwrap();
            false
        });
        busy
    }
}
