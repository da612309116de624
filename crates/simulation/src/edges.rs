//! An edge: the real core with a simulated balancer shell around it.

use std::collections::BTreeMap;

use signaling_core::balancer::handoff_scheduler::HandoffScheduler;
use signaling_core::balancer::placement::Placement;
use signaling_core::edge::{ClientKey, EdgeCore, Effect, LinkKey, Refusal, SWEEP_INTERVAL, Settings};
use signaling_protocol::{CloseCode, NodeId};
use signaling_wire::trunk::DetachReason;

use crate::agenda::{MS, Micros, SECOND};
use crate::counters::Counters;
use crate::event::{ConnId, Event, Exit, Host, Input, SocketId};
use crate::mutant::Mutant;
use crate::trunks::{End, SILENCE};
use crate::world::{Pause, World};

/// State of the edge's link to one node.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Way {
    /// Time of the next attempt, and the delay after a failure.
    Down {
        retry_at: Micros,
        backoff: Micros,
    },
    Connecting {
        conn: ConnId,
        backoff: Micros,
    },
    Up {
        conn: ConnId,
    },
}

pub(crate) struct EdgeHost {
    pub(crate) id: String,
    pub(crate) alive: bool,
    pub(crate) generation: u32,
    started: Micros,
    pub(crate) pause: Option<Pause>,
    pub(crate) core: EdgeCore,
    /// `true` once the edge accepts no clients.
    pub(crate) draining: bool,
    placement: Placement,
    moves: HandoffScheduler,
    version: Option<usize>,
    /// By node: the nodes of the view, and removed nodes that still have a trunk.
    ways: BTreeMap<usize, Way>,
    pub(crate) socket_by_client: BTreeMap<ClientKey, SocketId>,
    swept: Micros,
}

const LOOK: Micros = 100 * MS;
/// A small number, so that views and nodes change while clients wait for a handoff.
const PER_TURN: usize = 1;
const TURN: Micros = 5 * MS;
/// Nodes retransmit a message without an outcome after 2 s, or 5 s if it was held.
const REFUSED_COMES_AGAIN: Micros = 6 * SECOND;
const FIRST_BACKOFF: Micros = 100 * MS;
const LONGEST_BACKOFF: Micros = 5 * SECOND;
/// Maximum reconnect delay of a drained client.
const MOST_RETRY_AFTER: Micros = SECOND;
/// Maximum time to the admission decision for a new client.
const DECISION_TIMEOUT: Micros = 8 * SECOND;

pub(crate) fn count(counters: &mut Counters, core: &EdgeCore) {
    let counts = core.counts();
    counters.add("edges: ups", counts.ups);
    counters.add("edges: downs written", counts.downs);
    counters.add("edges: filtered repeats", counts.duplicates);
    counters.add("edges: gaps and passed", counts.sequence_gaps);
    counters.add("edges: ups sent again", counts.retransmissions);
    counters.add("edges: handoffs", counts.handoffs);
    counters.add("edges: full stores", counts.read_pauses);
    counters.add("edges: messages refused by full filters", counts.full_filters);
    counters.add("edges: messages refused by full outputs", counts.full_outputs);
    counters.add("edges: closes", counts.closes);
}

impl EdgeHost {
    fn new(index: usize, settings: &Settings) -> Self {
        Self {
            id: format!("e{index}"),
            alive: true,
            generation: 0,
            started: 0,
            pause: None,
            core: EdgeCore::new(settings.clone()),
            draining: false,
            placement: Placement::new(0),
            moves: HandoffScheduler::new(PER_TURN),
            version: None,
            ways: BTreeMap::new(),
            socket_by_client: BTreeMap::new(),
            swept: 0,
        }
    }
}

impl World {
    pub(crate) fn add_edge(&mut self, index: usize) {
        self.edges.push(EdgeHost::new(index, &self.edge_settings));
        self.later(Host::Edge(index), LOOK, Input::Sweep);
    }

    /// Starts a new process under the same name.
    pub(crate) fn restart_edge(&mut self, index: usize) {
        let (started, new) = (self.agenda.now(), EdgeHost::new(index, &self.edge_settings));
        let Some(edge) = self.edges.get_mut(index) else { return };
        *edge = EdgeHost { generation: edge.generation, swept: edge.swept, started, ..new };
        self.later(Host::Edge(index), LOOK, Input::Sweep);
        if self.silences == 0 {
            self.later(Host::Edge(index), MS, Input::View(self.views.len() - 1));
        }
    }

