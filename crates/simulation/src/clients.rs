//! Clients and their sockets.

use std::collections::VecDeque;

use serde_json::Value;
use signaling_edge::core::{ClientKey, ConnectRequest, Newcomer, Reading, Refusal};
use signaling_protocol::trunk::Gone;
use signaling_protocol::{ClientId, CloseCode, SessionId};

use crate::agenda::{MS, Micros, SECOND};
use crate::event::{ClientIx, Event, Host, Input, MessageId, SocketId};
use crate::frames::{self, Frame};
use crate::ledger::Told;
use crate::plan::Takes;
use crate::spans::Spans;
use crate::world::World;

#[derive(Debug)]
pub(crate) struct Client {
    socket: Option<SocketId>,
    resume: Option<String>,
    /// What it wanted to say while it had no open socket.
    pending: VecDeque<MessageId>,
    takes: Takes,
    /// When it had no socket that takes output.
    pub(crate) away: Spans,
    stalled_until: Micros,
}

impl Client {
    pub(crate) fn new(takes: Takes) -> Self {
        let mut away = Spans::default();
        away.begin(0);
        Self { socket: None, resume: None, pending: VecDeque::new(), takes, away, stalled_until: 0 }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Its upgrade has not been answered.
    Opening,
    /// It has been, but the edge has no socket yet.
    Accepted,
    Open,
    /// For the edge too.
    Closed,
}

#[derive(Debug)]
pub(crate) struct Socket {
    client: ClientIx,
    edge: usize,
    key: Option<ClientKey>,
    state: State,
    /// The client still has it, whatever the edge believes.
    here: bool,
    /// The edge does not read it.
    paused: bool,
    unread: VecDeque<MessageId>,
    up_arrives: Micros,
    received: Vec<u8>,
    welcomed: bool,
    rests_until: Micros,
    writable_planned: bool,
    slow: bool,
    /// What the kernel takes for a client that is not there.
    swallows: usize,
}

impl Socket {
    /// Whether a fate would reach the client promptly.
    pub(crate) fn can_be_told(&self) -> bool {
        self.state == State::Open && self.here && !self.slow
    }
}

const SOCKET_BUFFER: usize = 32 * 1024;

impl World {
    pub(crate) fn key_of(&self, socket: SocketId) -> Option<ClientKey> {
        self.sockets.get(socket).filter(|socket| socket.state != State::Closed).and_then(|socket| socket.key)
    }

    pub(crate) fn set_key(&mut self, socket: SocketId, key: ClientKey) {
        if let Some(socket) = self.sockets.get_mut(socket) {
            socket.key = Some(key);
        }
    }

    pub(crate) fn client_connects(&mut self, index: ClientIx) {
        let edge = self.rng.index(self.edges.len());
        let delay = self.rng.delay();
        let now = self.agenda.now();
        let id = self.sockets.len();
        let Some(client) = self.clients.get_mut(index) else { return };
        if client.socket.is_some() || self.closing_down {
            return;
        }
        client.socket = Some(id);
        self.sockets.push(Socket {
            client: index,
            edge,
            key: None,
            state: State::Opening,
            here: true,
            paused: false,
            unread: VecDeque::new(),
            up_arrives: now + delay,
            received: Vec::new(),
            welcomed: false,
            rests_until: client.stalled_until,
            writable_planned: false,
            slow: client.takes != Takes::All || client.stalled_until > now,
            swallows: SOCKET_BUFFER,
        });
        self.trace.line(now, || format!("c{index} connects to e{edge} on socket {id}"));
        self.later(Host::Edge(edge), delay, Input::Newcomer(id));
        if !self.is_alive(Host::Edge(edge)) {
            self.nobody_listens(id);
        }
    }

