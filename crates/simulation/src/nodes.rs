//! A node: the real core with a simulated shell around it.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use signaling_core::edge::FlushUrgency;
use signaling_core::node::{NodeCore, PeerKey, RoomTask, SWEEP_INTERVAL, Settings, TrunkKey};
use signaling_wire::RemainingTtl;
use signaling_wire::forward::{self, Item};

use crate::agenda::{MS, Micros, SECOND, micros};
use crate::counters::Counters;
use crate::event::{ConnId, Host, Kind, NodeProcess};
use crate::mutant::{Mutant, without_outcomes};
use crate::trace;
use crate::trunks::{End, FLUSH_DELAY};
use crate::world::{Server, World};

/// A lane to another node.
type Lane = (PeerKey, usize);

/// A batch in flight.
#[derive(Debug)]
struct Request {
    bytes: Rc<[u8]>,
    /// Id of the present attempt. `None` while the next one is scheduled.
    attempt: Option<u64>,
    tries: u32,
}

pub(crate) struct NodeHost {
    pub(crate) server: Server,
    pub(crate) core: NodeCore,
    pub(crate) conns: BTreeMap<TrunkKey, ConnId>,
    peers: BTreeMap<PeerKey, usize>,
    requests: BTreeMap<Lane, Request>,
    /// Lanes whose output waits for other output.
    waiting: BTreeSet<Lane>,
    /// Batches in flight to the room store, by urgency.
    pub(crate) asked: [Option<Vec<RoomTask>>; 2],
}

const ANSWER_TIMEOUT: Micros = 2 * SECOND;
const MAX_BACKOFF: Micros = SECOND;

pub(crate) fn count(counters: &mut Counters, core: &NodeCore) {
    let counts = core.counts();
    counters.add("nodes: requests", counts.requests);
    counters.add("nodes: refused", counts.refused.iter().sum());
    counters.add("nodes: delivered", counts.delivered);
    counters.add("nodes: unavailable", counts.unavailable);
    counters.add("nodes: forwarded", counts.forwarded);
    counters.add("nodes: envelopes relayed", counts.relayed);
    counters.add("nodes: retransmissions", counts.retransmissions);
    counters.add("nodes: dropped", counts.dropped);
    counters.add("nodes: attached", counts.attached);
    counters.add("nodes: sessions resumed", counts.resumed);
    counters.add("nodes: lingering sessions moved", counts.lingering_moved);
    counters.add("nodes: holds expired", counts.expired);
    counters.add("nodes: detours", counts.detours);
    let counts = core.room_counts();
    counters.add("rooms: commands", counts.commands);
    counters.add("rooms: operations that the store did not answer", counts.failures);
    counters.add("rooms: resyncs", counts.resyncs);
    counters.add("rooms: seats restored", counts.restored);
    counters.add("rooms: broadcasts", counts.broadcasts);
}

impl NodeHost {
    fn new(server: Server, settings: Settings) -> Self {
        Self {
            server,
            core: NodeCore::new(settings),
            conns: BTreeMap::new(),
            peers: BTreeMap::new(),
            requests: BTreeMap::new(),
            waiting: BTreeSet::new(),
            asked: [None, None],
        }
    }
}

impl World {
    pub(crate) fn add_node(&mut self, index: usize) {
        let settings = self.node_settings(index);
        self.nodes.push(NodeHost::new(Server::start(0), settings));
        self.node_sweeps_after(index, MS);
    }

    /// Starts a new process under the same name.
    pub(crate) fn restart_node(&mut self, index: usize) {
        let settings = self.node_settings(index);
        let node = &mut self.nodes[index];
        *node = NodeHost::new(Server::start(node.server.generation), settings);
        self.node_sweeps_after(index, MS);
        self.gets_latest_view(Host::Node(index));
    }

    /// Ends the process and drops its state.
    pub(crate) fn kill_node(&mut self, index: usize) {
        let settings = self.node_settings(index);
        let node = &mut self.nodes[index];
        count(&mut self.counters, &node.core);
        *node = NodeHost::new(node.server.killed(), settings);
        self.reset_conns(Host::Node(index));
    }

    fn node_sweeps_after(&mut self, index: usize, delay: Micros) {
        self.later_as(Kind::Timer, Host::Node(index), delay, move |world| world.node_sweep(index));
    }

    fn node_sweep(&mut self, index: usize) {
        let node = &mut self.nodes[index];
        node.core.sweep(self.agenda.instant());
        let conns: Vec<_> = node.conns.values().copied().collect();
        conns.into_iter().for_each(|conn| self.keep_alive(conn, End::Node));
        self.node_sweeps_after(index, micros(SWEEP_INTERVAL));
    }