    pub(crate) fn edge_input(&mut self, index: usize, input: Input) {
        match input {
            Input::Sweep => self.edge_sweep(index),
            Input::FlushConn(conn) => self.flush(conn, End::Edge, true),
            Input::Move => self.edge_moves(index),
            Input::View(version) => self.edge_view(index, version),
            Input::SendAway(client) => self.send_away(index, client),
            Input::Connected(conn) => self.edge_connected(index, conn),
            Input::ConnectFailed(conn) => {
                let is_it = |way: &Way| matches!(way, Way::Connecting { conn: other, .. } if *other == conn);
                if self.edges[index].ways.values().any(is_it) {
                    self.close_conn(conn, End::Edge);
                }
            }
            Input::Arrives(conn, bytes) => self.edge_frames(index, conn, &bytes),
            Input::Closed(conn) => self.close_conn(conn, End::Edge),
            Input::Newcomer(socket) => self.edge_newcomer(index, socket),
            Input::Text(socket, message) => self.edge_text(index, socket, message),
            Input::SocketGone(socket, exit) => self.socket_gone(index, socket, exit),
            Input::Writable(socket) => {
                if let Some(key) = self.key_of(socket) {
                    self.sockets[socket].writable_planned = false;
                    self.write_out(index, key);
                }
            }
            Input::Opened(socket) => self.opened(index, socket),
            Input::GiveUpWaiting(socket) => self.give_up_waiting(index, socket),
            _ => {}
        }
    }

    fn socket_gone(&mut self, index: usize, socket: SocketId, exit: Exit) {
        let is_open = self.is_open(socket);
        let Some((key, edge)) = self.key_of(socket).zip(self.edges.get_mut(index)) else { return };
        match exit {
            Exit::Close(_) if is_open && self.mutant == Some(Mutant::Goodbye) => {
                edge.core.client_left(key, Some(CloseCode::NORMAL));
            }
            Exit::Close(code) if is_open => edge.core.client_left(key, code),
            Exit::GOODBYE => edge.core.socket_closed(key, DetachReason::Left),
            _ => edge.core.socket_closed(key, DetachReason::Lost),
        }
        edge.socket_by_client.remove(&key);
        self.socket_ended(socket);
    }

    /// Executes all effects of the core.
    pub(crate) fn edge_turn(&mut self, index: usize) {
        loop {
            let mut idle = true;
            while let Some(effect) = self.edges[index].core.next_effect() {
                idle = false;
                self.edge_effect(index, effect);
            }
            for client in self.edges[index].core.take_clients_with_output() {
                idle = false;
                self.write_out(index, client);
            }
            if idle {
                break;
            }
        }
        for conn in self.edge_conns(index) {
            self.flush(conn, End::Edge, false);
        }
    }

    fn edge_conns(&self, index: usize) -> Vec<ConnId> {
        let ways = self.edges[index].ways.values();
        ways.filter_map(|way| if let Way::Up { conn } = way { Some(*conn) } else { None }).collect()
    }

    fn edge_effect(&mut self, index: usize, effect: Effect) {
        match effect {
            Effect::AssignNode(client) => self.place(index, client),
            Effect::Accept(client) => self.accepted(index, client),
            Effect::Refuse(client, refusal) => self.refused(index, client, &refusal),
            Effect::Close(client, code, last_words) => self.closed_by_mesh(index, client, code, &last_words),
            Effect::Read(client) => self.read_again(index, client),
            // The simulation has no token verification.
            Effect::Verify(..) => {}
            // The simulation has no kicks.
            Effect::Kick(_) => {}
        }
    }

    fn place(&mut self, index: usize, client: ClientKey) {
        let now = self.agenda.instant();
        let Some(edge) = self.edges.get_mut(index) else { return };
        let Some(key) = edge.core.key_hash(client) else { return };
        match edge.placement.choose(key) {
            Some(link) => edge.core.attach(now, client, link),
            None => {
                let (code, message) = ("no_node".to_owned(), "no node can be reached".to_owned());
                edge.core.refuse(client, Refusal { status: 503, code, message, retry_after_ms: None });
                if edge.core.key_hash(client).is_some() {
                    edge.placement.keep_unplaced(client);
                }
            }
        }
    }

