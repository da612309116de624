//! Messages in flight between servers, until the scenario delivers them.

use std::collections::VecDeque;

use signaling_core::edge::LinkKey;
use signaling_core::node::{InboundExchange, PeerKey, TrunkKey};
use signaling_wire::ExchangeNumber;
use signaling_wire::lane::{Acknowledgement, HEAD_BYTES};

use crate::mesh::Mesh;

/// A connection of an edge to a node, and the bytes in flight on it.
#[derive(Debug)]
pub(crate) struct Trunk {
    pub(crate) link: LinkKey,
    trunk: TrunkKey,
    up: VecDeque<Vec<u8>>,
    down: VecDeque<Vec<u8>>,
}

/// The present exchange of a lane, and the bytes in flight on it.
#[derive(Debug)]
pub(crate) struct Lane {
    peer: PeerKey,
    number: ExchangeNumber,
    inbound: InboundExchange,
    batches: VecDeque<Vec<u8>>,
    acknowledgements: VecDeque<Acknowledgement>,
}

fn pair(from: &str, to: &str) -> (String, String) {
    (from.to_owned(), to.to_owned())
}

impl Mesh {
    /// Opens a trunk of an edge.
    pub(crate) fn trunk_is_up(&mut self, edge: &str, node: &str) {
        let link = self.edges.get_mut(edge).unwrap().link_up(self.now, self.now);
        let trunk = self.nodes.get_mut(node).unwrap().trunk_up(self.now);
        let trunk = Trunk { link, trunk, up: VecDeque::new(), down: VecDeque::new() };
        self.trunks.insert(pair(edge, node), trunk);
        self.flow();
    }

    /// Breaks a trunk with all bytes in flight. Both ends detect it.
    pub(crate) fn trunk_is_lost(&mut self, edge: &str, node: &str) {
        let trunk = self.trunks[&pair(edge, node)].trunk;
        self.nodes.get_mut(node).unwrap().trunk_down(self.now, trunk);
        self.trunk_is_given_up(edge, node);
    }

    /// Closes a trunk at the edge, with all bytes in flight. The node has not detected it.
    pub(crate) fn trunk_is_given_up(&mut self, edge: &str, node: &str) {
        let trunk = self.trunks.remove(&pair(edge, node)).unwrap();
        self.edges.get_mut(edge).unwrap().link_down(trunk.link);
        self.flow();
    }