    /// The edge's process is not there: try again.
    pub(crate) fn nobody_listens(&mut self, id: SocketId) {
        let again = self.rng.within(300 * MS, 1_500 * MS);
        let Some(socket) = self.sockets.get_mut(id) else { return };
        if socket.state == State::Opening && socket.key.is_none() {
            socket.state = State::Closed;
            let client = socket.client;
            self.client_lost_socket(client, id, Some(again));
        }
    }

    fn client_lost_socket(&mut self, index: ClientIx, id: SocketId, again: Option<Micros>) {
        let now = self.agenda.now();
        if let Some(socket) = self.sockets.get_mut(id) {
            socket.here = false;
        }
        let Some(client) = self.clients.get_mut(index).filter(|client| client.socket == Some(id)) else { return };
        client.socket = None;
        client.away.begin(now);
        if let Some(delay) = again {
            self.agenda.after(delay, Event::Act(crate::event::Act::Connect(index)));
        }
    }

    pub(crate) fn newcomer(&mut self, id: SocketId) -> Option<Newcomer> {
        let session = SessionId(self.rng.bytes());
        let shows_token = self.rng.percent(50);
        let born = self.agenda.now();
        let socket = self.sockets.get(id)?;
        let client = self.clients.get_mut(socket.client)?;
        let resume = client.resume.clone().filter(|_| shows_token);
        let client_id = ClientId::new(&format!("c{}", socket.client)).ok()?;
        let request = ConnectRequest { path: "/v1/connect".to_owned(), resume, ..ConnectRequest::default() };
        Some(Newcomer { client_id, session, born, reliable: false, request })
    }

    pub(crate) fn client_disconnects(&mut self, index: ClientIx, gone: Gone, noticed_after: Micros) {
        let now = self.agenda.now();
        let Some(id) = self.clients.get(index).and_then(|client| client.socket) else { return };
        self.trace
            .line(now, || format!("c{index} leaves socket {id}, {gone:?}, noticed after {} ms", noticed_after / MS));
        self.counters.add("clients: sockets left", 1);
        self.client_lost_socket(index, id, None);
        let Some(socket) = self.sockets.get(id) else { return };
        let (edge, at) = (socket.edge, socket.up_arrives.max(now + noticed_after));
        self.later(Host::Edge(edge), at - now, Input::SocketGone(id, gone));
    }

    pub(crate) fn client_stalls(&mut self, index: ClientIx, lasts: Micros) {
        let now = self.agenda.now();
        let Some(client) = self.clients.get_mut(index) else { return };
        client.stalled_until = now + lasts;
        client.away.end(now);
        client.away.add(now, now + lasts);
        match client.socket.and_then(|id| self.sockets.get_mut(id)) {
            Some(socket) => {
                socket.rests_until = now + lasts;
                socket.slow = true;
            }
            None => client.away.begin(now),
        }
        self.counters.add("clients: stalls", 1);
    }

    pub(crate) fn client_sends(&mut self, message: MessageId) {
        let Some(index) = self.sendings.get(message).map(|sending| sending.from) else { return };
        let Some(client) = self.clients.get_mut(index) else { return };
        let open = client.socket.filter(|id| self.sockets.get(*id).is_some_and(|socket| socket.state == State::Open));
        match open {
            Some(socket) if client.pending.is_empty() => self.say(socket, message),
            _ => client.pending.push_back(message),
        }
    }

    fn say(&mut self, id: SocketId, message: MessageId) {
        let delay = self.rng.delay();
        let now = self.agenda.now();
        let Some(socket) = self.sockets.get_mut(id) else { return };
        socket.up_arrives = socket.up_arrives.max(now + delay);
        let (edge, wait) = (socket.edge, socket.up_arrives - now);
        self.later(Host::Edge(edge), wait, Input::Text(id, Some(message)));
    }