    /// Starts a rebalance and assigns nodes to clients without one.
    fn rebalance(&mut self, index: usize) {
        let now = self.agenda.instant();
        let Some(edge) = self.edges.get_mut(index) else { return };
        let begins = edge.moves.plan(now, &edge.placement, &edge.core).is_some();
        for client in edge.placement.take_unplaced() {
            self.place(index, client);
        }
        if begins {
            self.edge_moves(index);
        }
    }

    /// Hands off some of the clients that must move.
    fn edge_moves(&mut self, index: usize) {
        let now = self.agenda.instant();
        let Some(edge) = self.edges.get_mut(index) else { return };
        edge.moves.tick(now, &edge.placement, &mut edge.core);
        if !edge.moves.is_over() {
            self.later(Host::Edge(index), TURN, Input::Move);
        }
    }

    fn edge_sweep(&mut self, index: usize) {
        let (now, instant) = (self.agenda.now(), self.agenda.instant());
        self.later(Host::Edge(index), LOOK, Input::Sweep);
        let Some(edge) = self.edges.get_mut(index) else { return };
        if u128::from(now - edge.swept) >= SWEEP_INTERVAL.as_micros() {
            edge.swept = now;
            edge.core.sweep(instant);
        }
        if edge.placement.look(instant) {
            self.rebalance(index);
        }
        let edge = &self.edges[index];
        let members = self.members_seen_by(edge.version);
        let ways: Vec<_> = edge.ways.iter().map(|(node, way)| (*node, *way)).collect();
        for (node, way) in ways {
            match way {
                Way::Down { .. } if !members.contains(&node) => {
                    self.edges[index].ways.remove(&node);
                }
                Way::Down { retry_at, backoff } if retry_at <= now => {
                    let conn = self.open_conn(index, node);
                    self.edges[index].ways.insert(node, Way::Connecting { conn, backoff });
                }
                // Closes before or after all handoffs have finished, by chance.
                Way::Up { conn } if !members.contains(&node) && self.rng.percent(30) => {
                    self.close_conn(conn, End::Edge);
                }
                Way::Up { conn } => self.look_after(conn, End::Edge),
                _ => {}
            }
        }
    }

    fn edge_view(&mut self, index: usize, version: usize) {
        let Some(view) = self.views.get(version).cloned() else { return };
        let members = self.members_seen_by(Some(version));
        let (now, instant) = (self.agenda.now(), self.agenda.instant());
        let Some(edge) = self.edges.get_mut(index) else { return };
        if edge.version.is_some_and(|before| before >= version) {
            return;
        }
        edge.version = Some(version);
        edge.placement.set_view(instant, view.clone());
        for node in members {
            edge.ways.entry(node).or_insert(Way::Down { retry_at: now, backoff: FIRST_BACKOFF });
        }
        self.trace.line(now, || format!("e{index} sees {}", names(&view)));
        self.rebalance(index);
    }

    fn edge_connected(&mut self, index: usize, id: ConnId) {
        let (now, instant) = (self.agenda.now(), self.agenda.instant());
        let Some(conn) = self.conns.get_mut(id) else { return };
        if !conn.is_open(End::Edge) || conn.severed {
            return;
        }
        let Some(edge) = self.edges.get_mut(index) else { return };
        let link = edge.core.link_up();
        conn.link = Some(link);
        conn.side(End::Edge).heard = now;
        edge.ways.insert(conn.node, Way::Up { conn: id });
        let node = conn.node;
        if let Some(id) = node_id(node) {
            edge.placement.link_up(instant, id, link);
        }
        self.trace.line(now, || format!("trunk {id} of e{index} and n{node} is up"));
        self.rebalance(index);
    }

    /// Handles the close of a connection at the edge's end.
    pub(crate) fn edge_lost_conn(&mut self, index: usize, node: usize, id: ConnId, link: Option<LinkKey>) {
        let (now, instant) = (self.agenda.now(), self.agenda.instant());
        let jitter = self.rng.within(50, 100);
        let Some(edge) = self.edges.get_mut(index) else { return };
        let backoff = match edge.ways.get(&node) {
            Some(Way::Connecting { conn, backoff }) if *conn == id => *backoff,
            Some(Way::Up { conn }) if *conn == id => FIRST_BACKOFF,
            _ => return,
        };
        let retry_at = now + backoff * jitter / 100;
        edge.ways.insert(node, Way::Down { retry_at, backoff: (backoff * 2).min(LONGEST_BACKOFF) });
        let Some(node) = node_id(node) else { return };
        if let Some(link) = link {
            edge.placement.link_down(&node, link);
            edge.core.link_down(link);
        }
        edge.placement.failed(instant, &node);
        if link.is_some() {
            self.rebalance(index);
        }
    }

