//! Trunk connections: ordered both ways, sometimes slow, cut at any time. `edges`, `nodes` and
//! `faults` call this module.

use signaling_core::edge::{FlushUrgency, LinkKey, TrunkError};
use signaling_core::node::TrunkKey;
use signaling_wire::trunk::{ToEdge, ToNode};
use signaling_wire::{RemainingTtl, limits};

use crate::agenda::{MS, Micros, SECOND};
use crate::event::{ConnId, Host, Kind, Process};
use crate::mutant::Mutant;
use crate::trace;
use crate::world::World;

/// One end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Edge,
    Node,
}

impl End {
    /// Returns the opposite end.
    pub(crate) fn other(self) -> Self {
        if self == Self::Edge { Self::Node } else { Self::Edge }
    }
}

/// State of one end, and its output.
#[derive(Debug, Clone, Default)]
pub(crate) struct Side {
    /// `true` while this end has the connection. A node has it once it accepted it.
    pub(crate) open: bool,
    /// Number of this end's process among those of its server.
    generation: u32,
    /// Arrival time of the last byte sent from here.
    arrives: Micros,
    /// Time from which the wire accepts more from here.
    busy_until: Micros,
    flush_at: Option<Micros>,
    /// Time of the last input at this end.
    pub(crate) heard: Micros,
    /// Time of the last output from here.
    said: Micros,
}

/// One connection of an edge to a node, which are given by their indexes.
#[derive(Debug)]
pub(crate) struct Conn {
    pub(crate) edge: usize,
    pub(crate) node: usize,
    /// Time at which the edge asked for it.
    pub(crate) began: Micros,
    /// Keys in the cores of the edge and the node; `None` until that end has accepted it.
    pub(crate) link: Option<LinkKey>,
    pub(crate) trunk: Option<TrunkKey>,
    /// `true` once no bytes pass in either direction.
    pub(crate) severed: bool,
    sides: [Side; 2],
}

impl Conn {
    /// Returns the state of one end.
    pub(crate) fn side(&mut self, end: End) -> &mut Side {
        &mut self.sides[end as usize]
    }

    /// Returns `true` if this end has neither closed nor lost the connection.
    pub(crate) fn is_open(&self, end: End) -> bool {
        self.sides[end as usize].open
    }

    fn host(&self, end: End) -> Host {
        match end {
            End::Edge => Host::Edge(self.edge),
            End::Node => Host::Node(self.node),
        }
    }

    fn process(&self, end: End) -> Process {
        (self.host(end), self.sides[end as usize].generation)
    }
}

/// Interval of the flushes of frames that may wait for others.
const FLUSH_DELAY: Micros = 10 * MS;
const PING_AFTER: Micros = 500 * MS;
/// Silence after which an end closes the connection.
pub(crate) const SILENCE: Micros = 2 * SECOND;

/// Returns when delayed frames are flushed on a connection with its last output at `last`.
pub(crate) fn next_flush(now: Micros, last: Micros) -> Micros {
    if now - last < FLUSH_DELAY { (now / FLUSH_DELAY + 1) * FLUSH_DELAY } else { now }
}

impl World {
    /// Starts a connection from an edge to a node.
    pub(crate) fn open_conn(&mut self, edge: usize, node: usize) -> ConnId {
        let id = self.conns.len();
        let (at_edge, at_node) = (Host::Edge(edge), Host::Node(node));
        let [mut edge_side, mut node_side] = <[Side; 2]>::default();
        edge_side.open = true;
        edge_side.generation = self.server(at_edge).generation;
        node_side.generation = self.server(at_node).generation;
        let delay = self.rng.delay();
        let is_reached = self.reaches(at_edge, at_node);
        let mut failed_after = SILENCE;
        if is_reached && self.server(at_node).alive {
            edge_side.arrives = self.agenda.now() + delay;
            self.later_as(Kind::Connect(id), at_node, delay, move |world| world.node_connected(id));
        } else if is_reached {
            failed_after = delay;
        }
        self.later(at_edge, failed_after, move |world| world.connect_failed(id));
        let sides = [edge_side, node_side];
        self.conns.push(Conn { edge, node, began: self.agenda.now(), link: None, trunk: None, severed: false, sides });
        id
    }

