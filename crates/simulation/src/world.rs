//! The world: servers, wires, clients, and the event loop. [`run`] is the entry of the crate.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use signaling_core::{edge, node};
use signaling_membership::View;
use signaling_wire::{BatchNumber, Incarnation, resume};

use crate::agenda::{Agenda, MS, Micros, SECOND, micros};
use crate::clients::{Client, Socket};
use crate::counters::Counters;
use crate::edges::{EdgeHost, node_id};
use crate::event::{ClientRequest, ConnId, Host, Input, Kind, Process};
use crate::journal::JournalWorld;
use crate::lanes::{Exchange, LaneFailure};
use crate::ledger::{Ledger, Violation};
use crate::mutant::{Mutant, Once, Ordered};
use crate::nodes::NodeHost;
use crate::plan::{Fault, Plan, Sending, Size, Traits};
use crate::players::Players;
use crate::rng::Rng;
use crate::rooms::{RoomPlan, RoomWorld};
use crate::subscribers::Subscribers;
use crate::trace::Trace;
use crate::trouble::Trouble;
use crate::trunks::Conn;

/// The result of one run.
#[derive(Debug)]
pub struct Outcome {
    /// The first broken promise; `None` if the run kept all.
    pub violation: Option<Violation>,
    /// Number of occurrences of each event.
    pub counters: Counters,
    /// The log of the run, one line per event; empty unless requested.
    pub trace: Vec<String>,
    /// XXH3 of the log's lines, each with a line feed. Runs with equal digests sent equal bytes.
    /// `None` unless the log or the digest is requested.
    pub digest: Option<u64>,
}

/// Inputs of a paused server, in order of arrival.
pub(crate) struct Pause {
    /// Start of the pause.
    pub(crate) since: Micros,
    pub(crate) backlog: Vec<Input>,
}

/// The latest process of a server.
#[derive(Default)]
pub(crate) struct Server {
    /// `false` after a kill, until the restart.
    pub(crate) alive: bool,
    /// Number of killed processes before this one.
    pub(crate) generation: u32,
    /// `None` while it runs or is killed.
    pub(crate) pause: Option<Pause>,
    /// Version of its view, an index of the world's views. `None` means that it has none.
    pub(crate) version: Option<usize>,
}

impl Server {
    /// Creates the state of a started process.
    pub(crate) fn start(generation: u32) -> Self {
        Self { alive: true, generation, ..Self::default() }
    }

    /// Returns the state after a kill, before the restart.
    pub(crate) fn killed(&self) -> Self {
        Self { generation: self.generation + 1, ..Self::default() }
    }
}

/// State of a run: servers, wires, clients and planned faults.
#[derive(Default)]
pub(crate) struct World {
    pub(crate) agenda: Agenda<World>,
    pub(crate) rng: Rng,
    pub(crate) trace: Trace,
    pub(crate) counters: Counters,
    pub(crate) ledger: Ledger,
    pub(crate) edges: Vec<EdgeHost>,
    pub(crate) nodes: Vec<NodeHost>,
    pub(crate) conns: Vec<Conn>,
    pub(crate) exchanges: Vec<Exchange>,
    pub(crate) clients: Vec<Client>,
    pub(crate) sockets: Vec<Socket>,
    pub(crate) sendings: Vec<Sending>,
    pub(crate) faults: Vec<Fault>,
    /// The action that ends each active fault, by its index among the faults.
    pub(crate) undo: BTreeMap<usize, crate::faults::Undo>,
    /// Directions, from one host to another, in which no packet passes. From an edge to a node
    /// means both directions.
    pub(crate) cut: BTreeSet<(Host, Host)>,
    /// Nodes that reach no other node, or a single one.
    pub(crate) cut_off_nodes: BTreeSet<usize>,
    /// Nodes that get no views.
    pub(crate) blind: BTreeSet<usize>,
    /// The nodes in discovery, by index, with `true` for draining ones.
    pub(crate) truth: BTreeMap<usize, bool>,
    /// Number of zones. 0: discovery names none.
    pub(crate) zones: usize,
    /// Published views, by version.
    pub(crate) views: Vec<Arc<View>>,
    /// Number of active faults that silence discovery.
    pub(crate) silences: usize,
    pub(crate) trouble: Trouble,
    /// Time until which a lane delivers nothing, by the indexes of its nodes.
    pub(crate) frozen_lanes: BTreeMap<(usize, usize), Micros>,
    /// Number of the last executed batch, by its sender's and recipient's processes.
    pub(crate) executed: BTreeMap<(Process, Process), BatchNumber>,
    /// Highest number of a batch of any node.
    pub(crate) sent_batches: u64,
    pub(crate) edge_settings: edge::Settings,
    /// Hold time of the mesh.
    pub(crate) hold: Duration,
    /// Maximum difference of a process's wall clock from the time of the world.
    skew: Micros,
    pub(crate) rules: Arc<node::Rules>,
    /// The rule that this mesh breaks; `None` in a sound one.
    pub(crate) mutant: Option<Mutant>,
    /// For a mutant: outcomes held back for order.
    pub(crate) ordered: BTreeMap<ConnId, Ordered>,
    /// For a mutant: requests between nodes so far.
    pub(crate) once: Once,
    /// `true` once clients leave for good at the end of the run.
    pub(crate) closing_down: bool,
    pub(crate) rooms: RoomWorld,
    pub(crate) journal: JournalWorld,
    pub(crate) subscribers: Subscribers,
    pub(crate) players: Players,
}

