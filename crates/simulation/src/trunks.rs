//! Trunk connections: ordered both ways, sometimes slow, cut at any time.

use std::time::Duration;

use signaling_core::edge::{FlushUrgency, LinkKey};
use signaling_core::node::TrunkKey;
use signaling_wire::RemainingTtl;
use signaling_wire::limits;
use signaling_wire::trunk::{ToEdge, ToNode};

use crate::agenda::{MS, Micros, SECOND};
use crate::event::{ConnId, Event, Host, Input};
use crate::mutant::Mutant;
use crate::world::World;

/// One end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Edge,
    Node,
}

impl End {
    pub(crate) fn other(self) -> Self {
        match self {
            Self::Edge => Self::Node,
            Self::Node => Self::Edge,
        }
    }
}

/// State of one end, and its output.
#[derive(Debug, Clone, Default)]
pub(crate) struct Side {
    pub(crate) open: bool,
    generation: u32,
    /// Arrival time of the last byte sent from here.
    arrives: Micros,
    /// Time from which the wire accepts more from here.
    busy_until: Micros,
    flush_at: Option<Micros>,
    pub(crate) heard: Micros,
    said: Micros,
}

/// One connection of an edge to a node.
#[derive(Debug)]
pub(crate) struct Conn {
    pub(crate) edge: usize,
    pub(crate) node: usize,
    pub(crate) link: Option<LinkKey>,
    pub(crate) trunk: Option<TrunkKey>,
    /// `true` once nothing passes either way.
    pub(crate) severed: bool,
    sides: [Side; 2],
}

impl Conn {
    pub(crate) fn side(&mut self, end: End) -> &mut Side {
        &mut self.sides[end as usize]
    }

    pub(crate) fn is_open(&self, end: End) -> bool {
        self.sides[end as usize].open
    }

    fn host(&self, end: End) -> Host {
        match end {
            End::Edge => Host::Edge(self.edge),
            End::Node => Host::Node(self.node),
        }
    }
}

/// Flush delay of frames that may wait for others.
const COMPANY: Micros = 2 * MS;
const PING_AFTER: Micros = 500 * MS;
pub(crate) const SILENCE: Micros = 2 * SECOND;

impl World {
    /// Starts a connection from an edge to a node.
    pub(crate) fn open_conn(&mut self, edge: usize, node: usize) -> ConnId {
        let id = self.conns.len();
        let mut conn =
            Conn { edge, node, link: None, trunk: None, severed: false, sides: [Side::default(), Side::default()] };
        let (at_edge, at_node) = (Host::Edge(edge), Host::Node(node));
        conn.side(End::Edge).open = true;
        conn.side(End::Edge).generation = self.generation(at_edge);
        conn.side(End::Node).generation = self.generation(at_node);
        self.conns.push(conn);
        let delay = self.rng.delay();
        if !self.reaches(at_edge, at_node) {
            self.later(at_edge, SILENCE, Input::ConnectFailed(id));
        } else if self.is_alive(at_node) {
            let now = self.agenda.now();
            self.conns[id].side(End::Edge).arrives = now + delay;
            self.later(at_node, delay, Input::ConnectArrives(id));
            self.later(at_edge, SILENCE, Input::ConnectFailed(id));
        } else {
            self.later(at_edge, delay, Input::ConnectFailed(id));
        }
        id
    }

    /// Accepts a trunk at a node. The edge learns of it before any frame of the node.
    pub(crate) fn answer_connect(&mut self, id: ConnId, edge: usize) {
        let delay = self.rng.delay();
        let now = self.agenda.now();
        let conn = &mut self.conns[id];
        conn.side(End::Node).arrives = now + delay;
        let generation = conn.side(End::Edge).generation;
        self.agenda.schedule(now + delay, Event::At(Host::Edge(edge), generation, Input::Connected(id)));
    }

