//! A client's connection: its bytes, and the socket handling of the edge's shell.

use std::collections::VecDeque;

use signaling_core::edge::{ClientKey, Reading, Refusal};
use signaling_core::ws::encode;
use signaling_protocol::CloseCode;
use signaling_wire::trunk::DetachReason;

use crate::agenda::{MS, Micros};
use crate::event::{ClientFrame, ClientIx, ClientRequest, Exit, Host, MessageId, SocketId};
use crate::ledger::Position;
use crate::mutant::Mutant;
use crate::plan::Sending;
use crate::trace::front;
use crate::world::World;

/// State of a socket at its edge.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum State {
    /// The upgrade has not been answered.
    #[default]
    Opening,
    /// The upgrade has been answered, but the edge has no socket yet.
    Accepted,
    Open,
    /// The edge has closed the socket too.
    Closed,
}

/// One connection of a client to an edge.
#[derive(Debug, Default)]
pub(crate) struct Socket {
    pub(crate) client: ClientIx,
    pub(super) edge: usize,
    /// Key in the edge's core; `None` before the edge accepts it.
    pub(crate) key: Option<ClientKey>,
    pub(super) state: State,
    /// Time at which the edge had the socket.
    pub(super) opened_at: Micros,
    /// `true` once the client has left the socket, independent of the edge's state.
    pub(super) left: bool,
    /// `true` while the edge does not read the socket.
    pub(super) paused: bool,
    /// Frames that have arrived and that the edge has not read.
    pub(super) unread: VecDeque<ClientFrame>,
    /// Arrival time of the client's last frame at the edge.
    pub(super) up_arrives: Micros,
    /// Bytes of an incomplete frame that the client has read.
    pub(super) received: Vec<u8>,
    /// `true` if the edge had it prove that it lives.
    pub(super) proves: bool,
    /// `true` once the client has read `welcome`.
    pub(super) welcomed: bool,
    /// Time until which the client reads nothing.
    pub(super) rests_until: Micros,
    /// `true` while the end of that time is scheduled.
    pub(super) writable_planned: bool,
    /// `true` if the client reads late, at least for a time.
    pub(super) slow: bool,
    /// The socket whose welcome brought the resume token of this one.
    pub(super) token_of: Option<SocketId>,
    /// The client's previous socket.
    pub(super) former: Option<SocketId>,
    /// Time at which the client lost the socket, and `true` if it ended its session by a goodbye.
    pub(super) lost: Option<(Micros, bool)>,
    /// Reconnect delay that the server requested; `None` if it did not.
    pub(super) come_back_after: Option<Micros>,
    /// Bytes that the kernel accepted for an absent client.
    pub(super) swallowed: usize,
}

impl Socket {
    /// Returns `true` if an outcome would reach the client promptly.
    pub(crate) fn takes_outcomes(&self) -> bool {
        self.state == State::Open && !self.left && !self.slow
    }
}

const SOCKET_BUFFER: usize = 32 * 1024;
/// Opcodes of frames.
const TEXT: u8 = 1;
const PING: u8 = 9;

impl World {
    /// Returns a socket's edge and its key there, unless the edge has closed it.
    pub(crate) fn key_of(&self, socket: SocketId) -> Option<(usize, ClientKey)> {
        let socket = &self.sockets[socket];
        socket.key.filter(|_| socket.state != State::Closed).map(|key| (socket.edge, key))
    }

    /// Handles a client's frame at its edge, `None` for a pong.
    pub(super) fn edge_text(&mut self, id: SocketId, frame: Option<ClientFrame>) {
        let Some((edge, key)) = self.key_of(id) else { return };
        let socket = &mut self.sockets[id];
        // Unread bytes do not count for the keep-alive.
        if !socket.paused {
            self.edges[edge].core.heard(self.agenda.instant(), key);
            if frame.is_none() {
                self.edges[edge].core.client_pong(self.agenda.instant(), key);
            }
        }
        let Some(frame) = frame else { return };
        socket.unread.push_back(frame);
        self.read_socket(edge, id, key);
    }

    /// Reads a socket whose edge had paused it, with the texts that arrived meanwhile.
    pub(crate) fn read_again(&mut self, edge: usize, key: ClientKey) {
        let Some(id) = self.edges[edge].socket_by_client.get(&key).copied() else { return };
        self.sockets[id].paused = false;
        if !self.sockets[id].unread.is_empty() {
            self.edges[edge].core.heard(self.agenda.instant(), key);
        }
        self.read_socket(edge, id, key);
    }

