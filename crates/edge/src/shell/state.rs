//! The edge's core with its sockets: what every task of the edge's thread shares.

use std::io;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use signaling_protocol::trunk::Gone;
use signaling_protocol::{ClientId, CloseCode, SessionId, limits};
use signaling_server::Pulse;
use slotmap::SecondaryMap;
use tokio::sync::{Notify, oneshot};
use tokio::task::AbortHandle;
use tracing::{debug, trace, warn};

use super::admission::Admission;
use super::handshakes::Handshakes;
use super::metrics::{self, EdgeMetrics, ShellCounts};
use super::wire::WireWriter;
use super::{Backend, Edge, EdgeConfig, closing};
use crate::core::{ClientKey, EdgeCore, Effect, Newcomer, Reading, Refusal};
use crate::identity::IdentityConfig;
use crate::ws::{Decoder, Event, Limits};

/// A message that is begun must end within this time.
const UNFINISHED: Duration = Duration::from_secs(10);
/// Largest read: of one client that sends a lot, the others must not wait for more than this.
const SCRATCH_BYTES: usize = 64 * 1024;

/// Answers a client that waits for its upgrade.
type Decision = oneshot::Sender<Result<(), Refusal>>;

/// A client on its way in, or in.
struct Client {
    address: IpAddr,
    id: ClientId,
    session: SessionId,
    decision: Option<Decision>,
    socket: Option<Socket>,
}

struct Socket {
    writer: Rc<WireWriter>,
    reader: AbortHandle,
    resume: Rc<Notify>,
    /// The kernel takes no more: a task waits until it does.
    blocked: bool,
    unfinished_since: Option<Instant>,
    /// Bytes of the message that it has begun.
    unfinished_bytes: usize,
}

pub(super) struct State {
    pub(super) core: EdgeCore,
    pub(super) backend: Box<dyn Backend>,
    pub(super) admission: Admission,
    pub(super) handshakes: Handshakes,
    pub(super) ws_limits: Limits,
    pub(super) metrics: EdgeMetrics,
    pub(super) identity: Rc<IdentityConfig>,
    pub(super) draining: bool,
    /// Beats whenever anything happens: at least every sweep, but for pauses.
    pulse: Pulse,
    clients: SecondaryMap<ClientKey, Client>,
    /// Bytes of begun messages, of all clients, and how many there may be.
    unfinished_bytes: usize,
    max_unfinished_bytes: usize,
    read_bytes: u64,
    written_bytes: u64,
    scratch: Vec<u8>,
}

impl State {
    pub(super) fn new(core: EdgeCore, config: &EdgeConfig, backend: Box<dyn Backend>) -> Self {
        let now = Instant::now();
        Self {
            core,
            backend,
            admission: Admission::new(config.admission, now),
            handshakes: Handshakes::new(config.handshakes),
            ws_limits: ws_limits(config.max_message_bytes),
            metrics: EdgeMetrics::new(config),
            identity: Rc::new(config.identity.clone()),
            draining: false,
            pulse: Pulse::new(now),
            clients: SecondaryMap::new(),
            unfinished_bytes: 0,
            max_unfinished_bytes: config.buffer_bytes,
            read_bytes: 0,
            written_bytes: 0,
            scratch: vec![0; SCRATCH_BYTES],
        }
    }

    /// A client that was let in by [`Admission::enter`] asks for a place.
    pub(super) fn connect(
        &mut self,
        now: Instant,
        newcomer: Newcomer,
        address: IpAddr,
    ) -> (ClientKey, oneshot::Receiver<Result<(), Refusal>>) {
        let (decision, decided) = oneshot::channel();
        let (id, session) = (newcomer.client_id.clone(), newcomer.session);
        let client = self.core.connect(now, newcomer);
        self.clients.insert(client, Client { address, id, session, decision: Some(decision), socket: None });
        (client, decided)
    }

    /// The client's upgrade was answered, and this is its socket.
    pub(super) fn socket_opened(
        &mut self,
        now: Instant,
        key: ClientKey,
        writer: Rc<WireWriter>,
        reader: AbortHandle,
        resume: Rc<Notify>,
    ) {
        let Some(client) = self.clients.get_mut(key) else { return reader.abort() };
        debug!(client = %client.id, session = %client.session, address = %client.address, "a client is in");
        let (blocked, unfinished_since, unfinished_bytes) = (false, None, 0);
        client.socket = Some(Socket { writer, reader, resume, blocked, unfinished_since, unfinished_bytes });
        self.metrics.opened();
        self.core.socket_opened(now, key);
    }

