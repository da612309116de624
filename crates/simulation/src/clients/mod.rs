//! Clients: their connections, requests and received messages. `world`, `edges` and the plan's acts
//! call this module.

mod listening;
mod reliable;
mod socket;

use std::collections::VecDeque;

use signaling_core::edge::{ConnectRequest, Newcomer, PresentedToken};
use signaling_protocol::ClientId;
use signaling_wire::SessionId;

use self::reliable::Reliable;
use self::socket::State;
use crate::agenda::{MS, Micros};
use crate::event::{ClientFrame, ClientIx, ClientRequest, Exit, Host, Kind, SocketId};
use crate::ledger::{Position, Stream};
use crate::plan::Traits;
use crate::spans::Spans;
use crate::world::World;

pub(crate) use self::socket::Socket;

/// First `id` of a plain client's room requests.
const FIRST_ASK: u64 = 1_000_000_000;

/// One client and its current connection.
#[derive(Debug, Default)]
pub(crate) struct Client {
    socket: Option<SocketId>,
    former: Option<SocketId>,
    /// The resume token, and the socket whose welcome brought it.
    resume: Option<(String, SocketId)>,
    /// Requests made without an open socket.
    pending: VecDeque<ClientRequest>,
    takes: Option<(usize, Micros)>,
    reliable: Option<Reliable>,
    /// Times without a socket that takes output.
    pub(crate) away: Spans,
    /// Times in which its socket was full.
    pub(crate) busy: Spans,
    /// Times in which its edge refused messages because its buffers were full.
    pub(crate) full: Spans,
    stalled_until: Micros,
}

impl Client {
    /// Creates a client whose edge buffers up to `store_frames` of its messages.
    pub(crate) fn new(traits: Traits, store_frames: usize) -> Self {
        let mut away = Spans::default();
        away.begin(0);
        let reliable = traits.reliable.then(|| Reliable::new(store_frames / 2));
        Self { takes: traits.takes, reliable, away, ..Self::default() }
    }
}

impl World {
    /// Returns the client's welcomed socket if it takes all output.
    pub(crate) fn attentive_socket(&self, index: ClientIx) -> Option<SocketId> {
        self.open_socket(index).filter(|id| self.clients[index].takes.is_none() && self.sockets[*id].welcomed)
    }

    /// Returns the client's open socket, if outcomes reach it promptly.
    pub(crate) fn open_socket(&self, index: ClientIx) -> Option<SocketId> {
        self.clients[index].socket.filter(|id| self.sockets[*id].takes_outcomes())
    }

    /// Opens a socket of a client at a random edge that does not drain, if any. Does nothing if the
    /// client has a socket, or the run ends.
    pub(crate) fn client_connects(&mut self, index: ClientIx) {
        // Draining edges are offered only if all edges drain.
        let offered: Vec<_> = (0..self.edges.len()).filter(|at| !self.edges[*at].draining).collect();
        let edge = self.rng.pick(&offered).unwrap_or_default();
        let delay = self.rng.delay();
        let now = self.agenda.now();
        let id = self.sockets.len();
        let client = &mut self.clients[index];
        if client.socket.is_some() || self.closing_down {
            return;
        }
        client.socket = Some(id);
        let slow = client.takes.is_some() || client.stalled_until > now;
        let former = client.former.replace(id);
        let (up_arrives, rests_until) = (now + delay, client.stalled_until);
        self.sockets.push(Socket { client: index, edge, up_arrives, rests_until, slow, former, ..Socket::default() });
        self.trace.line(|| format!("c{index} connects to e{edge} on socket {id}"));
        self.later_as(Kind::Upgrade(id), Host::Edge(edge), delay, move |world| world.edge_newcomer(edge, id));
        if !self.edges[edge].server.alive {
            self.upgrade_fails(id);
        }
    }

    /// Fails an upgrade that the edge has not begun to decide: its process is down, starts or
    /// drains. The client connects again later.
    pub(crate) fn upgrade_fails(&mut self, id: SocketId) {
        let again = self.rng.within(300 * MS, 1_500 * MS);
        let socket = &mut self.sockets[id];
        if socket.state == State::Opening && socket.key.is_none() {
            socket.state = State::Closed;
            self.client_lost_socket(id, Some(again));
        }
    }

    fn client_lost_socket(&mut self, id: SocketId, again: Option<Micros>) {
        let now = self.agenda.now();
        let socket = &mut self.sockets[id];
        socket.left = true;
        socket.lost.get_or_insert((now, false));
        let index = socket.client;
        let client = &mut self.clients[index];
        if client.socket != Some(id) {
            return;
        }
        client.socket = None;
        client.away.begin(now);
        client.busy.end(now);
        if let Some(reliable) = &mut client.reliable {
            reliable.disconnected();
        }
        if let Some(delay) = again {
            self.agenda.after(delay, move |world: &mut Self| world.client_connects(index));
        }
    }

    /// Returns the admission request of a socket's client, at random with its resume token.
    pub(crate) fn newcomer(&mut self, id: SocketId) -> Option<Newcomer> {
        let drawn = self.rng.bytes();
        let socket = &mut self.sockets[id];
        let client = &self.clients[socket.client];
        let reliable = client.reliable.is_some();
        let shows_token = self.rng.percent(if reliable { 90 } else { 50 });
        let (resume, token_of) = client.resume.clone().filter(|_| shows_token).unzip();
        socket.token_of = token_of;
        let client_id = ClientId::new(&format!("c{}", socket.client)).ok()?;
        let resume = resume.map(|token| PresentedToken(token.into()));
        let request = ConnectRequest { path: "/v1/connect".to_owned(), resume, ..ConnectRequest::default() };
        let (session, socket) = (SessionId::new(drawn, reliable), wire_id(id));
        Some(Newcomer { client_id, session, socket, since_ms: self.agenda.now() / MS, reliable, request })
    }