/// Interval of worlds with small limits for senders per recipient and for output, so that edges
/// refuse messages.
const TIGHT_EVERY: u64 = 6;
const TIGHT_AT: u64 = 4;
const TIGHT_SENDERS: usize = 2;
const TIGHT_OUTPUT_BYTES: usize = 48 * 1024;

/// Buffers full of messages to absent clients empty once per hold time.
const MAX_ROUNDS: usize = 40;

/// Runs the world of `seed` until all messages have an outcome, all clients have left and the
/// servers are empty. Ends at once when a promise is broken. With `traced` the outcome has a log.
/// May panic without an edge.
#[must_use]
pub fn run(seed: u64, size: &Size, traced: bool) -> Outcome {
    World::planned(seed, size, if traced { Trace::kept() } else { Trace::default() }).run(size)
}

/// Runs the world of `seed` like [`run`], for an outcome with a digest and without a log.
#[must_use]
pub fn run_digested(seed: u64, size: &Size) -> Outcome {
    World::planned(seed, size, Trace::digested()).run(size)
}

impl World {
    fn planned(seed: u64, size: &Size, trace: Trace) -> Self {
        let Plan { traits, sendings, acts, faults, hold, store_frames } = Plan::draw(&mut Rng::new(seed), size);
        let rooms = RoomPlan::draw(&mut Rng::new(seed ^ 0x0700_0357), size);
        let retransmit = edge::RetransmitLimits { frames: store_frames, ..edge::RetransmitLimits::default() };
        let mut edge_settings = edge::Settings { retransmit, ..edge::Settings::default() };
        if !size.roomy_edges && seed % TIGHT_EVERY == TIGHT_AT {
            edge_settings.dedup.bytes = TIGHT_SENDERS * edge::SENDER_BYTES;
            edge_settings.max_output_bytes = TIGHT_OUTPUT_BYTES;
        }
        if let Some(mutant) = size.mutant {
            mutant.edge(&mut edge_settings);
        }
        let rules = size.mutant.map_or_else(node::Rules::default, Mutant::rules);
        let subscribers = Subscribers::new(size.clients, rooms.settings.is_some());
        let all = traits.iter().copied().chain(vec![Traits::default(); subscribers.count]);
        let mut world = Self {
            rng: Rng::new(seed ^ 0x00c0_ffee),
            trace,
            ledger: Ledger::new(hold, store_frames, all.clone().map(|traits| traits.reliable).collect()),
            clients: all.map(|traits| Client::new(traits, store_frames)).collect(),
            sendings,
            faults,
            edge_settings,
            hold: Duration::from_micros(hold),
            skew: size.skew_seconds * SECOND,
            rules: Arc::new(rules),
            mutant: size.mutant,
            zones: size.zones,
            rooms: RoomWorld::new(seed, rooms, size.clients + subscribers.count),
            subscribers,
            ..Self::default()
        };
        for (message, Sending { at, from, to, ttl_ms, .. }) in world.sendings.iter().enumerate() {
            world.ledger.expect(*from, *to, *ttl_ms);
            let from = *from;
            let request = ClientRequest::Message(message);
            world.agenda.schedule(*at, move |world: &mut Self| world.client_wants(from, request));
        }
        if size.journal && world.rooms.settings().records_commits {
            world.plan_journal(seed);
        }
        world.plan_rooms();
        world.plan_subscribers(&mut Rng::new(seed ^ 0x0005_b5c2));
        for (at, act) in acts {
            world.agenda.schedule(at, act);
        }
        for (index, fault) in world.faults.iter().enumerate() {
            world.agenda.schedule(fault.at, move |world: &mut Self| world.fault_begins(index));
            world.agenda.schedule(fault.at + fault.lasts, move |world: &mut Self| world.fault_ends(index));
        }
        for index in 0..size.nodes {
            world.add_node(index);
            world.truth.insert(index, false);
        }
        for index in 0..size.edges {
            world.add_edge(index);
        }
        world.publish(true);
        world
    }