    fn read_socket(&mut self, edge: usize, id: SocketId, key: ClientKey) {
        let socket = &mut self.sockets[id];
        while !socket.paused
            && let Some(frame) = socket.unread.pop_front()
        {
            let text = match frame {
                ClientFrame::Dialect(text) => text,
                ClientFrame::Received(n) => format!(r#"{{"type":"received","n":{n}}}"#),
                ClientFrame::Request(ClientRequest::Room(ask), position) => {
                    match self.rooms.sends(self.agenda.now(), ask, id, position.number) {
                        Some(text) => text,
                        None => continue,
                    }
                }
                ClientFrame::Request(ClientRequest::Message(message), position) => {
                    // A client that has left reads no outcomes.
                    let (is_deaf, is_kept) = (socket.slow || socket.left, socket.proves && !socket.welcomed);
                    self.ledger.taken(message, (id, position), is_deaf, is_kept);
                    request(message, &self.sendings[message], position)
                }
            };
            let reading = self.edges[edge].core.client_text(self.agenda.instant(), key, text.as_bytes());
            socket.paused = reading == Reading::Paused;
        }
    }

    /// Answers the upgrade of a client that a node has admitted.
    pub(crate) fn accepted(&mut self, edge: usize, key: ClientKey) {
        let delay = self.rng.delay();
        let Some(id) = self.edges[edge].socket_by_client.get(&key).copied() else { return };
        self.sockets[id].state = State::Accepted;
        self.later(Host::Edge(edge), delay, move |world| world.opened(id));
    }

    fn opened(&mut self, id: SocketId) {
        let Some((edge, key)) = self.key_of(id) else { return };
        let core = &mut self.edges[edge].core;
        core.socket_opened(self.agenda.instant(), key);
        let first = core.output(key).first().copied();
        let socket = &mut self.sockets[id];
        // A newcomer that must prove that it lives gets a Ping. If its node was lost since, it has
        // no output but the close that follows. Only a client with a former socket must prove it.
        socket.proves = first == Some(0x80 | PING) || (first.is_none() && socket.former.is_some());
        (socket.state, socket.opened_at) = (State::Open, self.agenda.now());
        self.trace.line(|| format!("socket {id} of c{} is open", socket.client));
        if socket.left {
            return;
        }
        let index = socket.client;
        let client = &mut self.clients[index];
        client.away.end(self.agenda.now());
        if self.subscribers.contains(index) {
            return self.subscriber_opens(id);
        }
        // A reliable client waits for the welcome.
        if client.reliable.is_some() {
            return;
        }
        let pending = std::mem::take(&mut client.pending);
        pending.into_iter().for_each(|request| self.send_frame(id, super::plain_frame(id, request)));
    }

    /// Refuses a client if its admission is not decided.
    pub(crate) fn give_up_waiting(&mut self, id: SocketId) {
        let Some((edge, key)) = self.key_of(id) else { return };
        if self.sockets[id].state == State::Opening {
            self.edges[edge].core.socket_closed(key, DetachReason::Lost);
            let (code, message) = ("no_node".to_owned(), "no node has answered in time".to_owned());
            self.refused(edge, key, &Refusal { status: 503, code, message, retry_after_ms: None });
        }
    }

    /// Handles the end of a socket at its edge.
    pub(super) fn socket_gone(&mut self, id: SocketId, exit: Exit) {
        let Some((edge, key)) = self.key_of(id) else { return };
        // An edge reads close frames from open sockets only.
        let is_open = std::mem::replace(&mut self.sockets[id].state, State::Closed) == State::Open;
        let edge = &mut self.edges[edge];
        match exit {
            Exit::Close(_) if is_open && self.mutant == Some(Mutant::CloseFrames) => {
                edge.core.client_left(key, Some(CloseCode::NORMAL));
            }
            Exit::Close(code) if is_open => edge.core.client_left(key, code),
            Exit::GOODBYE => edge.core.socket_closed(key, DetachReason::Left),
            _ => edge.core.socket_closed(key, DetachReason::Lost),
        }
        edge.socket_by_client.remove(&key);
    }

    /// Ends a socket that the edge refused. After an accept this is a violation, unless the client
    /// has left. The client connects again later.
    pub(crate) fn refused(&mut self, edge: usize, key: ClientKey, refusal: &Refusal) {
        let again = self.rng.within(500 * MS, 1_500 * MS);
        let Some(id) = self.edges[edge].socket_by_client.remove(&key) else { return };
        let socket = &self.sockets[id];
        let (index, Refusal { status, message, .. }) = (socket.client, refusal);
        if socket.state == State::Accepted && !socket.left {
            self.ledger.broken("refused after accept", format!("socket {id} of c{index}: {message}"));
        }
        self.sockets[id].state = State::Closed;
        self.trace.line(|| format!("socket {id} of c{index} is refused: {status} {message}"));
        self.client_lost_socket(id, Some(again));
    }

    /// Ends a socket that the edge closed. The last bytes reach a present client in half of the
    /// cases. A close without a known reason is a violation.
    pub(crate) fn closed_by_mesh(&mut self, edge: usize, key: ClientKey, code: CloseCode, last_words: &[u8]) {
        // The reply to a client's own close frame reaches no client.
        let Some(id) = self.edges[edge].socket_by_client.remove(&key) else { return };
        let again = self.rng.within(500 * MS, 1_500 * MS);
        let arrives = self.rng.percent(50);
        // The kernel of an absent client does not accept the rest of a partial message either.
        if arrives && !self.sockets[id].left {
            self.socket_takes(id, last_words);
        }
        self.sockets[id].state = State::Closed;
        let Socket { client, left, slow, come_back_after, proves, welcomed, .. } = self.sockets[id];
        let is_drained = code == CloseCode::GOING_AWAY && self.edges[edge].draining;
        self.trace.sent(last_words, || format!("socket {id} of c{client} is closed by the mesh: {code:?}"));
        let gives_up = self.subscribers.contains(client) && code == CloseCode::TRY_AGAIN;
        let is_unproven = proves && !welcomed && code == CloseCode::TRY_AGAIN;
        // A Ping waits behind the messages that the client has not read.
        let is_too_slow = slow && [CloseCode::TOO_SLOW, CloseCode::HEARTBEAT_MISSED].contains(&code);
        let is_expected = left || is_drained || gives_up || is_unproven || is_too_slow;
        if !is_expected {
            self.ledger.broken("closed by the mesh", format!("socket {id} of c{client}: {code:?}"));
        }
        self.client_lost_socket(id, Some(come_back_after.unwrap_or(again)));
    }

    /// Writes as many bytes as the client's socket accepts.
    pub(crate) fn write_out(&mut self, edge: usize, key: ClientKey) {
        let (now, instant) = (self.agenda.now(), self.agenda.instant());
        while let Some(id) = self.edges[edge].socket_by_client.get(&key).copied() {
            let (core, socket) = (&mut self.edges[edge].core, &mut self.sockets[id]);
            let output = core.output(key);
            let client = &mut self.clients[socket.client];
            if output.is_empty() {
                client.busy.end(now);
                return;
            }
            let count = if socket.left {
                let count = output.len().min(SOCKET_BUFFER - socket.swallowed);
                socket.swallowed += count;
                count
            } else if now < socket.rests_until {
                client.busy.begin(now);
                0
            } else if let Some((bytes, rest)) = client.takes {
                socket.rests_until = now + rest;
                output.len().min(bytes)
            } else {
                output.len()
            };
            let taken = output.get(..count).unwrap_or_default().to_vec();
            core.wrote(instant, key, count);
            if count == 0 {
                let at = socket.rests_until.max(now + MS);
                if !socket.left && !std::mem::replace(&mut socket.writable_planned, true) {
                    self.later(Host::Edge(edge), at - now, move |world| world.writable(id));
                }
                return;
            }
            self.socket_takes(id, &taken);
        }
    }

    fn writable(&mut self, id: SocketId) {
        if let Some((edge, key)) = self.key_of(id) {
            self.sockets[id].writable_planned = false;
            self.write_out(edge, key);
        }
    }

    /// Gives bytes to the socket. A message counts as written with its last byte.
    fn socket_takes(&mut self, id: SocketId, bytes: &[u8]) {
        self.sockets[id].received.extend_from_slice(bytes);
        while let Some(frame) = take_frame(&mut self.sockets[id].received) {
            let (client, (opcode, payload)) = (self.sockets[id].client, parts(&frame));
            self.trace.sent(&frame, || match opcode {
                TEXT => format!("c{client} socket {id} gets {}", front(payload)),
                _ => format!("c{client} socket {id} gets opcode {opcode}"),
            });
            match opcode {
                TEXT => self.client_gets(id, payload),
                PING if !self.sockets[id].left => {
                    let delay = self.rng.delay();
                    self.later(Host::Edge(self.sockets[id].edge), delay, move |world| world.edge_text(id, None));
                }
                _ => {}
            }
        }
    }

    /// Returns `true` if an open socket has frames that its edge has not read.
    pub(crate) fn unread(&self) -> bool {
        self.sockets.iter().any(|socket| socket.takes_outcomes() && !socket.unread.is_empty())
    }
}

/// Removes one whole, unmasked frame from the front of `bytes`. `None`: it is incomplete.
fn take_frame(bytes: &mut Vec<u8>) -> Option<Vec<u8>> {
    let length = encode::frame_len(bytes).filter(|length| *length <= bytes.len())?;
    Some(bytes.drain(..length).collect())
}

/// Returns the opcode and payload of a whole, unmasked frame.
fn parts(frame: &[u8]) -> (u8, &[u8]) {
    let header = match frame[1] {
        126 => 4,
        127 => 10,
        _ => 2,
    };
    (frame[0] & 0x0f, &frame[header..])
}

fn request(message: MessageId, sending: &Sending, position: Position) -> String {
    let ttl = sending.ttl_ms.map(|ttl| format!(",\"ttl_ms\":{ttl}")).unwrap_or_default();
    let (to, padding, id) = (sending.to, "x".repeat(sending.padding), position.number);
    format!(r#"{{"type":"signal","to":"c{to}","data":{{"m":{message},"pad":"{padding}"}},"id":{id}{ttl}}}"#)
}