    pub(crate) fn edge_text(&mut self, edge: usize, id: SocketId, message: Option<MessageId>) {
        let now = self.agenda.instant();
        let Some(key) = self.key_of(id) else { return };
        if let Some(edge) = self.edges.get_mut(edge) {
            edge.core.heard(now, key);
        }
        let (Some(message), Some(socket)) = (message, self.sockets.get_mut(id)) else { return };
        socket.unread.push_back(message);
        self.read_socket(edge, id, key);
    }

    pub(crate) fn read_again(&mut self, edge: usize, key: ClientKey) {
        let Some(id) = self.edges.get(edge).and_then(|edge| edge.socket_by_client.get(&key)).copied() else { return };
        if let Some(socket) = self.sockets.get_mut(id) {
            socket.paused = false;
        }
        self.read_socket(edge, id, key);
    }

    fn read_socket(&mut self, edge: usize, id: SocketId, key: ClientKey) {
        let (now, instant) = (self.agenda.now(), self.agenda.instant());
        while let Some(socket) = self.sockets.get_mut(id)
            && !socket.paused
            && let Some(message) = socket.unread.pop_front()
            && let Some(sending) = self.sendings.get(message)
            && let Some(edge) = self.edges.get_mut(edge)
        {
            self.ledger.taken(now, message, id, socket.slow);
            let ttl = sending.ttl_ms.map(|ttl| format!(",\"ttl_ms\":{ttl}")).unwrap_or_default();
            let (to, padding) = (sending.to, "x".repeat(sending.padding));
            let text = format!(
                r#"{{"type":"signal","to":"c{to}","data":{{"m":{message},"pad":"{padding}"}},"id":{}{ttl}}}"#,
                message + 1
            );
            if edge.core.client_text(instant, key, text.as_bytes()) == Reading::Paused {
                socket.paused = true;
            }
        }
    }

    /// A node has admitted the client: its upgrade is answered.
    pub(crate) fn accepted(&mut self, edge: usize, key: ClientKey) {
        let delay = self.rng.delay();
        let Some(id) = self.edges.get(edge).and_then(|edge| edge.socket_by_client.get(&key)).copied() else { return };
        if let Some(socket) = self.sockets.get_mut(id) {
            socket.state = State::Accepted;
        }
        self.later(Host::Edge(edge), delay, Input::Opened(id));
    }

    pub(crate) fn opened(&mut self, edge: usize, id: SocketId) {
        let (now, instant) = (self.agenda.now(), self.agenda.instant());
        let (Some(key), Some(host)) = (self.key_of(id), self.edges.get_mut(edge)) else { return };
        host.core.socket_opened(instant, key);
        let Some(socket) = self.sockets.get_mut(id) else { return };
        socket.state = State::Open;
        let (index, here) = (socket.client, socket.here);
        self.trace.line(now, || format!("socket {id} of c{index} is open"));
        let Some(client) = self.clients.get_mut(index).filter(|_| here) else { return };
        client.away.end(now);
        let pending = std::mem::take(&mut client.pending);
        pending.into_iter().for_each(|message| self.say(id, message));
    }

    pub(crate) fn give_up_waiting(&mut self, edge: usize, id: SocketId) {
        let (Some(key), Some(host)) = (self.key_of(id), self.edges.get_mut(edge)) else { return };
        if self.sockets.get(id).is_some_and(|socket| socket.state == State::Opening) {
            host.core.socket_closed(key, Gone::Lost);
            let (code, message) = ("no_node".to_owned(), "no node has answered in time".to_owned());
            self.refused(edge, key, &Refusal { status: 503, code, message, retry_after_ms: None });
        }
    }

    /// The edge has no socket any more.
    pub(crate) fn socket_ended(&mut self, id: SocketId) {
        if let Some(socket) = self.sockets.get_mut(id) {
            socket.state = State::Closed;
        }
    }