    /// Returns `true` if edges have small limits for senders and output.
    pub(crate) fn has_tight_edges(&self) -> bool {
        self.edge_settings.max_output_bytes == TIGHT_OUTPUT_BYTES
    }

    fn run(mut self, size: &Size) -> Outcome {
        let last_send = self.sendings.iter().map(|sending| sending.at).max().unwrap_or(0);
        let last_fault = self.faults.iter().map(|fault| fault.at + fault.lasts).max().unwrap_or(0);
        let hold = micros(self.hold);
        self.pass_until(last_send.max(last_fault) + 10 * SECOND);
        let quiet_from = last_send.max(last_fault).max(self.trouble.any.last_end()) + 10 * SECOND;
        let mut settled = quiet_from + hold + 6 * SECOND;
        self.pass_until(settled);
        // A sender that was not read for a while has its last messages accepted late.
        for _ in 0..MAX_ROUNDS {
            let due = self.ledger.last_taken + hold + 6 * SECOND;
            if due < settled && !self.unread() {
                break;
            }
            settled = settled.max(due) + SECOND;
            self.pass_until(settled);
        }
        if self.ledger.violation.is_none() {
            self.ledger.settle(quiet_from, |socket| self.sockets[socket].takes_outcomes());
            settled += self.rooms.stale() / 2 + MS;
            self.pass_until(settled);
            self.settle_rooms();
            self.settle_journal();
            self.check_subscribers();
            self.check_players();
            self.disconnect_clients();
            let quiet = settled + hold + 40 * SECOND;
            self.pass_until(quiet);
            for round in 1..=30 {
                if self.nodes.iter().all(|node| !node.server.alive || node.core.is_quiet()) {
                    break;
                }
                // Seats may have expired just now: the entries lack their acknowledgements.
                self.pass_until(quiet + SECOND / 5 * round);
            }
            self.check_nothing_is_left();
            self.pass_until(quiet + self.rooms.stale() / 2 + MS);
            self.check_rooms_are_empty();
        }
        self.finish(size)
    }

    fn pass_until(&mut self, end: Micros) {
        while self.ledger.violation.is_none() {
            let next = self.agenda.next_before(end);
            self.trace.now = self.agenda.now();
            self.ledger.now = self.agenda.now();
            let Some(act) = next else { return };
            act(self);
        }
    }

    fn input(&mut self, host: Host, generation: u32, input: Input) {
        let server = self.server_mut(host);
        if !server.alive || server.generation != generation {
            self.input_is_lost(input.kind);
        } else if let Some(pause) = &mut server.pause {
            pause.backlog.push(input);
        } else {
            self.carry_out(host, input);
        }
    }

    /// Reports a failure to the sender of an input whose server is down.
    fn input_is_lost(&mut self, kind: Kind) {
        let delay = self.rng.delay();
        match kind {
            Kind::Timer | Kind::Received => {}
            Kind::Connect(conn) => {
                let edge = Host::Edge(self.conns[conn].edge);
                self.later(edge, delay, move |world| world.connect_failed(conn));
            }
            Kind::Lane(id) => self.lane_fails(id, LaneFailure::Gone),
            Kind::Upgrade(socket) => self.upgrade_fails(socket),
        }
    }

    /// Runs an input of a server, and then all effects of the server's core.
    pub(crate) fn carry_out(&mut self, host: Host, input: Input) {
        (input.run)(self);
        match host {
            Host::Edge(index) => self.edge_turn(index),
            Host::Node(index) => self.node_turn(index),
        }
    }

    /// Returns the state of a server's process.
    pub(crate) fn server(&self, host: Host) -> &Server {
        match host {
            Host::Edge(index) => &self.edges[index].server,
            Host::Node(index) => &self.nodes[index].server,
        }
    }

    pub(crate) fn server_mut(&mut self, host: Host) -> &mut Server {
        match host {
            Host::Edge(index) => &mut self.edges[index].server,
            Host::Node(index) => &mut self.nodes[index].server,
        }
    }

    /// Schedules an input of a process. A paused process gets it after the pause. A later process
    /// does not get it; a request to connect then fails.
    pub(crate) fn deliver(
        &mut self,
        at: Micros,
        (host, generation): Process,
        kind: Kind,
        run: impl FnOnce(&mut Self) + 'static,
    ) {
        let input = Input { kind, run: Box::new(run) };
        self.agenda.schedule(at, move |world: &mut Self| world.input(host, generation, input));
    }

