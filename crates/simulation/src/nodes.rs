//! A node: the real core with a simulated shell around it.

use std::collections::BTreeMap;
use std::rc::Rc;

use signaling_core::edge::FlushUrgency;
use signaling_core::node::{NodeCore, PeerKey, RoomTask, SWEEP_INTERVAL, Settings, TrunkKey};
use signaling_wire::RemainingTtl;
use signaling_wire::forward::{self, Item};

use crate::agenda::{MS, Micros, SECOND};
use crate::counters::Counters;
use crate::event::{ConnId, Event, Host, Input};
use crate::mutant::{Mutant, without_outcomes};
use crate::trunks::{End, front, seconds, short};
use crate::world::{Pause, World};

/// A batch in flight.
#[derive(Debug)]
struct Request {
    bytes: Rc<[u8]>,
    /// Id of the present attempt. `None` while the next one is scheduled.
    attempt: Option<u64>,
    tries: u32,
}

pub(crate) struct NodeHost {
    pub(crate) id: String,
    pub(crate) alive: bool,
    pub(crate) generation: u32,
    pub(crate) pause: Option<Pause>,
    pub(crate) core: NodeCore,
    version: Option<usize>,
    pub(crate) conns: BTreeMap<TrunkKey, ConnId>,
    peers: BTreeMap<PeerKey, usize>,
    requests: BTreeMap<(PeerKey, usize), Request>,
    flush_at: BTreeMap<(PeerKey, usize), Micros>,
    /// Batches in flight to the room store, by urgency.
    pub(crate) asked: [Option<Vec<RoomTask>>; 2],
}

const COMPANY: Micros = 2 * MS;
const ANSWER_WITHIN: Micros = 2 * SECOND;
const LONGEST_BACKOFF: Micros = SECOND;

pub(crate) fn count(counters: &mut Counters, core: &NodeCore) {
    let counts = core.counts();
    counters.add("nodes: requests", counts.requests);
    counters.add("nodes: refused", counts.refused.iter().sum());
    counters.add("nodes: delivered", counts.delivered);
    counters.add("nodes: unavailable", counts.unavailable);
    counters.add("nodes: forwarded", counts.forwarded);
    counters.add("nodes: passed on", counts.relayed);
    counters.add("nodes: resends", counts.retransmissions);
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
    fn new(settings: Settings) -> Self {
        Self {
            id: settings.id.to_string(),
            alive: true,
            generation: 0,
            pause: None,
            core: NodeCore::new(settings),
            version: None,
            conns: BTreeMap::new(),
            peers: BTreeMap::new(),
            requests: BTreeMap::new(),
            flush_at: BTreeMap::new(),
            asked: [None, None],
        }
    }
}

impl World {
    pub(crate) fn add_node(&mut self, index: usize) {
        let Some(settings) = self.node_settings(&format!("n{index}")) else { return };
        self.nodes.push(NodeHost::new(settings));
        self.later(Host::Node(index), MS, Input::Sweep);
    }

    /// Starts a new process under the same name.
    pub(crate) fn restart_node(&mut self, index: usize) {
        let Some(settings) = self.node_settings(&format!("n{index}")) else { return };
        let Some(node) = self.nodes.get_mut(index) else { return };
        *node = NodeHost { generation: node.generation, ..NodeHost::new(settings) };
        self.later(Host::Node(index), MS, Input::Sweep);
        if self.silences == 0 {
            self.later(Host::Node(index), MS, Input::View(self.views.len() - 1));
        }
    }

    /// Ends the process and drops its state.
    pub(crate) fn kill_node(&mut self, index: usize) {
        let Some(node) = self.nodes.get_mut(index) else { return };
        count(&mut self.counters, &node.core);
        let Some(settings) = self.node_settings(&format!("n{index}")) else { return };
        let Some(node) = self.nodes.get_mut(index) else { return };
        *node = NodeHost { alive: false, generation: node.generation + 1, ..NodeHost::new(settings) };
        self.reset_conns(Host::Node(index));
    }

