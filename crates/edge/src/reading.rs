//! Reads clients' sockets for the event loop (`sockets`) and decodes frames for the core.

use std::io;
use std::time::Instant;

use mio::event::Event;
use signaling_protocol::CloseCode;

use crate::client_socket::{PolledSocket, ReadResult};
use crate::metrics::{EvictionLabel, METRICS, ViolationLabel};
use crate::sockets::MAX_SOCKETS_PER_TURN;
use crate::state::State;
use signaling_core::edge::{ClientKey, Reading};
use signaling_core::ws::{self, Decoder, Limits};

/// A client's open socket, with its read state.
pub(super) struct Socket {
    pub(super) stream: PolledSocket,
    /// `true` if the kernel accepts no more bytes now.
    pub(super) blocked: bool,
    /// Start of the current partial message, or the read in which an earlier message ended. `None`
    /// without a partial message, or while the client is paused.
    pub(super) unfinished_since: Option<Instant>,
    /// Bytes of the partial message.
    pub(super) unfinished_bytes: usize,
    decoder: Decoder,
    limits: Limits,
    /// Bytes that followed the client's request.
    early: Option<Box<[u8]>>,
    /// `true` if the core does not read the client now.
    paused: bool,
    /// `true` if the client is queued for a read without an event.
    read_pending: bool,
    /// `true` if the client has ended its write side. The end is still to be read.
    ends: bool,
}

impl Socket {
    /// Creates the state of a new socket with these message limits. `early` are bytes already read.
    pub(super) fn new(stream: PolledSocket, early: &[u8], limits: Limits) -> Self {
        Self {
            stream,
            blocked: false,
            unfinished_since: None,
            unfinished_bytes: 0,
            decoder: Decoder::default(),
            limits,
            early: (!early.is_empty()).then(|| early.into()),
            paused: false,
            read_pending: false,
            ends: false,
        }
    }
}

impl State {
    /// Writes and reads the client's socket after an event.
    pub(super) fn socket_ready(&mut self, now: Instant, key: ClientKey, event: &Event) {
        let Some(socket) = self.socket(key) else { return };
        let ends = event.is_read_closed() || event.is_error();
        socket.ends |= ends;
        let unblocked = event.is_writable() && std::mem::take(&mut socket.blocked);
        if ends {
            self.core.socket_ends(key);
        }
        if unblocked {
            self.flush(now, key);
        }
        if event.is_readable() || event.is_read_closed() || event.is_error() {
            self.read(now, key);
        }
    }

    /// Reads up to 64 clients and all links that have input without an event.
    pub(super) fn read_again(&mut self, now: Instant) {
        for link in std::mem::take(&mut self.read_pending_links) {
            self.link_ready(now, link, false);
        }
        let some = self.read_pending.len().min(MAX_SOCKETS_PER_TURN);
        let clients: Vec<_> = self.read_pending.drain(..some).collect();
        for client in clients {
            let Some(socket) = self.socket(client) else { continue };
            if !std::mem::take(&mut socket.read_pending) || socket.paused {
                continue;
            }
            // Bytes that were read earlier come first.
            let early = socket.early.take();
            if early.is_some() || socket.decoder.has_backlog() {
                self.process(now, client, &mut early.unwrap_or_default());
            }
            self.read(now, client);
        }
        if !self.read_pending.is_empty() {
            self.again.notify_one();
        }
    }

    /// Queues the client for a read after all others.
    pub(super) fn read_later(&mut self, key: ClientKey) {
        let Some(socket) = self.socket(key) else { return };
        if !std::mem::replace(&mut socket.read_pending, true) {
            self.read_pending.push_back(key);
            self.again.notify_one();
        }
    }

    /// Continues to read a paused client, unless it is closed.
    pub(super) fn resume(&mut self, key: ClientKey) {
        if let Some(socket) = self.socket(key) {
            socket.paused = false;
            self.read_later(key);
        }
    }

    /// Reads once into the buffer that all clients share, so that an idle client holds none.
    fn read(&mut self, now: Instant, key: ClientKey) {
        let mut buffer = std::mem::take(&mut self.scratch);
        if let Some(socket) = self.socket(key).filter(|socket| !socket.paused && socket.early.is_none()) {
            match socket.stream.try_read(&mut buffer) {
                Ok(ReadResult { bytes: 0, read_again: false }) => self.client_gone(key),
                Ok(ReadResult { bytes, read_again }) => {
                    let read_again = read_again || socket.ends;
                    if bytes > 0 {
                        self.process(now, key, buffer.get_mut(..bytes).unwrap_or_default());
                    }
                    if read_again {
                        self.read_later(key);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => self.client_gone(key),
            }
        }
        self.scratch = buffer;
    }

    fn process(&mut self, now: Instant, key: ClientKey, bytes: &mut [u8]) {
        let Some(socket) = self.socket(key) else { return };
        let (mut decoder, limits) = (std::mem::take(&mut socket.decoder), socket.limits);
        self.read_bytes += bytes.len() as u64;
        self.core.heard(now, key);
        let (reading, finished) = self.decode(now, key, decoder.feed(bytes, limits));
        let Some(socket) = self.clients.get_mut(key).and_then(|client| client.socket.as_mut()) else { return };
        socket.paused = reading == Reading::Paused;
        // A finished message restarts the time for the next one.
        let since = socket.unfinished_since.filter(|_| !finished).unwrap_or(now);
        socket.unfinished_since = (reading == Reading::On && decoder.unfinished()).then_some(since);
        let held = decoder.held();
        self.unfinished_bytes = self.unfinished_bytes - socket.unfinished_bytes + held;
        socket.unfinished_bytes = held;
        socket.decoder = decoder;
        if held > 0 && self.unfinished_bytes > self.config.core.max_memory_bytes {
            METRICS.evicted.of(EvictionLabel::Unfinished).inc();
            self.core.close(key, CloseCode::TRY_AGAIN, "memory is short: send each message without a pause");
        }
    }

    /// Passes frames to the core. Returns whether reading continues, and `true` if a message ended.
    fn decode(&mut self, now: Instant, key: ClientKey, mut input: ws::Input<'_>) -> (Reading, bool) {
        let mut finished = false;
        loop {
            let reading = match input.next() {
                Ok(None) => return (Reading::On, finished),
                Ok(Some(ws::Event::Text(text))) => {
                    finished = true;
                    self.core.client_text(now, key, text)
                }
                Ok(Some(ws::Event::Ping(payload))) => self.core.client_ping(now, key, payload),
                Ok(Some(ws::Event::Binary(bytes))) => {
                    finished = true;
                    self.core.client_binary(now, key, bytes)
                }
                Ok(Some(ws::Event::Pong(_))) => self.core.client_pong(now, key),
                Ok(Some(ws::Event::Close(code, _))) => {
                    self.core.client_left(key, code.map(CloseCode));
                    Reading::Paused
                }
                Err(violation) => {
                    METRICS.violations.of(ViolationLabel(violation.code)).inc();
                    self.core.client_violates(key, violation);
                    Reading::Paused
                }
            };
            if reading == Reading::Paused {
                return (reading, finished);
            }
        }
    }

    /// Returns the client's socket; `None` if it is not open.
    pub(super) fn socket(&mut self, key: ClientKey) -> Option<&mut Socket> {
        self.clients.get_mut(key)?.socket.as_mut()
    }
}