    /// Schedules an input of this kind for the present process of a server.
    pub(crate) fn later_as(&mut self, kind: Kind, host: Host, delay: Micros, run: impl FnOnce(&mut Self) + 'static) {
        let process = (host, self.server(host).generation);
        self.deliver(self.agenda.now() + delay, process, kind, run);
    }

    /// Schedules a received input for the present process of a server.
    pub(crate) fn later(&mut self, host: Host, delay: Micros, run: impl FnOnce(&mut Self) + 'static) {
        self.later_as(Kind::Received, host, delay, run);
    }

    /// Returns `true` unless a fault cuts the wire in this direction.
    pub(crate) fn reaches(&self, from: Host, to: Host) -> bool {
        !self.cut.contains(&(from, to))
    }

    /// Returns settings for a new process of a node, with a new incarnation.
    pub(crate) fn node_settings(&mut self, index: usize) -> node::Settings {
        let (now, since) = (self.agenda.instant(), Duration::from_micros(self.agenda.now()));
        let epoch = (now, std::time::UNIX_EPOCH + Duration::from_secs(1_700_000_000) + since);
        let (id, incarnation) = (node_id(index), Incarnation(self.rng.bytes()));
        let settings = node::Settings::new(id, incarnation, resume::Key::new([1; 32]), epoch);
        let skewed = if self.skew > 0 { self.rng.within(0, 2 * self.skew) } else { self.skew };
        let first_number = settings.first_number + skewed - self.skew;
        let (rules, mut rooms) = (Arc::clone(&self.rules), self.rooms.settings());
        if let Some(mutant) = self.mutant {
            mutant.rooms(&mut rooms, (now, first_number / MS));
        }
        rooms.has_journal = self.journal.is_on;
        node::Settings { hold: self.hold, rules, rooms, first_number, ..settings }
    }

    fn check_nothing_is_left(&mut self) {
        for (index, EdgeHost { core, .. }) in self.edges.iter().enumerate().filter(|(_, edge)| edge.server.alive) {
            if !core.is_empty() {
                self.ledger.broken("left behind", format!("{} sessions at e{index}", core.len()));
            }
        }
        for (index, NodeHost { core, .. }) in self.nodes.iter().enumerate().filter(|(_, node)| node.server.alive) {
            if !core.is_quiet() || core.held_bytes() > 0 {
                let (sessions, held) = (core.sessions(), core.held_bytes());
                let rooms = core.rooms().mesh_figures();
                let what =
                    format!("at n{index}: {sessions} sessions, {held} bytes held, {rooms:?} or messages in custody");
                self.ledger.broken("left behind", what);
            }
        }
    }

    fn finish(mut self, size: &Size) -> Outcome {
        for edge in &self.edges {
            crate::edges::count(&mut self.counters, &edge.core);
        }
        for node in &self.nodes {
            crate::nodes::count(&mut self.counters, &node.core);
        }
        for kind in size.kinds() {
            self.counters.add(kind.name(), 0);
        }
        self.counters.merge(&self.ledger.counters);
        let violation = self.ledger.violation;
        if let Some(violation) = &violation {
            self.trace.line(|| format!("VIOLATION {violation}"));
        }
        let (trace, digest) = self.trace.finish();
        Outcome { violation, counters: self.counters, trace, digest }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a world in which all messages have this padding, which the log does not show.
    fn padded(padding: usize) -> Outcome {
        let size = Size { faults: 0, messages: 50, steady_clients: true, rooms_percent: 0, ..Size::default() };
        let mut world = World::planned(1, &size, Trace::kept());
        world.sendings.iter_mut().for_each(|sending| sending.padding = padding);
        world.run(&size)
    }

    #[test]
    fn log_line_differs_if_one_byte_of_a_frame_differs() {
        let (one, other) = (padded(60), padded(61));
        assert_ne!(one.digest, other.digest);
        let text = |line: &String| line.rsplit_once('#').map_or_else(|| line.clone(), |(text, _)| text.to_owned());
        let texts = |outcome: &Outcome| outcome.trace.iter().map(text).collect::<Vec<_>>();
        assert_eq!(texts(&one), texts(&other));
        let pairs = one.trace.iter().zip(&other.trace);
        let differing: Vec<_> = pairs.filter(|(one, other)| one != other).map(|(one, _)| one).collect();
        for sent in [">n", "<n", " lane ", " gets "] {
            assert!(differing.iter().any(|line| line.contains(sent)), "{sent}");
        }
    }
}