    /// Drops the bytes in flight to an edge, which was paused.
    pub(crate) fn trunks_stay_unread(&mut self, edge: &str) {
        self.trunks.iter_mut().filter(|((at, _), _)| at == edge).for_each(|(_, trunk)| trunk.down.clear());
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

    /// Opens the lanes that have no exchange, where the network and the receiver allow it.
    pub(crate) fn open_lanes(&mut self) {
        let Self { now, nodes, lanes, paused, .. } = self;
        let names: Vec<_> = nodes.keys().filter(|id| !paused.contains(*id)).cloned().collect();
        for from in names {
            let of_view =
                |(peer, address): (PeerKey, Option<&str>)| Some((peer, address?.trim_end_matches(":1").to_owned()));
            let peers: Vec<_> = nodes[&from].peers().addressed().filter_map(of_view).collect();
            for (peer, to) in peers {
                if lanes.contains_key(&pair(&from, &to)) || paused.contains(&to) {
                    continue;
                }
                let sender = nodes.get_mut(&from).unwrap();
                let opening = sender.peers_mut().open_lane(*now, peer).unwrap();
                let Some(receiver) = nodes.get_mut(&to) else {
                    nodes.get_mut(&from).unwrap().refused(*now, peer);
                    continue;
                };
                if !receiver.peers().has_view() {
                    continue;
                }
                let Some(inbound) = receiver.accept_lane(*now, &opening).unwrap() else { continue };
                let incarnation = receiver.settings().incarnation;
                let (number, batches) = (opening.exchange, VecDeque::new());
                let acknowledgements = receiver.take_acknowledgement(*now, inbound.peer).into_iter().collect();
                nodes.get_mut(&from).unwrap().lane_opened(*now, peer, number, incarnation);
                lanes.insert(pair(&from, &to), Lane { peer, number, inbound, batches, acknowledgements });
                if let Some(returns) = nodes.get_mut(&to).unwrap().open_return(*now, inbound) {
                    let accepted = nodes.get_mut(&from).unwrap().accept_return(*now, (peer, number), returns);
                    let Some(returned) = accepted else { continue };
                    let (peer, batches, acknowledgements) = (inbound.peer, VecDeque::new(), VecDeque::new());
                    let lane = Lane { peer, number: returns, inbound: returned, batches, acknowledgements };
                    lanes.insert(pair(&to, &from), lane);
                }
            }
        }
    }

    /// Ends exchanges with all bytes in flight. Both ends detect it.
    pub(crate) fn end_lanes(&mut self, ends: impl Fn(&str, &str) -> bool) {
        let Self { now, nodes, lanes, .. } = self;
        for ((from, to), lane) in lanes.extract_if(.., |(from, to), _| ends(from, to)) {
            if let Some(receiver) = nodes.get_mut(&to) {
                receiver.inbound_lane_ended(*now, lane.inbound);
            }
            if let Some(sender) = nodes.get_mut(&from) {
                sender.peers_mut().lane_ended(*now, lane.peer, lane.number);
            }
        }
    }

    /// Sends the acknowledgements that are due.
    pub(crate) fn acknowledge(&mut self) {
        let Self { now, nodes, lanes, paused, .. } = self;
        for ((_, to), lane) in lanes.iter_mut().filter(|((_, to), _)| !paused.contains(to)) {
            let due = nodes.get_mut(to).and_then(|receiver| receiver.take_acknowledgement(*now, lane.inbound.peer));
            lane.acknowledgements.extend(due);
        }
    }

    /// Collects the output of all servers. Returns `true` if there was any.
    pub(crate) fn gather(&mut self) -> bool {
        self.open_lanes();
        let Self { now, nodes, edges, trunks, lanes, paused, .. } = self;
        let mut busy = false;
        for ((edge, node), trunk) in trunks {
            let up = edges.get_mut(edge).filter(|_| !paused.contains(edge)).map(|core| core.take_batch(trunk.link));
            let down =
                nodes.get_mut(node).filter(|_| !paused.contains(node)).map(|core| core.take_trunk_batch(trunk.trunk));
            trunk.up.extend(up.filter(|bytes| !bytes.is_empty()));
            trunk.down.extend(down.filter(|bytes| !bytes.is_empty()));
        }
        let mut cuts = Vec::new();
        for ((from, to), lane) in lanes.iter_mut().filter(|((from, _), _)| !paused.contains(from)) {
            let core = nodes.get_mut(from).unwrap();
            while let Some(frame) = core.peers_mut().take_lane_frame(*now, lane.peer, lane.number) {
                busy = true;
                lane.batches.push_back(frame[HEAD_BYTES..].to_vec());
            }
            if core.peers().is_lane_cut(lane.peer) {
                cuts.push(pair(from, to));
            }
        }
        self.end_lanes(|from, to| cuts.contains(&pair(from, to)));
        busy
    }

    /// Delivers all messages that are not held back. Returns `true` if there were any.
    pub(crate) fn carry(&mut self) -> bool {
        let Self { now, nodes, edges, trunks, lanes, held_back, answers_held_back, paused, .. } = self;
        let waits = |from: &str, to: &str| paused.contains(to) || held_back.contains(&pair(from, to));
        let mut busy = false;
        for ((edge, node), trunk) in trunks {
            if !waits(edge, node) {
                for frames in trunk.up.drain(..) {
                    busy = true;
                    nodes.get_mut(node).unwrap().trunk_frames(*now, trunk.trunk, &frames).unwrap();
                }
            }
            if !waits(node, edge) {
                for frames in trunk.down.drain(..) {
                    busy = true;
                    edges.get_mut(edge).unwrap().link_frames(*now, trunk.link, &frames).unwrap();
                }
            }
        }
        for ((_, to), lane) in lanes.iter_mut().filter(|((from, to), _)| !waits(from, to)) {
            for batch in lane.batches.drain(..) {
                busy = true;
                let receiver = nodes.get_mut(to).unwrap();
                receiver.batch(*now, lane.inbound, &batch).unwrap();
                lane.acknowledgements.extend(receiver.take_acknowledgement(*now, lane.inbound.peer));
            }
        }
        for ((from, to), lane) in lanes {
            if !paused.contains(from) && !answers_held_back.contains(&pair(to, from)) {
                for of in lane.acknowledgements.drain(..) {
                    busy = true;
                    let acknowledged = (of, nodes[to].number(*now));
                    let sender = nodes.get_mut(from).unwrap();
                    sender.lane_acknowledged(*now, lane.peer, lane.number, acknowledged).unwrap();
                }
            }
        }
        busy
    }
}