    pub(crate) fn refused(&mut self, edge: usize, key: ClientKey, refusal: &Refusal) {
        let now = self.agenda.now();
        let again = self.rng.within(500 * MS, 1_500 * MS);
        let Some(id) = self.edges.get_mut(edge).and_then(|edge| edge.socket_by_client.remove(&key)) else { return };
        let Some(socket) = self.sockets.get(id) else { return };
        let (index, accepted) = (socket.client, socket.state == State::Accepted);
        if accepted && socket.here {
            self.ledger.broken(now, "refused after accept", format!("socket {id} of c{index}: {}", refusal.message));
        }
        self.socket_ended(id);
        self.trace.line(now, || format!("socket {id} of c{index} is refused: {} {}", refusal.status, refusal.message));
        self.counters.add(if refusal.status == 409 { "clients: refused with 409" } else { "clients: refused" }, 1);
        self.client_lost_socket(index, id, Some(again));
    }

    pub(crate) fn closed_by_mesh(&mut self, edge: usize, key: ClientKey, code: CloseCode, last_words: &[u8]) {
        let now = self.agenda.now();
        let again = self.rng.within(500 * MS, 1_500 * MS);
        let arrives = self.rng.percent(50);
        let Some(host) = self.edges.get_mut(edge) else { return };
        let Some(id) = host.socket_by_client.remove(&key) else { return };
        if arrives {
            self.socket_takes(id, last_words);
        }
        self.socket_ended(id);
        let Some(socket) = self.sockets.get(id) else { return };
        let (index, here, slow) = (socket.client, socket.here, socket.slow);
        self.trace.line(now, || format!("socket {id} of c{index} is closed by the mesh: {code:?}"));
        self.counters.add("clients: closed by the mesh", 1);
        if here && !(slow && code == CloseCode::TOO_SLOW) {
            self.ledger.broken(now, "closed by the mesh", format!("socket {id} of c{index}: {code:?}"));
        }
        self.client_lost_socket(index, id, Some(again));
    }

    pub(crate) fn socket_is_writable(&mut self, id: SocketId) {
        if let Some(socket) = self.sockets.get_mut(id) {
            socket.writable_planned = false;
        }
    }

    /// Writes what a client's socket takes.
    pub(crate) fn write_out(&mut self, edge: usize, key: ClientKey) {
        let (now, instant) = (self.agenda.now(), self.agenda.instant());
        while let Some(host) = self.edges.get_mut(edge)
            && let Some(id) = host.socket_by_client.get(&key).copied()
            && let Some(socket) = self.sockets.get_mut(id)
        {
            let output = host.core.output(key);
            if output.is_empty() {
                return;
            }
            let takes = self.clients.get(socket.client).map_or(Takes::All, |client| client.takes);
            let count = if !socket.here {
                let count = output.len().min(socket.swallows);
                socket.swallows -= count;
                count
            } else if now < socket.rests_until {
                0
            } else if let Takes::Some { bytes, rest } = takes {
                socket.rests_until = now + rest;
                output.len().min(bytes)
            } else {
                output.len()
            };
            let taken = output.get(..count).unwrap_or_default().to_vec();
            host.core.wrote(instant, key, count);
            if count == 0 {
                let at = socket.rests_until.max(now + MS);
                if socket.here && !std::mem::replace(&mut socket.writable_planned, true) {
                    self.later(Host::Edge(edge), at - now, Input::Writable(id));
                }
                return;
            }
            self.socket_takes(id, &taken);
        }
    }

    /// Bytes are with the socket: a message whose last byte is among them counts as written.
    fn socket_takes(&mut self, id: SocketId, bytes: &[u8]) {
        let Some(socket) = self.sockets.get_mut(id) else { return };
        socket.received.extend_from_slice(bytes);
        while let Some(socket) = self.sockets.get_mut(id)
            && let Some(frame) = frames::take(&mut socket.received)
        {
            match frame {
                Frame::Text(text) => self.client_gets(id, &text),
                Frame::Ping if socket.here => {
                    let edge = socket.edge;
                    let delay = self.rng.delay();
                    self.later(Host::Edge(edge), delay, Input::Text(id, None));
                }
                Frame::Ping | Frame::Other => {}
            }
        }
    }

