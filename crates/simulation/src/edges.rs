//! An edge: the real core with a simulated balancer shell around it. `world` passes its inputs.

use std::collections::BTreeMap;
use std::time::Duration;

use signaling_core::balancer::handoff_scheduler::HandoffScheduler;
use signaling_core::balancer::placement::Placement;
use signaling_core::edge::{ClientKey, EdgeCore, Effect, LinkKey, NodeReport, Refusal, SWEEP_INTERVAL, Settings};
use signaling_protocol::NodeId;

use crate::agenda::{MS, Micros, SECOND};
use crate::counters::Counters;
use crate::event::{ConnId, Host, Kind, SocketId};
use crate::trunks::{End, SILENCE};
use crate::world::{Server, World};

/// State of the edge's link to one node.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Link {
    /// Time of the next attempt, and the delay after a failure.
    Down { retry_at: Micros, backoff: Micros },
    /// A requested trunk, and the delay after a failure.
    Connecting { conn: ConnId, backoff: Micros },
    /// An open trunk.
    Up { conn: ConnId },
}

/// One edge, over all its processes.
#[derive(Default)]
pub(crate) struct EdgeHost {
    pub(crate) server: Server,
    /// Start of the present process.
    started: Micros,
    pub(crate) core: EdgeCore,
    /// `true` once the edge accepts no clients.
    pub(crate) draining: bool,
    placement: Placement,
    moves: HandoffScheduler,
    /// By node: the nodes of the view, and removed nodes that still have a trunk.
    links: BTreeMap<usize, Link>,
    /// Connections of clients that the edge has not ended.
    pub(crate) socket_by_client: BTreeMap<ClientKey, SocketId>,
    /// Time of the last sweep.
    swept: Micros,
}

const LINK_CHECK_INTERVAL: Micros = 100 * MS;
/// A small number, so that views and nodes change while clients wait for a handoff.
const HANDOFFS_PER_TICK: usize = 1;
const HANDOFF_TICK: Micros = 5 * MS;
/// Nodes retransmit a message without an outcome after 2 s, or 5 s if it was held.
const REFUSED_COMES_AGAIN: Micros = 6 * SECOND;
const FIRST_BACKOFF: Micros = 100 * MS;
const MAX_BACKOFF: Micros = 5 * SECOND;
/// Maximum time to the admission decision for a new client.
const DECISION_TIMEOUT: Micros = 8 * SECOND;

/// Adds the counts of an edge's core to the counters of the run.
pub(crate) fn count(counters: &mut Counters, core: &EdgeCore) {
    let counts = core.counts();
    counters.add("edges: duplicates dropped", counts.duplicates);
    counters.add("edges: sequence gaps", counts.sequence_gaps);
    counters.add("edges: retransmissions", counts.retransmissions);
    counters.add("edges: handoffs", counts.handoffs);
    counters.add("edges: client reads paused", counts.read_pauses);
    counters.add("edges: messages refused by full filters", counts.full_dedups);
    counters.add("edges: messages refused by full outputs", counts.full_outputs);
}

impl EdgeHost {
    fn new(server: Server, started: Micros, swept: Micros, settings: &Settings) -> Self {
        let (core, moves) = (EdgeCore::new(settings.clone()), HandoffScheduler::new(HANDOFFS_PER_TICK));
        Self { server, started, core, moves, swept, ..Self::default() }
    }
}

impl World {
    /// Starts an edge under a new name. It has no view yet.
    pub(crate) fn add_edge(&mut self, index: usize) {
        self.edges.push(EdgeHost::new(Server::start(0), 0, 0, &self.edge_settings));
        self.edge_checks_links_later(index);
    }

    /// Starts a new process under the same name, which gets the latest view.
    pub(crate) fn restart_edge(&mut self, index: usize) {
        let edge = &mut self.edges[index];
        let server = Server::start(edge.server.generation);
        *edge = EdgeHost::new(server, self.agenda.now(), edge.swept, &self.edge_settings);
        self.edge_checks_links_later(index);
        self.gets_latest_view(Host::Edge(index));
    }

    /// Ends the process, drops its state, and closes its ends of trunks and all its clients'
    /// sockets.
    pub(crate) fn kill_edge(&mut self, index: usize) {
        let edge = &mut self.edges[index];
        count(&mut self.counters, &edge.core);
        *edge = EdgeHost::new(edge.server.killed(), 0, edge.swept, &self.edge_settings);
        self.reset_conns(Host::Edge(index));
        self.close_sockets_of(index);
    }