    /// Ends a client's socket, if it has one, by `exit`. The edge detects it after `noticed_after`,
    /// but not before the client's last frame arrives.
    pub(crate) fn client_disconnects(&mut self, index: ClientIx, exit: Exit, noticed_after: Micros) {
        let now = self.agenda.now();
        let Some(id) = self.clients[index].socket else { return };
        let ms = noticed_after / MS;
        self.trace.line(|| format!("c{index} leaves socket {id}, {exit:?}, noticed after {ms} ms"));
        let keeps_session = matches!(exit, Exit::Close(_)) && exit != Exit::GOODBYE;
        self.counters.add("clients: sockets closed without a goodbye", u64::from(keeps_session));
        self.client_lost_socket(id, None);
        if exit == Exit::GOODBYE {
            self.end_room_session(index);
        }
        let socket = &mut self.sockets[id];
        socket.lost = Some((now, exit == Exit::GOODBYE));
        let (edge, at) = (socket.edge, socket.up_arrives.max(now + noticed_after));
        self.later(Host::Edge(edge), at - now, move |world| world.socket_gone(id, exit));
    }

    /// Has a client read nothing for a time.
    pub(crate) fn client_stalls(&mut self, index: ClientIx, lasts: Micros) {
        let now = self.agenda.now();
        let client = &mut self.clients[index];
        client.stalled_until = now + lasts;
        client.away.end(now);
        client.away.add(now, now + lasts);
        match client.socket.map(|id| &mut self.sockets[id]) {
            Some(socket) => (socket.rests_until, socket.slow) = (now + lasts, true),
            None => client.away.begin(now),
        }
        self.counters.add("clients: stalls", 1);
    }

    /// Has a client send a request, as soon as it can. A reliable client drops a `members` request
    /// if it has no welcomed socket.
    pub(crate) fn client_wants(&mut self, index: ClientIx, request: ClientRequest) {
        let client = &mut self.clients[index];
        if let Some(reliable) = &client.reliable {
            if let ClientRequest::Room(ask) = request
                && !self.rooms.takes_id(ask)
            {
                // This request has no `id` in its answer, so it is not sent again.
                if let Some(socket) = client.socket.filter(|_| reliable.ready) {
                    self.send_frame(socket, plain_frame(socket, request));
                }
                return;
            }
            client.pending.push_back(request);
            return self.reliable_sends(index);
        }
        match client.socket.filter(|id| self.sockets[*id].state == State::Open) {
            Some(socket) if client.pending.is_empty() => self.send_frame(socket, plain_frame(socket, request)),
            _ => client.pending.push_back(request),
        }
    }

    /// Sends a client's frame over its socket, behind all earlier ones.
    pub(crate) fn send_frame(&mut self, id: SocketId, frame: ClientFrame) {
        let delay = self.rng.delay();
        let now = self.agenda.now();
        let socket = &mut self.sockets[id];
        socket.up_arrives = socket.up_arrives.max(now + delay);
        let (edge, wait) = (socket.edge, socket.up_arrives - now);
        self.later(Host::Edge(edge), wait, move |world| world.edge_text(id, Some(frame)));
    }

    /// Closes all sockets of an edge whose process has ended. The clients connect again later.
    pub(crate) fn close_sockets_of(&mut self, edge: usize) {
        for id in 0..self.sockets.len() {
            let again = self.rng.within(300 * MS, 1_500 * MS);
            let socket = &mut self.sockets[id];
            if socket.edge == edge && socket.state != State::Closed {
                socket.state = State::Closed;
                self.client_lost_socket(id, Some(again));
            }
        }
    }

    /// Disconnects all clients for good.
    pub(crate) fn disconnect_clients(&mut self) {
        self.closing_down = true;
        for index in 0..self.clients.len() {
            self.client_disconnects(index, Exit::GOODBYE, MS);
        }
    }
}

/// Returns the id of a socket between servers.
pub(crate) fn wire_id(id: SocketId) -> signaling_wire::SocketId {
    signaling_wire::SocketId((id as u64).to_be_bytes())
}

/// Numbers a plain client's request by its index: messages from 1, room requests from `FIRST_ASK`.
fn plain_frame(socket: SocketId, request: ClientRequest) -> ClientFrame {
    let number = match request {
        ClientRequest::Message(message) => message as u64 + 1,
        ClientRequest::Room(ask) => FIRST_ASK + ask as u64,
    };
    ClientFrame::Request(request, Position { stream: Stream::Socket(socket), number })
}

/// Returns the request of a plain client's `id`.
fn request_of(id: u64) -> ClientRequest {
    match id.checked_sub(FIRST_ASK).and_then(|ask| usize::try_from(ask).ok()) {
        Some(ask) => ClientRequest::Room(ask),
        None => ClientRequest::Message(usize::try_from(id).ok().and_then(|id| id.checked_sub(1)).unwrap_or(usize::MAX)),
    }
}