    pub(crate) fn node_input(&mut self, index: usize, input: Input) {
        let now = self.agenda.instant();
        let Some(node) = self.nodes.get_mut(index) else { return };
        match input {
            Input::Sweep => {
                node.core.sweep(now);
                let every = Micros::try_from(SWEEP_INTERVAL.as_micros()).unwrap_or(SECOND);
                let conns: Vec<_> = node.conns.values().copied().collect();
                conns.into_iter().for_each(|conn| self.look_after(conn, End::Node));
                self.later(Host::Node(index), every, Input::Sweep);
            }
            Input::FlushConn(conn) => self.flush(conn, End::Node, true),
            Input::FlushLane(peer, lane) => self.flush_lane(index, (peer, lane), true),
            Input::View(version) => self.node_view(index, version),
            Input::ConnectArrives(conn) => self.node_connected(index, conn),
            Input::Arrives(conn, bytes) => {
                if self.arrives(conn, End::Node)
                    && let Some(trunk) = self.conns.get(conn).and_then(|conn| conn.trunk)
                    && let Some(node) = self.nodes.get_mut(index)
                    && let Err(error) = node.core.trunk_frames(now, trunk, &bytes)
                {
                    self.ledger.broken(self.agenda.now(), "damaged", error.to_string());
                }
            }
            Input::Closed(conn) => self.close_conn(conn, End::Node),
            Input::Batch { from, generation, attempt, bytes } => {
                self.batch_arrives(index, (from, generation), attempt, &bytes);
            }
            Input::Answer { attempt, bytes } => self.answer_arrives(index, attempt, bytes.as_deref()),
            Input::Timeout { attempt } | Input::Busy { attempt } => self.try_again(index, attempt),
            Input::Retry(peer, lane) => self.transmit(index, (peer, lane)),
            Input::Stored(urgency, answers) => self.store_answers(index, urgency, answers),
            _ => {}
        }
    }

    /// Executes all effects of the core.
    pub(crate) fn node_turn(&mut self, index: usize) {
        let Some(node) = self.nodes.get(index) else { return };
        let conns: Vec<_> = node.conns.values().copied().collect();
        let peers: Vec<_> = node.peers.keys().copied().collect();
        let lanes = node.core.lanes();
        conns.into_iter().for_each(|conn| self.flush(conn, End::Node, false));
        for peer in peers {
            (0..lanes).for_each(|lane| self.flush_lane(index, (peer, lane), false));
        }
        self.ask_store(index);
    }

    fn node_view(&mut self, index: usize, version: usize) {
        let Some(view) = self.views.get(version).cloned() else { return };
        let (now, instant) = (self.agenda.now(), self.agenda.instant());
        let Some(node) = self.nodes.get_mut(index) else { return };
        if node.version.is_some_and(|before| before >= version) {
            return;
        }
        self.trace.line(now, || format!("n{index} sees {}", crate::edges::names(&view)));
        node.version = Some(version);
        node.core.set_view(instant, view);
        let place = |address: &str| address.trim_start_matches('n').split(':').next()?.parse().ok();
        node.peers = node.core.peers().filter_map(|(key, address)| Some((key, place(address)?))).collect();
        let NodeHost { peers, requests, flush_at, .. } = node;
        requests.retain(|(peer, _), _| peers.contains_key(peer));
        flush_at.retain(|(peer, _), _| peers.contains_key(peer));
    }

    /// Returns `true` if the node has no view and thus refuses trunks and batches.
    fn lacks_view(&self, index: usize) -> bool {
        self.mutant != Some(Mutant::View) && self.nodes.get(index).is_some_and(|node| !node.core.has_view())
    }