    /// Sends bytes over the connection.
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
        let Some(conn) = self.conns.get_mut(id) else { return };
        if self.trace.is_wanted() && !bytes.is_empty() {
            let text = describe(from, &bytes);
            let (edge, node) = (conn.edge, conn.node);
            let arrow = if from == End::Edge { ">" } else { "<" };
            let lost = if conn.severed { " (lost)" } else { "" };
            self.trace.line(now, || format!("trunk {id} e{edge}{arrow}n{node}{lost} {text}"));
        }
        let side = conn.side(from);
        side.said = now;
        side.busy_until = now + busy;
        side.arrives = side.arrives.max(now + delay);
        let arrives = side.arrives;
        if conn.severed {
            return;
        }
        let (to, generation) = (conn.host(from.other()), conn.side(from.other()).generation);
        self.agenda.schedule(arrives, Event::At(to, generation, Input::Arrives(id, bytes)));
    }

    /// Closes one end, and later the other.
    pub(crate) fn close_conn(&mut self, id: ConnId, end: End) {
        let delay = self.rng.delay();
        let now = self.agenda.now();
        let Some(conn) = self.conns.get_mut(id) else { return };
        if !std::mem::replace(&mut conn.side(end).open, false) {
            return;
        }
        let at = conn.side(end).arrives.max(now + delay);
        conn.side(end).arrives = at;
        let (edge, node) = (conn.edge, conn.node);
        self.trace.line(now, || format!("trunk {id} of e{edge} and n{node}: {end:?} end closed"));
        if !conn.severed {
            let (to, generation) = (conn.host(end.other()), conn.side(end.other()).generation);
            self.agenda.schedule(at, Event::At(to, generation, Input::Closed(id)));
        }
        let instant = self.agenda.instant();
        let (link, trunk) = (conn.link.take_if(|_| end == End::Edge), conn.trunk.take_if(|_| end == End::Node));
        match end {
            End::Edge => self.edge_lost_conn(edge, node, id, link),
            End::Node => {
                if let (Some(host), Some(trunk)) = (self.nodes.get_mut(node), trunk) {
                    host.conns.remove(&trunk);
                    host.core.trunk_down(instant, trunk);
                }
            }
        }
    }

    /// Cuts a connection. Bytes in flight are lost; each end detects it later or by keep-alive.
    pub(crate) fn sever(&mut self, id: ConnId) {
        for end in [End::Edge, End::Node] {
            let told = self.rng.percent(50).then(|| self.rng.within(0, 3 * SECOND));
            self.conns[id].severed = true;
            if let Some(delay) = told.filter(|_| self.conns[id].is_open(end)) {
                self.later(self.conns[id].host(end), delay, Input::Closed(id));
            }
        }
    }

    /// Closes the ends of a dead process. Its sent bytes may still arrive.
    pub(crate) fn reset_conns(&mut self, host: Host) {
        for id in 0..self.conns.len() {
            let lost = self.rng.percent(50);
            let Some(conn) = self.conns.get_mut(id) else { return };
            let end = if conn.host(End::Edge) == host { End::Edge } else { End::Node };
            if conn.host(end) != host || !conn.is_open(end) {
                continue;
            }
            conn.side(end).open = false;
            let delay = self.rng.delay();
            let now = self.agenda.now();
            let Some(conn) = self.conns.get_mut(id) else { return };
            let at = conn.side(end).arrives.max(now + delay);
            conn.severed |= lost;
            let (to, generation) = (conn.host(end.other()), conn.side(end.other()).generation);
            self.agenda.schedule(at, Event::At(to, generation, Input::Closed(id)));
        }
    }

    /// Delivers bytes. An empty batch also counts for the keep-alive.
    pub(crate) fn arrives(&mut self, id: ConnId, end: End) -> bool {
        let now = self.agenda.now();
        let Some(conn) = self.conns.get_mut(id) else { return false };
        if conn.severed || !conn.is_open(end) {
            return false;
        }
        conn.side(end).heard = now;
        true
    }

    /// Pings a silent connection and closes a failed one. Called from each end's sweep.
    pub(crate) fn look_after(&mut self, id: ConnId, end: End) {
        let now = self.agenda.now();
        let Some(conn) = self.conns.get_mut(id) else { return };
        let side = conn.side(end);
        if !side.open {
        } else if now - side.heard >= SILENCE {
            self.counters.add("trunks closed for silence", 1);
            self.close_conn(id, end);
        } else if now - side.said >= PING_AFTER {
            self.send(id, end, Vec::new());
        }
    }

    /// Sends an end's output, at once or after the flush delay.
    pub(crate) fn flush(&mut self, id: ConnId, end: End, due: bool) {
        let now = self.agenda.now();
        let Some(conn) = self.conns.get_mut(id) else { return };
        let wants = match (end, conn.link, conn.trunk) {
            (End::Edge, Some(link), _) => self.edges.get(conn.edge).map(|edge| edge.core.wants(link)),
            (End::Node, _, Some(trunk)) => self.nodes.get(conn.node).map(|node| node.core.trunk_wants(trunk)),
            _ => None,
        };
        let side = conn.side(end);
        if due {
            side.flush_at = None;
        }
        let at = match wants {
            Some(FlushUrgency::Immediate) => now.max(side.busy_until),
            Some(FlushUrgency::Delayed) if due => now.max(side.busy_until),
            Some(FlushUrgency::Delayed) => (now + COMPANY).max(side.busy_until),
            Some(FlushUrgency::Idle) | None => return,
        };
        if at > now {
            if side.flush_at.is_none_or(|planned| planned > at) {
                side.flush_at = Some(at);
                let host = conn.host(end);
                self.later(host, at - now, Input::FlushConn(id));
            }
            return;
        }
        let bytes = match (end, conn.link, conn.trunk) {
            (End::Edge, Some(link), _) => self.edges.get_mut(conn.edge).map(|edge| edge.core.take_batch(link)),
            (End::Node, _, Some(trunk)) => self.nodes.get_mut(conn.node).map(|node| node.core.take_trunk_batch(trunk)),
            _ => None,
        };
        if let Some(bytes) = bytes.filter(|bytes| !bytes.is_empty()) {
            let was_cut = bytes.len() >= limits::BATCH_TARGET_BYTES;
            self.send(id, end, bytes);
            if was_cut {
                self.flush(id, end, false);
            }
        }
    }
}