    /// Accepts a trunk at a node. The edge learns of it before any frame of the node.
    pub(crate) fn answer_connect(&mut self, id: ConnId) {
        let at = self.agenda.now() + self.rng.delay();
        let conn = &mut self.conns[id];
        conn.side(End::Node).arrives = at;
        let edge = conn.process(End::Edge);
        self.deliver(at, edge, Kind::Received, move |world| world.edge_connected(id));
    }

    /// Sends bytes over the connection, behind all earlier ones. A severed connection loses them.
    pub(crate) fn send(&mut self, id: ConnId, from: End, mut bytes: Vec<u8>) {
        if let Some(mutant) = self.mutant {
            let hold = RemainingTtl::from_duration(self.hold);
            bytes = if from == End::Edge { mutant.to_node(&bytes, hold) } else { mutant.to_edge(&bytes, hold) };
            if mutant == Mutant::OneByOne {
                let ordered = self.ordered.entry(id).or_default();
                match from {
                    End::Edge => ordered.asks(&bytes),
                    End::Node => bytes = ordered.answers(&bytes),
                }
            }
        }
        let now = self.agenda.now();
        let delay = self.rng.delay();
        let busy = if self.rng.percent(10) { self.rng.within(MS, 20 * MS) } else { 0 };
        let conn = &mut self.conns[id];
        if !bytes.is_empty() {
            let (edge, node) = (conn.edge, conn.node);
            let arrow = if from == End::Edge { ">" } else { "<" };
            let lost = if conn.severed { " (lost)" } else { "" };
            let describe = || match from {
                End::Edge => trace::describe(&bytes, ToNode::take),
                End::Node => trace::describe(&bytes, ToEdge::take),
            };
            self.trace.sent(&bytes, || format!("trunk {id} e{edge}{arrow}n{node}{lost} {}", describe()));
        }
        let side = conn.side(from);
        side.said = now;
        side.busy_until = now + busy;
        side.arrives = side.arrives.max(now + delay);
        let arrives = side.arrives;
        if conn.severed {
            return;
        }
        let to = conn.process(from.other());
        self.deliver(arrives, to, Kind::Received, move |world| match from {
            End::Edge => world.node_frames(id, &bytes),
            End::Node => world.edge_frames(id, &bytes),
        });
    }

    /// Closes one end at a later time, when it detects that the other end is closed.
    fn conn_ends_later(&mut self, at: Micros, id: ConnId, end: End) {
        let process = self.conns[id].process(end);
        self.deliver(at, process, Kind::Received, move |world| world.close_conn(id, end));
    }

    /// Closes one end, and later the other, unless the connection is severed.
    pub(crate) fn close_conn(&mut self, id: ConnId, end: End) {
        let delay = self.rng.delay();
        let conn = &mut self.conns[id];
        let (edge, node, side) = (conn.edge, conn.node, &mut conn.sides[end as usize]);
        if !std::mem::replace(&mut side.open, false) {
            return;
        }
        side.arrives = side.arrives.max(self.agenda.now() + delay);
        let at = side.arrives;
        self.trace.line(|| format!("trunk {id} of e{edge} and n{node}: {end:?} end closed"));
        if !conn.severed {
            self.conn_ends_later(at, id, end.other());
        }
        let conn = &mut self.conns[id];
        let (link, trunk) = (conn.link.take_if(|_| end == End::Edge), conn.trunk.take_if(|_| end == End::Node));
        match end {
            End::Edge => self.edge_lost_conn(edge, node, id, link),
            End::Node => {
                if let Some(trunk) = trunk {
                    self.nodes[node].conns.remove(&trunk);
                    self.nodes[node].core.trunk_down(self.agenda.instant(), trunk);
                }
            }
        }
    }

    /// Closes an end whose core refuses the bytes of the other. Damaged bytes are a violation.
    pub(crate) fn trunk_fails(&mut self, id: ConnId, end: End, error: &TrunkError) {
        match error {
            TrunkError::Damaged(error) => self.ledger.broken("damaged", error.to_string()),
            TrunkError::TooLate(_) => {
                self.counters.add("trunks ended for late frames", 1);
                self.close_conn(id, end);
            }
        }
    }

    /// Keeps all bytes of a connection, both ways, until `until`.
    pub(crate) fn freeze(&mut self, id: ConnId, until: Micros) {
        for side in &mut self.conns[id].sides {
            side.arrives = side.arrives.max(until);
        }
    }