    pub(crate) fn node_frames(&mut self, id: ConnId, bytes: &[u8]) {
        let conn = &self.conns[id];
        let (index, trunk) = (conn.node, conn.trunk);
        if self.arrives(id, End::Node)
            && let Some(trunk) = trunk
            && let Err(error) = self.nodes[index].core.trunk_frames(self.agenda.instant(), trunk, bytes)
        {
            self.ledger.broken("damaged", error.to_string());
        }
    }

    /// Executes all effects of the core.
    pub(crate) fn node_turn(&mut self, index: usize) {
        let node = &self.nodes[index];
        let conns: Vec<_> = node.conns.values().copied().collect();
        let peers: Vec<_> = node.peers.keys().copied().collect();
        let lanes = node.core.lanes();
        conns.into_iter().for_each(|conn| self.flush(conn, End::Node, false));
        for peer in peers {
            (0..lanes).for_each(|lane| self.flush_lane(index, (peer, lane), false));
        }
        self.ask_store(index);
    }

    pub(crate) fn node_view(&mut self, index: usize, version: usize) {
        let node = &mut self.nodes[index];
        node.core.set_view(self.agenda.instant(), self.views[version].clone());
        let place = |address: &str| address.trim_start_matches('n').split(':').next()?.parse().ok();
        node.peers = node.core.peers().filter_map(|(key, address)| Some((key, place(address)?))).collect();
        let NodeHost { peers, requests, waiting, .. } = node;
        requests.retain(|(peer, _), _| peers.contains_key(peer));
        waiting.retain(|(peer, _)| peers.contains_key(peer));
    }

    /// Returns `true` if the node has no view and thus refuses trunks and batches.
    fn lacks_view(&self, index: usize) -> bool {
        self.mutant != Some(Mutant::View) && !self.nodes[index].core.has_view()
    }

    pub(crate) fn node_connected(&mut self, id: ConnId) {
        let conn = &self.conns[id];
        let (index, edge) = (conn.node, conn.edge);
        if conn.severed {
            return;
        }
        if self.lacks_view(index) {
            self.counters.add("silence: trunks refused", u64::from(self.silences > 0));
            let delay = self.rng.delay();
            return self.later(Host::Edge(edge), delay, move |world| world.connect_failed(id));
        }
        let (conn, node) = (&mut self.conns[id], &mut self.nodes[index]);
        let trunk = node.core.trunk_up();
        node.conns.insert(trunk, id);
        conn.trunk = Some(trunk);
        let side = conn.side(End::Node);
        side.open = true;
        side.heard = self.agenda.now();
        self.answer_connect(id);
    }

    fn flush_lane(&mut self, index: usize, lane: Lane, due: bool) {
        let node = &mut self.nodes[index];
        if due {
            node.waiting.remove(&lane);
        }
        match node.core.lane_wants(lane.0, lane.1) {
            FlushUrgency::Idle => {}
            FlushUrgency::Delayed if !due => {
                if node.waiting.insert(lane) {
                    let flush = move |world: &mut Self| world.flush_lane(index, lane, true);
                    self.later_as(Kind::Timer, Host::Node(index), FLUSH_DELAY, flush);
                }
            }
            FlushUrgency::Delayed | FlushUrgency::Immediate => {
                if let Some(batch) = node.core.take_lane_batch(self.agenda.instant(), lane.0, lane.1) {
                    node.requests.insert(lane, Request { bytes: Rc::from(batch), attempt: None, tries: 0 });
                    self.transmit(index, lane);
                }
            }
        }
    }

    /// Sends a batch, for the first time or again.
    fn transmit(&mut self, index: usize, lane: Lane) {
        self.attempts += 1;
        let attempt = self.attempts;
        let delay = self.rng.delay();
        let node = &mut self.nodes[index];
        let (Some(to), Some(request)) = (node.peers.get(&lane.0).copied(), node.requests.get_mut(&lane)) else {
            return;
        };
        if request.attempt.is_some() {
            return;
        }
        request.attempt = Some(attempt);
        request.tries += 1;
        if request.tries > 1
            && let Some(again) = node.core.lane_batch_again(self.agenda.instant(), lane.0, lane.1)
        {
            request.bytes = Rc::from(again);
        }
        self.counters.add("nodes: batches tried again", u64::from(request.tries > 1));
        let bytes = match self.mutant {
            Some(mutant) => Rc::from(mutant.between_nodes(&request.bytes, RemainingTtl::from_duration(self.hold))),
            None => Rc::clone(&request.bytes),
        };
        let (here, there) = (Host::Node(index), Host::Node(to));
        let reaches = self.reaches(here, there);
        let withheld = if reaches { self.withheld.remove(&(index, to)) } else { None };
        let bytes = withheld.map_or(Rc::clone(&bytes), |outcomes| Rc::from([&*bytes, &outcomes].concat()));
        self.observe_copies(&bytes);
        let lost = if reaches { "" } else { " (lost)" };
        self.trace.line(|| format!("batch {attempt} {here}>{there}{lost} {}", describe(&bytes)));
        self.later_as(Kind::Timer, here, ANSWER_TIMEOUT, move |world| world.try_again(index, attempt));
        if reaches {
            let from = (index, self.server(here).generation);
            let arrive = move |world: &mut Self| world.batch_arrives(to, from, attempt, &bytes);
            self.later_as(Kind::Batch(from, attempt), there, delay, arrive);
            if !self.server(there).alive {
                self.batch_is_refused(delay, from, attempt);
            }
        }
    }