    fn client_gets(&mut self, id: SocketId, text: &[u8]) {
        let now = self.agenda.now();
        let Some(socket) = self.sockets.get_mut(id) else { return };
        let index = socket.client;
        let Ok(message) = serde_json::from_slice::<Value>(text) else {
            return self.ledger.broken(now, "damaged", format!("socket {id} got what is no JSON"));
        };
        let kind = message.get("type").and_then(Value::as_str).unwrap_or_default();
        if self.trace.is_wanted() {
            let front = crate::trunks::front(text);
            self.trace.line(now, || format!("c{index} socket {id} gets {front}"));
        }
        if socket.welcomed == (kind == "welcome") {
            self.ledger.broken(now, "welcome", format!("socket {id} got {kind} where it should not"));
            return;
        }
        let number = |value: Option<&Value>| value.and_then(Value::as_u64).and_then(|n| usize::try_from(n).ok());
        let request = number(message.get("id")).and_then(|id| id.checked_sub(1));
        match (kind, message.get("code").and_then(Value::as_str)) {
            ("welcome", _) => {
                socket.welcomed = true;
                if socket.here
                    && let Some(client) = self.clients.get_mut(index)
                {
                    client.resume = message.get("resume").and_then(Value::as_str).map(str::to_owned);
                }
            }
            ("signal", _) => {
                let named = number(message.get("data").and_then(|data| data.get("m")));
                let calm = self.trouble.covers_nothing(now.saturating_sub(30 * SECOND), now);
                let slow = socket.slow;
                self.ledger.written(now, named.unwrap_or(usize::MAX), (index, id), slow, calm);
            }
            ("ack", _) => self.told(id, request, Told::Ack),
            ("error", Some("recipient_unavailable")) => self.told(id, request, Told::Unavailable),
            ("pong", _) => {}
            _ => self.ledger.broken(now, "unexpected", String::from_utf8_lossy(text).into_owned()),
        }
    }

    fn told(&mut self, id: SocketId, request: Option<MessageId>, told: Told) {
        let now = self.agenda.now();
        let message = request.unwrap_or(usize::MAX);
        let recipient = self.sendings.get(message).map_or(usize::MAX, |sending| sending.to);
        let nowhere = Spans::default();
        let away = self.clients.get(recipient).map_or(&nowhere, |client| &client.away);
        let slow = self.sockets.get(id).is_some_and(|socket| socket.slow);
        self.ledger.told(now, message, id, told, (&self.trouble, away), slow);
    }

    /// Whether an open socket has messages that its edge has not read yet.
    pub(crate) fn unread(&self) -> bool {
        self.sockets.iter().any(|socket| socket.can_be_told() && !socket.unread.is_empty())
    }

    /// An edge's process is gone, and all its sockets.
    pub(crate) fn kill_edge(&mut self, index: usize) {
        let Some(edge) = self.edges.get_mut(index) else { return };
        edge.alive = false;
        edge.generation += 1;
        edge.pause = None;
        crate::edges::count(&mut self.counters, &edge.core);
        edge.core = signaling_edge::core::EdgeCore::new(self.edge_settings.clone());
        edge.socket_by_client.clear();
        self.reset_conns(Host::Edge(index));
        for id in 0..self.sockets.len() {
            let again = self.rng.within(300 * MS, 1_500 * MS);
            let Some(socket) = self.sockets.get_mut(id) else { return };
            if socket.edge == index && socket.state != State::Closed {
                socket.state = State::Closed;
                let client = socket.client;
                self.client_lost_socket(client, id, Some(again));
            }
        }
    }

    /// All clients leave for good.
    pub(crate) fn hang_up(&mut self) {
        self.closing_down = true;
        for index in 0..self.clients.len() {
            self.client_disconnects(index, Gone::Left, MS);
        }
    }
}