    fn node_connected(&mut self, index: usize, id: ConnId) {
        let now = self.agenda.now();
        let Some(conn) = self.conns.get(id).filter(|conn| !conn.severed) else { return };
        let edge = conn.edge;
        if self.lacks_view(index) {
            self.counters.add("silence: trunks refused", u64::from(self.silences > 0));
            let delay = self.rng.delay();
            return self.later(Host::Edge(edge), delay, Input::ConnectFailed(id));
        }
        let (Some(conn), Some(node)) = (self.conns.get_mut(id), self.nodes.get_mut(index)) else { return };
        let trunk = node.core.trunk_up();
        node.conns.insert(trunk, id);
        conn.trunk = Some(trunk);
        let side = conn.side(End::Node);
        side.open = true;
        side.heard = now;
        self.answer_connect(id, edge);
    }

    fn flush_lane(&mut self, index: usize, lane: (PeerKey, usize), due: bool) {
        let (now, instant) = (self.agenda.now(), self.agenda.instant());
        let Some(node) = self.nodes.get_mut(index) else { return };
        if due {
            node.flush_at.remove(&lane);
        }
        match node.core.lane_wants(lane.0, lane.1) {
            FlushUrgency::Idle => {}
            FlushUrgency::Delayed if !due => {
                if let std::collections::btree_map::Entry::Vacant(entry) = node.flush_at.entry(lane) {
                    entry.insert(now + COMPANY);
                    self.later(Host::Node(index), COMPANY, Input::FlushLane(lane.0, lane.1));
                }
            }
            FlushUrgency::Delayed | FlushUrgency::Immediate => {
                if let Some(batch) = node.core.take_lane_batch(instant, lane.0, lane.1) {
                    node.requests.insert(lane, Request { bytes: Rc::from(batch), attempt: None, tries: 0 });
                    self.transmit(index, lane);
                }
            }
        }
    }

    /// Sends a batch, for the first time or again.
    fn transmit(&mut self, index: usize, lane: (PeerKey, usize)) {
        self.attempts += 1;
        let attempt = self.attempts;
        let delay = self.rng.delay();
        let (now, instant) = (self.agenda.now(), self.agenda.instant());
        let Some(node) = self.nodes.get_mut(index) else { return };
        let from = (index, node.generation);
        let (Some(to), Some(request)) = (node.peers.get(&lane.0).copied(), node.requests.get_mut(&lane)) else {
            return;
        };
        if request.attempt.is_some() {
            return;
        }
        request.attempt = Some(attempt);
        request.tries += 1;
        if request.tries > 1
            && let Some(again) = node.core.lane_batch_again(instant, lane.0, lane.1)
        {
            request.bytes = Rc::from(again);
        }
        self.counters.add("nodes: batches tried again", u64::from(request.tries > 1));
        let bytes = match self.mutant {
            Some(mutant) => Rc::from(mutant.between_nodes(&request.bytes, RemainingTtl::from_duration(self.hold))),
            None => Rc::clone(&request.bytes),
        };
        let reaches = self.reaches(Host::Node(index), Host::Node(to));
        let withheld = if reaches { self.withheld.remove(&(index, to)) } else { None };
        let bytes = withheld.map_or(Rc::clone(&bytes), |outcomes| Rc::from([&*bytes, &outcomes].concat()));
        self.look_for_copies(&bytes);
        if self.trace.is_wanted() {
            let lost = if reaches { "" } else { " (lost)" };
            self.trace.line(now, || format!("batch {attempt} n{index}>n{to}{lost} {}", describe(&bytes)));
        }
        self.later(Host::Node(index), ANSWER_WITHIN, Input::Timeout { attempt });
        if reaches {
            let (from, generation) = from;
            self.later(Host::Node(to), delay, Input::Batch { from, generation, attempt, bytes });
            if !self.is_alive(Host::Node(to)) {
                self.later(Host::Node(index), delay, Input::Answer { attempt, bytes: None });
            }
        }
    }