    fn batch_arrives(&mut self, index: usize, from: NodeProcess, attempt: u64, bytes: &[u8]) {
        let (here, there) = (Host::Node(index), Host::Node(from.0));
        let delay = self.rng.delay();
        let reaches = self.reaches(here, there);
        if self.lacks_view(index) {
            self.counters.add("silence: batches refused", u64::from(self.silences > 0));
            if reaches {
                self.batch_is_put_off(delay, from, attempt);
            }
            return;
        }
        let mut answer = match self.nodes[index].core.batch(self.agenda.instant(), bytes) {
            Ok(answer) => answer,
            Err(error) => return self.ledger.broken("damaged", error.to_string()),
        };
        if let Some(mutant) = self.mutant {
            answer = mutant.between_nodes(&answer, RemainingTtl::from_duration(self.hold));
            if mutant == Mutant::Answers {
                let (rest, outcomes) = without_outcomes(&answer);
                self.withheld.entry((index, from.0)).or_default().extend(outcomes);
                answer = rest;
            }
        }
        self.observe_copies(&answer);
        let lost = if reaches { "" } else { " (lost)" };
        self.trace.line(|| format!("answer {attempt} {there}<{here}{lost} {}", describe(&answer)));
        if reaches {
            self.answer(delay, from, move |world| world.answer_arrives(from.0, attempt, Some(&answer)));
        }
    }

    fn answer(&mut self, delay: Micros, (node, generation): NodeProcess, arrive: impl FnOnce(&mut Self) + 'static) {
        self.deliver(self.agenda.now() + delay, (Host::Node(node), generation), Kind::Received, arrive);
    }

    /// Reports to the sending node that the other one is down.
    pub(crate) fn batch_is_refused(&mut self, delay: Micros, from: NodeProcess, attempt: u64) {
        self.answer(delay, from, move |world| world.answer_arrives(from.0, attempt, None));
    }

    /// Reports to the sending node that the other one was paused or has no view.
    pub(crate) fn batch_is_put_off(&mut self, delay: Micros, from: NodeProcess, attempt: u64) {
        self.answer(delay, from, move |world| world.try_again(from.0, attempt));
    }

    fn observe_copies(&mut self, bytes: &[u8]) {
        let over = self.copies.observe(bytes);
        let left_behind = over.into_iter().filter(|message| self.ledger.is_acked(*message)).count();
        self.counters.add("nodes: copies left behind", left_behind as u64);
    }

    fn lane_of(&self, index: usize, attempt: u64) -> Option<Lane> {
        let requests = &self.nodes[index].requests;
        requests.iter().find(|(_, request)| request.attempt == Some(attempt)).map(|(lane, _)| *lane)
    }

    fn answer_arrives(&mut self, index: usize, attempt: u64, bytes: Option<&[u8]>) {
        let Some(lane) = self.lane_of(index, attempt) else { return };
        let (node, instant) = (&mut self.nodes[index], self.agenda.instant());
        let Some(bytes) = bytes else {
            if self.mutant != Some(Mutant::Suspects) {
                node.core.refused(instant, lane.0);
            }
            return self.try_again(index, attempt);
        };
        node.requests.remove(&lane);
        if let Err(error) = node.core.lane_answered(instant, lane.0, lane.1, bytes) {
            self.ledger.broken("damaged", error.to_string());
        }
    }

    /// Schedules the next attempt after a refusal or a timeout.
    fn try_again(&mut self, index: usize, attempt: u64) {
        let Some(lane) = self.lane_of(index, attempt) else { return };
        let jitter = self.rng.within(50, 100);
        let Some(request) = self.nodes[index].requests.get_mut(&lane) else { return };
        request.attempt = None;
        let backoff = ((50 * MS) << request.tries.min(6)).min(MAX_BACKOFF) * jitter / 100;
        self.later_as(Kind::Timer, Host::Node(index), backoff, move |world| world.transmit(index, lane));
    }
}

fn describe(mut bytes: &[u8]) -> String {
    let Ok(header) = forward::open(&mut bytes) else { return "DAMAGED".to_owned() };
    format!("[lane {} number {}] {}", header.lane, header.number, trace::describe(bytes, Item::take))
}