    /// The session of a client that is in, or on its way in.
    pub(super) fn session_of(&self, id: &ClientId) -> Option<SessionId> {
        self.clients.values().find(|client| client.id == *id).map(|client| client.session)
    }

    /// The client was let in, and did not take the answer.
    pub(super) fn upgrade_failed(&self, key: Option<ClientKey>, error: &dyn std::error::Error) {
        if let Some(client) = key.and_then(|key| self.clients.get(key)) {
            debug!(client = %client.id, session = %client.session, %error, "an upgrade failed");
        }
    }

    /// The client's socket, or its wait for one, has ended.
    pub(super) fn client_gone(&mut self, key: ClientKey, gone: Gone) {
        if self.forget(key) {
            self.core.socket_closed(key, gone);
        }
    }

    /// Lends out the read buffer that all clients share.
    pub(super) fn take_scratch(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.scratch)
    }

    pub(super) fn return_scratch(&mut self, scratch: Vec<u8>) {
        self.scratch = scratch;
    }

    /// Takes in what was read from a client. Says whether to go on reading.
    pub(super) fn client_bytes(&mut self, key: ClientKey, decoder: &mut Decoder, bytes: &mut [u8]) -> Reading {
        let now = Instant::now();
        self.core.heard(now, key);
        self.read_bytes += bytes.len() as u64;
        let mut input = decoder.feed(bytes, self.ws_limits);
        let mut finished = false;
        let reading = loop {
            match input.next() {
                Ok(None) => break Reading::On,
                Ok(Some(Event::Text(text))) => {
                    finished = true;
                    if self.core.client_text(now, key, text) == Reading::Paused {
                        break Reading::Paused;
                    }
                }
                Ok(Some(Event::Ping(payload))) => {
                    if self.core.client_ping(now, key, payload) == Reading::Paused {
                        break Reading::Paused;
                    }
                }
                Ok(Some(Event::Pong(_) | Event::Binary(_))) => {}
                Ok(Some(Event::Close(code, _))) => {
                    self.core.client_left(key, CloseCode(code.unwrap_or(CloseCode::NORMAL.0)));
                    break Reading::Paused;
                }
                Err(violation) => {
                    metrics::violation(violation.code);
                    self.core.close(key, CloseCode(violation.code), violation.reason);
                    break Reading::Paused;
                }
            }
        };
        drop(input);
        if let Some(socket) = self.clients.get_mut(key).and_then(|client| client.socket.as_mut()) {
            // After a message that has ended, it is the next one whose time runs.
            let since = socket.unfinished_since.filter(|_| !finished).unwrap_or(now);
            socket.unfinished_since = (reading == Reading::On && decoder.unfinished()).then_some(since);
            let bytes = decoder.held();
            self.unfinished_bytes = self.unfinished_bytes - socket.unfinished_bytes + bytes;
            socket.unfinished_bytes = bytes;
            if bytes > 0 && self.unfinished_bytes > self.max_unfinished_bytes {
                metrics::evicted_unfinished();
                self.core.close(key, CloseCode::TRY_AGAIN, "memory is short: finish a message once it is begun");
                return Reading::Paused;
            }
        }
        reading
    }

    /// Notices that this process did nothing for a while: it was stopped, or starved.
    pub(super) fn look_for_jump(&mut self, now: Instant) {
        if let Some(paused) = self.pulse.beat(now) {
            warn!(?paused, "this process was paused");
            self.core.jumped(now);
            self.backend.jumped(now, &mut self.core);
        }
    }

    /// Carries out what the core wants, until it wants nothing more.
    pub(super) fn turn(&mut self, edge: &Edge) {
        let now = Instant::now();
        loop {
            while let Some(effect) = self.core.next_effect() {
                self.carry_out(now, effect);
            }
            let clients = self.core.take_clients_with_output();
            if clients.is_empty() {
                break;
            }
            for client in clients {
                self.flush(now, edge, client);
            }
        }
        self.backend.wake(&self.core);
    }

    fn carry_out(&mut self, now: Instant, effect: Effect) {
        match effect {
            Effect::Place(client) => self.backend.place(now, &mut self.core, client),
            Effect::Accept(key) => {
                let decision = self.clients.get_mut(key).and_then(|client| client.decision.take());
                if decision.is_none_or(|decision| decision.send(Ok(())).is_err()) {
                    self.client_gone(key, Gone::Lost);
                }
            }
            Effect::Refuse(key, refusal) => {
                let decision = self.clients.get_mut(key).and_then(|client| client.decision.take());
                if let Some(decision) = decision {
                    // Whoever waited for it may be gone.
                    let _ = decision.send(Err(refusal));
                }
                self.forget(key);
            }
            Effect::Close(key, code, last_words) => {
                metrics::closes(code);
                if let Some(client) = self.clients.get_mut(key)
                    && let Some(socket) = client.socket.take()
                {
                    debug!(client = %client.id, session = %client.session, code = code.0, "closes a client's socket");
                    socket.reader.abort();
                    self.unfinished_bytes -= socket.unfinished_bytes;
                    self.metrics.closed();
                    tokio::task::spawn_local(closing::close(socket.writer, last_words));
                }
                self.forget(key);
            }
            Effect::Verify(key, token) => self.renew(key, &token),
            Effect::Kick(kick) => {
                self.put_out(&kick);
            }
            Effect::Read(key) => {
                if let Some(socket) = self.clients.get(key).and_then(|client| client.socket.as_ref()) {
                    socket.resume.notify_one();
                }
            }
        }
    }

    /// Writes what a client's socket takes at once; for the rest a task waits.
    pub(super) fn flush(&mut self, now: Instant, edge: &Edge, key: ClientKey) {
        let Some(client) = self.clients.get_mut(key) else { return };
        let Some(socket) = client.socket.as_mut() else { return };
        if socket.blocked {
            return;
        }
        loop {
            let output = self.core.output(key);
            let whole = output.len();
            if whole == 0 && !socket.writer.owes() {
                return;
            }
            match socket.writer.try_write(output) {
                Ok(count) => {
                    trace!(client = %client.id, session = %client.session, count, "wrote to a client");
                    self.written_bytes += count as u64;
                    if count > 0 {
                        self.core.wrote(now, key, count);
                    }
                    if count == whole && !socket.writer.owes() {
                        return;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if whole > 0 {
                        self.core.wrote(now, key, 0);
                    }
                    socket.blocked = true;
                    tokio::task::spawn_local(wait_writable(edge.clone(), key, Rc::clone(&socket.writer)));
                    return;
                }
                Err(error) => {
                    debug!(client = %client.id, session = %client.session, %error, "a client's socket broke");
                    return self.client_gone(key, Gone::Lost);
                }
            }
        }
    }

    /// Closes sockets whose messages never end, and lets the core look at the time.
    pub(super) fn sweep(&mut self, now: Instant) {
        let endless = |client: &Client| {
            let since = client.socket.as_ref()?.unfinished_since?;
            (now.saturating_duration_since(since) >= UNFINISHED).then_some(())
        };
        let endless: Vec<_> =
            self.clients.iter().filter(|(_, client)| endless(client).is_some()).map(|(key, _)| key).collect();
        for client in endless {
            metrics::violation(CloseCode::POLICY.0);
            self.core.close(client, CloseCode::POLICY, "a message was begun and not finished in time");
        }
        self.core.sweep(now);
        let counts = ShellCounts {
            handshakes: self.handshakes.len(),
            unfinished_bytes: self.unfinished_bytes,
            read_bytes: self.read_bytes,
            written_bytes: self.written_bytes,
        };
        self.metrics.publish(&self.core, counts);
    }

    /// Forgets the client's socket and gives its place free. Says whether there was one.
    fn forget(&mut self, key: ClientKey) -> bool {
        let Some(client) = self.clients.remove(key) else { return false };
        if let Some(socket) = client.socket {
            self.unfinished_bytes -= socket.unfinished_bytes;
            debug!(client = %client.id, session = %client.session, "a client's socket has ended");
            socket.reader.abort();
            self.metrics.closed();
        }
        self.admission.leave(client.address);
        true
    }
}

async fn wait_writable(edge: Edge, key: ClientKey, writer: Rc<WireWriter>) {
    // An error shows at the write that follows.
    let _ = writer.writable().await;
    edge.with(|state, edge| {
        if let Some(socket) = state.clients.get_mut(key).and_then(|client| client.socket.as_mut()) {
            socket.blocked = false;
        }
        state.flush(Instant::now(), edge, key);
    });
}

fn ws_limits(max_message_bytes: usize) -> Limits {
    let max_message_bytes = u32::try_from(max_message_bytes.min(limits::MAX_MESSAGE_BYTES)).unwrap_or(u32::MAX);
    Limits { max_message_bytes, ..Limits::default() }
}