    /// Cuts a connection. Bytes in flight are lost; each end detects it later or by keep-alive.
    pub(crate) fn sever(&mut self, id: ConnId) {
        for end in [End::Edge, End::Node] {
            let detected = self.rng.percent(50).then(|| self.rng.within(0, 3 * SECOND));
            self.conns[id].severed = true;
            if let Some(delay) = detected.filter(|_| self.conns[id].is_open(end)) {
                self.later(self.conns[id].host(end), delay, move |world| world.close_conn(id, end));
            }
        }
    }

    /// Closes the ends of a dead process. Its sent bytes may still arrive.
    pub(crate) fn reset_conns(&mut self, host: Host) {
        for id in 0..self.conns.len() {
            let lost = self.rng.percent(50);
            let conn = &mut self.conns[id];
            let end = if conn.host(End::Edge) == host { End::Edge } else { End::Node };
            if conn.host(end) != host || !conn.is_open(end) {
                continue;
            }
            conn.severed |= lost;
            let side = conn.side(end);
            side.open = false;
            let at = side.arrives.max(self.agenda.now() + self.rng.delay());
            self.conn_ends_later(at, id, end.other());
        }
    }

    /// Closes all ends at a server.
    pub(crate) fn close_conns_of(&mut self, host: Host) {
        for id in 0..self.conns.len() {
            for end in [End::Edge, End::Node] {
                if self.conns[id].host(end) == host {
                    self.close_conn(id, end);
                }
            }
        }
    }

    /// Records input at one end for the keep-alive; an empty batch counts too. Returns `false` if
    /// the connection is severed, or this end is closed.
    pub(crate) fn arrives(&mut self, id: ConnId, end: End) -> bool {
        let conn = &mut self.conns[id];
        if conn.severed || !conn.is_open(end) {
            return false;
        }
        conn.side(end).heard = self.agenda.now();
        true
    }

    /// Discounts a pause of a server from the silence of the other ends of its trunks.
    pub(crate) fn discount_pause(&mut self, host: Host, pause: Micros) {
        for conn in &mut self.conns {
            for end in [End::Edge, End::Node] {
                if conn.host(end) == host {
                    conn.side(end).heard += pause;
                }
            }
        }
    }

    /// Pings after 500 ms without output, and closes this end after 2 s without input. Called from
    /// each end's sweep.
    pub(crate) fn keep_alive(&mut self, id: ConnId, end: End) {
        let now = self.agenda.now();
        let side = self.conns[id].side(end);
        if !side.open {
        } else if now - side.heard >= SILENCE {
            self.counters.add("trunks closed for silence", 1);
            self.close_conn(id, end);
        } else if now - side.said >= PING_AFTER {
            self.send(id, end, Vec::new());
        }
    }

    /// Sends an end's output, at once or after the flush delay. `due` is `true` from the timer of
    /// that delay.
    pub(crate) fn flush(&mut self, id: ConnId, end: End, due: bool) {
        let now = self.agenda.now();
        let conn = &mut self.conns[id];
        let wants = match (end, conn.link, conn.trunk) {
            (End::Edge, Some(link), _) => self.edges[conn.edge].core.wants(link),
            (End::Node, _, Some(trunk)) => self.nodes[conn.node].core.trunks().wants(trunk),
            _ => FlushUrgency::Idle,
        };
        let side = conn.side(end);
        if due {
            side.flush_at = None;
        }
        let at = match wants {
            FlushUrgency::Idle => return,
            FlushUrgency::Delayed if !due => next_flush(now, side.said).max(side.busy_until),
            FlushUrgency::Delayed | FlushUrgency::Immediate => now.max(side.busy_until),
        };
        if at > now {
            if side.flush_at.is_none_or(|planned| planned > at) {
                side.flush_at = Some(at);
                let host = conn.host(end);
                self.later_as(Kind::Timer, host, at - now, move |world| world.flush(id, end, true));
            }
            return;
        }
        let bytes = match (end, conn.link, conn.trunk) {
            (End::Edge, Some(link), _) => self.edges[conn.edge].core.take_batch(link),
            (End::Node, _, Some(trunk)) => self.nodes[conn.node].core.take_trunk_batch(trunk),
            _ => return,
        };
        if !bytes.is_empty() {
            let was_cut = bytes.len() >= limits::BATCH_TARGET_BYTES;
            self.send(id, end, bytes);
            if was_cut {
                self.flush(id, end, false);
            }
        }
    }
}