    fn batch_arrives(&mut self, index: usize, (from, generation): (usize, u32), attempt: u64, bytes: &[u8]) {
        let (now, instant) = (self.agenda.now(), self.agenda.instant());
        let delay = self.rng.delay();
        if self.lacks_view(index) {
            self.counters.add("silence: batches refused", u64::from(self.silences > 0));
            if self.reaches(Host::Node(index), Host::Node(from)) {
                self.agenda.after(delay, Event::At(Host::Node(from), generation, Input::Busy { attempt }));
            }
            return;
        }
        let Some(node) = self.nodes.get_mut(index) else { return };
        let answer = match (node.core.batch(instant, bytes), self.mutant) {
            (Ok(answer), Some(mutant)) => mutant.between_nodes(&answer, RemainingTtl::from_duration(self.hold)),
            (Ok(answer), None) => answer,
            (Err(error), _) => return self.ledger.broken(now, "damaged", error.to_string()),
        };
        let answer = if self.mutant == Some(Mutant::Answers) {
            let (rest, outcomes) = without_outcomes(&answer);
            self.withheld.entry((index, from)).or_default().extend(outcomes);
            rest
        } else {
            answer
        };
        let reaches = self.reaches(Host::Node(index), Host::Node(from));
        self.look_for_copies(&answer);
        if self.trace.is_wanted() {
            let lost = if reaches { "" } else { " (lost)" };
            self.trace.line(now, || format!("answer {attempt} n{from}<n{index}{lost} {}", describe(&answer)));
        }
        if reaches {
            let answer = Input::Answer { attempt, bytes: Some(answer) };
            self.agenda.after(delay, Event::At(Host::Node(from), generation, answer));
        }
    }

    fn look_for_copies(&mut self, bytes: &[u8]) {
        let over = self.copies.look(bytes);
        let left_behind = over.into_iter().filter(|message| self.ledger.is_acked(*message)).count();
        self.counters.add("nodes: copies left behind", left_behind as u64);
    }

    fn lane_of(&self, index: usize, attempt: u64) -> Option<(PeerKey, usize)> {
        let requests = &self.nodes.get(index)?.requests;
        requests.iter().find(|(_, request)| request.attempt == Some(attempt)).map(|(lane, _)| *lane)
    }

    fn answer_arrives(&mut self, index: usize, attempt: u64, bytes: Option<&[u8]>) {
        let Some(lane) = self.lane_of(index, attempt) else { return };
        let (now, instant) = (self.agenda.now(), self.agenda.instant());
        let Some(node) = self.nodes.get_mut(index) else { return };
        let Some(bytes) = bytes else {
            if self.mutant != Some(Mutant::Suspects) {
                node.core.refused(instant, lane.0);
            }
            return self.try_again(index, attempt);
        };
        node.requests.remove(&lane);
        if let Err(error) = node.core.lane_answered(instant, lane.0, lane.1, bytes) {
            self.ledger.broken(now, "damaged", error.to_string());
        }
    }

    /// Schedules the next attempt after a refusal or a timeout.
    fn try_again(&mut self, index: usize, attempt: u64) {
        let Some(lane) = self.lane_of(index, attempt) else { return };
        let jitter = self.rng.within(50, 100);
        let Some(request) = self.nodes.get_mut(index).and_then(|node| node.requests.get_mut(&lane)) else { return };
        request.attempt = None;
        let backoff = ((50 * MS) << request.tries.min(6)).min(LONGEST_BACKOFF) * jitter / 100;
        self.later(Host::Node(index), backoff, Input::Retry(lane.0, lane.1));
    }
}

fn describe(mut bytes: &[u8]) -> String {
    let Ok(header) = forward::open(&mut bytes) else { return "DAMAGED".to_owned() };
    let mut text = format!("[lane {} number {}] ", header.lane, header.number);
    while !bytes.is_empty() {
        match Item::take(&mut bytes) {
            Ok(Item::Envelope(envelope)) => text.push_str(&format!(
                "Envelope to {} {}/{} prev {} ttl {} via {:?} {}; ",
                envelope.to,
                short(envelope.origin.session.0),
                envelope.origin.number,
                envelope.prev_pending,
                seconds(envelope.ttl.as_duration()),
                envelope.via,
                front(envelope.payload)
            )),
            Ok(other) => text.push_str(&format!("{other:?}; ")),
            Err(_) => return text + "DAMAGED",
        }
    }
    text
}