fn describe(from: End, mut bytes: &[u8]) -> String {
    let mut text = String::new();
    while !bytes.is_empty() {
        let frame = match from {
            End::Edge => ToNode::take(&mut bytes).map(|frame| describe_to_node(&frame)),
            End::Node => ToEdge::take(&mut bytes).map(|frame| describe_to_edge(&frame)),
        };
        let Ok(frame) = frame else { return format!("{text} DAMAGED") };
        text.push_str(&frame);
        text.push_str("; ");
    }
    text
}

/// Returns the front of a payload, which identifies the message.
pub(crate) fn front(payload: &[u8]) -> String {
    String::from_utf8_lossy(payload).chars().take(48).filter(|character| *character != '"').collect()
}

fn describe_to_node(frame: &ToNode<'_>) -> String {
    match frame {
        ToNode::Attach(attach) => format!(
            "Attach slot {} {} {} seq {} known {} gone {:?}",
            attach.slot,
            attach.client_id,
            short(attach.session.0),
            attach.seq,
            attach.state.is_some(),
            attach.cause
        ),
        ToNode::Up { slot, seq, ttl, payload } => {
            format!("Up slot {slot} seq {seq} ttl {} {}", seconds(ttl.as_duration()), front(payload))
        }
        other => format!("{other:?}"),
    }
}

fn describe_to_edge(frame: &ToEdge<'_>) -> String {
    match frame {
        ToEdge::Down { slot, down_seq, origin, prev_pending, ttl, payload } => format!(
            "Down slot {slot} down_seq {down_seq} {} prev_pending {prev_pending} ttl {} {}",
            origin.map_or_else(String::new, |origin| format!("{}/{}", short(origin.session.0), origin.number)),
            seconds(ttl.as_duration()),
            front(payload)
        ),
        ToEdge::Outcomes { slot, first, count, outcome, reply } => {
            format!("Outcomes slot {slot} {first}+{count} {outcome:?} {}", front(reply))
        }
        ToEdge::Attached { slot, session, .. } => format!("Attached slot {slot} {}", short(session.0)),
        other => format!("{other:?}"),
    }
}

pub(crate) fn short(id: [u8; 16]) -> String {
    format!("{:02x}{:02x}", id[0], id[1])
}

pub(crate) fn seconds(duration: Duration) -> String {
    format!("{:.2}", duration.as_secs_f64())
}