    fn edge_frames(&mut self, index: usize, id: ConnId, bytes: &[u8]) {
        let now = self.agenda.instant();
        let heard = self.arrives(id, End::Edge);
        let Some(conn) = self.conns.get(id).filter(|_| heard) else { return };
        let (Some(link), Some(edge)) = (conn.link, self.edges.get_mut(index)) else { return };
        let node = conn.node;
        let refused = |core: &EdgeCore| core.counts().full_filters + core.counts().full_outputs;
        let before = refused(&edge.core);
        let said = edge.core.link_frames(now, link, bytes);
        if refused(&edge.core) > before {
            self.has_no_room(index);
        }
        match said {
            Ok(said) if said.draining => {
                if let Some((id, edge)) = node_id(node).zip(self.edges.get_mut(index)) {
                    edge.placement.said_draining(&id, link);
                }
                self.rebalance(index);
            }
            Ok(_) => {}
            Err(error) => self.ledger.broken(self.agenda.now(), "damaged", error.to_string()),
        }
    }

    /// Records that the edge refused a message because its buffers were full. The node retransmits
    /// it.
    fn has_no_room(&mut self, index: usize) {
        let now = self.agenda.now();
        for socket in self.edges.get(index).into_iter().flat_map(|edge| edge.socket_by_client.values()) {
            let client = self.sockets.get(*socket).map(|socket| socket.client);
            if let Some(client) = client.and_then(|client| self.clients.get_mut(client)) {
                client.full.add(now, now + REFUSED_COMES_AGAIN);
            }
        }
    }

    fn edge_newcomer(&mut self, index: usize, socket: SocketId) {
        let (present, now) = (self.agenda.now(), self.agenda.instant());
        let Some(newcomer) = self.newcomer(socket) else { return };
        let Some(edge) = self.edges.get_mut(index) else { return };
        // A new edge first finds out which nodes it can reach.
        let starting = present - edge.started < SILENCE && !edge.ways.values().all(|way| matches!(way, Way::Up { .. }));
        if edge.draining || starting {
            return self.nobody_listens(socket);
        }
        let key = edge.core.connect(now, newcomer);
        edge.socket_by_client.insert(key, socket);
        self.sockets[socket].key = Some(key);
        self.later(Host::Edge(index), DECISION_TIMEOUT, Input::GiveUpWaiting(socket));
    }

    fn send_away(&mut self, index: usize, client: ClientKey) {
        let retry_after_ms = self.rng.within(0, MOST_RETRY_AFTER / MS + 1);
        let core = &mut self.edges[index].core;
        core.send_away(client, CloseCode::GOING_AWAY, "this edge is going away", retry_after_ms);
        self.counters.add("clients: sent away", 1);
    }

    /// Reports a failure to the sender of an input whose server is down.
    pub(crate) fn nobody_there(&mut self, host: Host, input: &Input) {
        let delay = self.rng.delay();
        match (host, input) {
            (Host::Node(_), Input::ConnectArrives(conn)) => {
                if let Some(edge) = self.conns.get(*conn).map(|conn| conn.edge) {
                    self.later(Host::Edge(edge), delay, Input::ConnectFailed(*conn));
                }
            }
            (Host::Node(_), Input::Batch { from, generation, attempt, .. }) => {
                let refused = Input::Answer { attempt: *attempt, bytes: None };
                self.agenda.after(delay, Event::At(Host::Node(*from), *generation, refused));
            }
            (Host::Edge(_), Input::Newcomer(socket)) => self.nobody_listens(*socket),
            _ => {}
        }
    }
}

fn node_id(node: usize) -> Option<NodeId> {
    NodeId::new(&format!("n{node}")).ok()
}

pub(crate) fn names(view: &signaling_core::View) -> String {
    let name =
        |member: &signaling_core::Member| format!("{}{}", member.id, if member.draining { " (draining)" } else { "" });
    view.members().iter().map(name).collect::<Vec<_>>().join(", ")
}