    /// Executes all effects of the core, and sends its output to clients and trunks.
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
        let up = |link: &Link| if let Link::Up { conn } = link { Some(*conn) } else { None };
        let conns: Vec<_> = self.edges[index].links.values().filter_map(up).collect();
        conns.into_iter().for_each(|conn| self.flush(conn, End::Edge, false));
    }

    fn edge_effect(&mut self, index: usize, effect: Effect) {
        match effect {
            Effect::AssignNode(client) => self.assign_node(index, client),
            Effect::Accept(client) => self.accepted(index, client),
            Effect::Refuse(client, refusal) => self.refused(index, client, &refusal),
            Effect::Close(client, code, last_words) => self.closed_by_mesh(index, client, code, &last_words),
            Effect::Read(client) => self.read_again(index, client),
            // The simulation has no token verification and no kicks.
            Effect::Verify(..) | Effect::Kick(_) => {}
        }
    }

    fn assign_node(&mut self, index: usize, client: ClientKey) {
        let edge = &mut self.edges[index];
        let Some(key) = edge.core.key_hash(client) else { return };
        if let Some(link) = edge.placement.choose(key) {
            return edge.core.attach(self.agenda.instant(), client, link);
        }
        let (code, message) = ("no_node".to_owned(), "no node can be reached".to_owned());
        edge.core.refuse(client, Refusal { status: 503, code, message, retry_after_ms: None });
        if edge.core.key_hash(client).is_some() {
            edge.placement.keep_unplaced(client);
        }
    }

    /// Starts a rebalance and assigns nodes to clients without one.
    fn rebalance(&mut self, index: usize) {
        let edge = &mut self.edges[index];
        let begins = edge.moves.plan(self.agenda.instant(), &edge.placement, &edge.core).is_some();
        for client in edge.placement.take_unplaced() {
            self.assign_node(index, client);
        }
        if begins {
            self.edge_moves(index);
        }
    }

    /// Hands off some of the clients that must move.
    fn edge_moves(&mut self, index: usize) {
        let edge = &mut self.edges[index];
        edge.moves.tick(self.agenda.instant(), &edge.placement, &mut edge.core);
        if !edge.moves.is_over() {
            self.later_as(Kind::Timer, Host::Edge(index), HANDOFF_TICK, move |world| world.edge_moves(index));
        }
    }

    fn edge_checks_links_later(&mut self, index: usize) {
        self.later_as(Kind::Timer, Host::Edge(index), LINK_CHECK_INTERVAL, move |world| world.edge_sweep(index));
    }

    fn edge_sweep(&mut self, index: usize) {
        let (now, instant) = (self.agenda.now(), self.agenda.instant());
        self.edge_checks_links_later(index);
        let edge = &mut self.edges[index];
        if u128::from(now - edge.swept) >= SWEEP_INTERVAL.as_micros() {
            edge.swept = now;
            edge.core.sweep(instant);
        }
        if edge.placement.end_probations(instant) {
            self.rebalance(index);
        }
        let members = self.members_seen_by(self.edges[index].server.version);
        for (node, link) in self.edges[index].links.clone() {
            match link {
                Link::Down { .. } if !members.contains(&node) => {
                    self.edges[index].links.remove(&node);
                }
                Link::Down { retry_at, backoff } if retry_at <= now => {
                    let conn = self.open_conn(index, node);
                    self.edges[index].links.insert(node, Link::Connecting { conn, backoff });
                }
                // Closes before or after all handoffs have finished, by chance.
                Link::Up { conn } if !members.contains(&node) && self.rng.percent(30) => {
                    self.close_conn(conn, End::Edge);
                }
                Link::Up { conn } => self.keep_alive(conn, End::Edge),
                _ => {}
            }
        }
    }

    /// Gives an edge this version of the view.
    pub(crate) fn edge_view(&mut self, index: usize, version: usize) {
        let edge = &mut self.edges[index];
        edge.placement.set_view(self.agenda.instant(), self.views[version].clone());
        for node in self.members_seen_by(Some(version)) {
            let down = Link::Down { retry_at: self.agenda.now(), backoff: FIRST_BACKOFF };
            self.edges[index].links.entry(node).or_insert(down);
        }
        self.rebalance(index);
    }

    /// Uses a trunk that its node accepted, unless the edge has closed it or it is severed.
    pub(crate) fn edge_connected(&mut self, id: ConnId) {
        let conn = &mut self.conns[id];
        let (index, node) = (conn.edge, conn.node);
        if !conn.is_open(End::Edge) || conn.severed {
            return;
        }
        self.trouble.opening(conn.began, self.agenda.now());
        let edge = &mut self.edges[index];
        let link = edge.core.link_up(self.agenda.base + Duration::from_micros(conn.began), self.agenda.instant());
        conn.link = Some(link);
        conn.side(End::Edge).heard = self.agenda.now();
        edge.links.insert(node, Link::Up { conn: id });
        edge.placement.link_up(self.agenda.instant(), node_id(node), link);
        self.trace.line(|| format!("trunk {id} of e{index} and n{node} is up"));
        self.rebalance(index);
    }

    /// Gives up a connection that is still not accepted.
    pub(crate) fn connect_failed(&mut self, id: ConnId) {
        let mut links = self.edges[self.conns[id].edge].links.values();
        if links.any(|link| matches!(link, Link::Connecting { conn, .. } if *conn == id)) {
            self.close_conn(id, End::Edge);
        }
    }

    /// Handles the close of a connection at the edge's end. `link` is its key if it was up.
    pub(crate) fn edge_lost_conn(&mut self, index: usize, node: usize, id: ConnId, link: Option<LinkKey>) {
        let jitter = self.rng.within(50, 100);
        let edge = &mut self.edges[index];
        let backoff = match edge.links.get(&node) {
            Some(Link::Connecting { conn, backoff }) if *conn == id => *backoff,
            Some(Link::Up { conn }) if *conn == id => FIRST_BACKOFF,
            _ => return,
        };
        let retry_at = self.agenda.now() + backoff * jitter / 100;
        edge.links.insert(node, Link::Down { retry_at, backoff: (backoff * 2).min(MAX_BACKOFF) });
        let node = node_id(node);
        if let Some(link) = link {
            edge.placement.link_down(&node, link);
            edge.core.link_down(link);
        }
        edge.placement.failed(self.agenda.instant(), &node);
        if link.is_some() {
            self.rebalance(index);
        }
    }

    /// Handles bytes of a node that arrive at an edge. Bytes that it cannot read are a violation.
    pub(crate) fn edge_frames(&mut self, id: ConnId, bytes: &[u8]) {
        let heard = self.arrives(id, End::Edge);
        let conn = &self.conns[id];
        let (index, node) = (conn.edge, conn.node);
        let Some(link) = conn.link.filter(|_| heard) else { return };
        let edge = &mut self.edges[index];
        let refused = |core: &EdgeCore| core.counts().full_dedups + core.counts().full_outputs;
        let before = refused(&edge.core);
        let said = edge.core.link_frames(self.agenda.instant(), link, bytes);
        if refused(&edge.core) > before {
            // The edge's buffers were full. The node retransmits the message.
            let now = self.agenda.now();
            for socket in edge.socket_by_client.values() {
                self.clients[self.sockets[*socket].client].full.add(now, now + REFUSED_COMES_AGAIN);
            }
        }
        match said {
            Ok(reports) if reports.contains(&NodeReport::Draining) => {
                self.edges[index].placement.set_draining(&node_id(node), link, true);
                self.rebalance(index);
            }
            Ok(_) => {}
            Err(error) => self.trunk_fails(id, End::Edge, &error),
        }
    }

    /// Handles a client's request for an upgrade at an edge. Fails it if the edge drains, or is new
    /// and lacks trunks.
    pub(crate) fn edge_newcomer(&mut self, index: usize, socket: SocketId) {
        let client = self.sockets[socket].client;
        let admitted = match self.subscribers.contains(client) {
            true => self.new_subscriber(socket, client).map(|(newcomer, dialect)| (newcomer, Some(dialect))),
            false => self.newcomer(socket).map(|newcomer| (newcomer, None)),
        };
        let Some((newcomer, dialect)) = admitted else { return };
        let edge = &mut self.edges[index];
        // A new edge first finds out which nodes it can reach.
        let is_new = self.agenda.now() - edge.started < SILENCE;
        let starting = is_new && !edge.links.values().all(|link| matches!(link, Link::Up { .. }));
        if edge.draining || starting {
            return self.upgrade_fails(socket);
        }
        let now = self.agenda.instant();
        let key = edge.core.connect(now, newcomer, dialect);
        edge.socket_by_client.insert(key, socket);
        self.sockets[socket].key = Some(key);
        self.later(Host::Edge(index), DECISION_TIMEOUT, move |world| world.give_up_waiting(socket));
    }
}

/// Returns the name of the node with this index.
#[expect(clippy::unwrap_used, reason = "a letter and digits are an id")]
pub(crate) fn node_id(node: usize) -> NodeId {
    NodeId::new(&format!("n{node}")).unwrap()
}
