//! The edge's core with its sockets, shared by all tasks. Executes effects and writes to clients.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::hint::black_box;
use std::io;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use mio::Registry;
use signaling_metrics::Publish as _;
use signaling_protocol::{ClientId, CloseCode, limits};
use signaling_server::PauseDetector;
use signaling_server::metrics::Direction;
use signaling_server::pause_detector::since_boot;
use signaling_server::trunk::OutboundTrunk;
use signaling_wire::SessionId;
use signaling_wire::trunk::DetachReason;
use slotmap::SecondaryMap;
use tokio::sync::{Notify, oneshot};
use tokio::task::AbortHandle;
use tracing::{debug, trace, warn};

use crate::admission::{Admission, AdmittedClient, network};
use crate::client_socket::TaskSocket;
use crate::handshakes::{HandshakeKey, Handshakes};
use crate::links::{LinkContext, Links};
use crate::metrics::{self, CloseLabel, METRICS, ViolationLabel};
use crate::reading::Socket;
use crate::refusal_log::RefusalLog;
use crate::sockets::{Sockets, token_of};
use crate::{Backend, EdgeConfig, closing, dialect_metrics};
use signaling_core::edge::{ClientKey, DialectClient, EdgeCore, Effect, LinkKey, Newcomer, Refusal};
use signaling_core::ws::Limits;
use signaling_dialects::Dialect;
use signaling_dialects::dialect::ENVELOPE_BYTES;

/// Maximum time from the start of a message to its end.
const MAX_MESSAGE_TIME: Duration = Duration::from_secs(10);
/// Maximum size of one read. It limits the time that other clients wait for a busy one.
const SCRATCH_BYTES: usize = 64 * 1024;

type Decision = oneshot::Sender<Result<(), Refusal>>;

/// A client with a socket or waiting for one.
pub(super) struct Client {
    address: IpAddr,
    id: ClientId,
    session: SessionId,
    /// Takes the node's decision to the client's request; `None` once it is known.
    decision: Option<Decision>,
    ws_limits: Limits,
    pub(super) socket: Option<Socket>,
    admitted: Rc<AdmittedClient>,
}

pub(super) struct State {
    pub(super) core: EdgeCore,
    backend: Box<dyn Backend>,
    pub(super) links: Links,
    /// `true` if the event loop wakes for frames with a flush delay.
    pub(super) flush_is_scheduled: bool,
    pub(super) admission: Rc<RefCell<Admission>>,
    pub(super) handshakes: Handshakes,
    pub(super) refusals: RefusalLog,
    ws_limits: Limits,
    pub(super) config: Rc<EdgeConfig>,
    /// `true` while new clients are refused.
    pub(super) draining: bool,
    /// Gets a beat at every event, so at least at every sweep unless the process is paused.
    pauses: PauseDetector,
    pub(super) clients: SecondaryMap<ClientKey, Client>,
    /// The poll of clients' sockets.
    registry: Registry,
    /// Clients to read without an event: the edge-triggered poll may not report their bytes again.
    pub(super) read_pending: VecDeque<ClientKey>,
    /// Links to read without an event, for the same reason.
    pub(super) read_pending_links: VecDeque<LinkKey>,
    /// Wakes the event loop without an event.
    pub(super) again: Rc<Notify>,
    /// Bytes of partial messages of all clients.
    pub(super) unfinished_bytes: usize,
    /// Bytes read from clients since the start.
    pub(super) read_bytes: u64,
    written_bytes: u64,
    /// Buffer of all reads, 64 KiB.
    pub(super) scratch: Vec<u8>,
}

impl State {
    /// Creates the state of an edge without clients. Fails if the system refuses a descriptor.
    pub(super) fn new(
        core: EdgeCore,
        config: Rc<EdgeConfig>,
        backend: Box<dyn Backend>,
        sockets: &Sockets,
    ) -> io::Result<Self> {
        let now = Instant::now();
        metrics::publish_limits(&config);
        let max_message_bytes = config.max_message_bytes.min(limits::MAX_MESSAGE_BYTES);
        let max_message_bytes = u32::try_from(max_message_bytes).unwrap_or(u32::MAX);
        Ok(Self {
            core,
            backend,
            links: Links::default(),
            flush_is_scheduled: false,
            admission: Rc::new(RefCell::new(Admission::new(config.admission, now))),
            handshakes: Handshakes::new(config.handshakes),
            refusals: RefusalLog::new(now),
            ws_limits: Limits { max_message_bytes, ..Limits::default() },
            draining: false,
            pauses: PauseDetector::new(since_boot()),
            clients: SecondaryMap::new(),
            registry: sockets.poll.borrow().registry().try_clone()?,
            read_pending: VecDeque::new(),
            read_pending_links: VecDeque::new(),
            again: Rc::clone(&sockets.again),
            unfinished_bytes: 0,
            read_bytes: 0,
            written_bytes: 0,
            scratch: vec![0; SCRATCH_BYTES],
            config,
        })
    }

    /// Adds a connection. Above the limit removes the oldest non-client, and returns its task.
    pub(super) fn begin_handshake(&mut self) -> (HandshakeKey, Option<AbortHandle>) {
        let clients = self.admission.borrow().sockets();
        self.handshakes.begin(self.config.connections.saturating_sub(clients))
    }

    /// Assigns a connection to an address. Above the limit of the address's connections that are
    /// not clients, removes the oldest and returns its task, to abort.
    pub(super) fn set_handshake_address(&mut self, key: HandshakeKey, address: IpAddr) -> Option<AbortHandle> {
        let limit = self.admission.borrow().max_other_connections(address)?;
        self.handshakes.set_network(key, network(address), limit)
    }

    /// Requests a node for an admitted client. The receiver gets its acceptance or refusal, or an
    /// error if the client is removed before.
    pub(super) fn connect(
        &mut self,
        now: Instant,
        (newcomer, dialect): (Newcomer, Option<DialectClient>),
        address: IpAddr,
        admitted: Rc<AdmittedClient>,
    ) -> (ClientKey, oneshot::Receiver<Result<(), Refusal>>) {
        let (decision, decided) = oneshot::channel();
        let (id, session) = (newcomer.client_id.clone(), newcomer.session);
        let ws_limits = dialect.as_ref().map_or(self.ws_limits, |client| self.limits_of(client.dialect));
        let client = self.core.connect(now, newcomer, dialect);
        let decision = Some(decision);
        self.clients.insert(client, Client { address, id, session, decision, ws_limits, socket: None, admitted });
        (client, decided)
    }

    /// Returns the limits of the messages of a dialect's clients.
    fn limits_of(&self, dialect: Dialect) -> Limits {
        let usable = self.ws_limits.max_message_bytes.saturating_sub(u32::try_from(ENVELOPE_BYTES).unwrap_or(u32::MAX));
        let of_dialect = u32::try_from(dialect.max_message_bytes()).unwrap_or(u32::MAX);
        Limits { max_message_bytes: of_dialect.min(usable), binary: true, ..self.ws_limits }
    }

    /// Starts a client's socket after its upgrade. `early` are bytes that were already read.
    /// Removes the client if the system refuses to poll the socket.
    pub(super) fn socket_opened(&mut self, now: Instant, key: ClientKey, stream: TaskSocket, early: &[u8]) {
        let Some(client) = self.clients.get_mut(key) else { return };
        let stream = match stream.register(&self.registry, token_of(key)) {
            Ok(stream) => stream,
            Err(error) => {
                debug!(client = %client.id, session = %client.session, %error, "cannot poll the socket of a client");
                return self.client_gone(key);
            }
        };
        debug!(client = %client.id, session = %client.session, address = %client.address, "client connected");
        client.socket = Some(Socket::new(stream, early, client.ws_limits));
        METRICS.opened.inc();
        METRICS.sockets.inc();
        self.core.socket_opened(now, key);
        self.read_later(key);
    }

    /// Returns the session of a client that has a socket or waits for one; `None`: there is none.
    pub(super) fn session_of(&self, id: &str) -> Option<SessionId> {
        self.clients.values().find(|client| client.id.as_str() == id).map(|client| client.session)
    }

    /// Logs the failed upgrade of an admitted client.
    pub(super) fn upgrade_failed(&self, key: Option<ClientKey>, error: &dyn std::error::Error) {
        if let Some(client) = key.and_then(|key| self.clients.get(key)) {
            debug!(client = %client.id, session = %client.session, %error, "upgrade failed");
        }
    }

    /// Removes a client whose socket has ended, or whose request has.
    pub(super) fn client_gone(&mut self, key: ClientKey) {
        let Some(client) = self.remove(key) else { return };
        if client.socket.is_some() {
            debug!(client = %client.id, session = %client.session, "socket of a client ended");
        }
        self.core.socket_closed(key, DetachReason::Lost);
    }

    /// Closes all trunks if it detects a process pause.
    pub(super) fn detect_pause(&mut self, now: Instant) {
        if let Some(paused) = self.pauses.beat(since_boot()) {
            warn!(?paused, "process was paused, all trunks close");
            self.core.on_process_pause(now);
            // Input of the trunks may be as old as the pause.
            self.links(now).close_all();
        }
    }

    /// Executes the effects of the core and writes to clients until none is left, without waiting.
    pub(super) fn turn(&mut self, now: Instant) {
        loop {
            while let Some(effect) = self.core.next_effect() {
                self.execute(now, effect);
            }
            let clients = self.core.take_clients_with_output();
            if clients.is_empty() {
                break;
            }
            self.prefetch(clients.iter().copied());
            for client in clients {
                self.flush(now, client);
            }
        }
    }

    /// Adds a link over a trunk that this edge began to open at `asked`. Fails if the system
    /// refuses to watch its socket.
    pub(super) fn add_trunk(&mut self, asked: Instant, trunk: OutboundTrunk) -> io::Result<LinkKey> {
        let link = self.core.link_up(asked, Instant::now());
        self.links.add_trunk(&self.registry, link, trunk).inspect_err(|_| self.core.link_down(link))?;
        Ok(link)
    }

    /// Returns the links with the state that their changes affect.
    pub(super) fn links(&mut self, now: Instant) -> LinkContext<'_> {
        LinkContext { now, core: &mut self.core, links: &mut self.links, backend: &mut *self.backend }
    }

    /// Wakes the event loop if trunks have frames to write, now or after the flush delay. Wakes the
    /// task of the local link if that has frames.
    pub(super) fn request_writes(&mut self, now: Instant) {
        if self.links.update_due(now, &self.core) || (!self.flush_is_scheduled && self.links.next_flush().is_some()) {
            self.again.notify_one();
        }
    }

    /// Writes trunks until none is due. Sessions of a failed trunk go to other links.
    pub(super) fn write_links(&mut self, now: Instant) {
        while self.links(now).write_due() {
            self.turn(now);
        }
    }

    /// Handles an event of a trunk's socket. `has_ended`: the event reports its end.
    pub(super) fn link_ready(&mut self, now: Instant, link: LinkKey, has_ended: bool) {
        if self.links(now).on_event(link, has_ended) {
            if !self.read_pending_links.contains(&link) {
                self.read_pending_links.push_back(link);
            }
            self.again.notify_one();
        }
    }

    /// Returns `true` if sockets must be read though no event came.
    pub(super) fn has_read_pending(&self) -> bool {
        !self.read_pending.is_empty() || !self.read_pending_links.is_empty()
    }

    /// Prefetches the state of clients before reads or writes, to overlap cache misses.
    pub(super) fn prefetch(&self, clients: impl Iterator<Item = ClientKey> + Clone) {
        for client in clients.clone() {
            black_box(self.clients.get(client).map(|client| (client.socket.is_some(), client.address)));
        }
        self.core.prefetch(clients);
    }

    fn execute(&mut self, now: Instant, effect: Effect) {
        match effect {
            Effect::AssignNode(client) => self.backend.assign_node(now, &mut self.core, client),
            Effect::Accept(key) => {
                let decision = self.clients.get_mut(key).and_then(|client| client.decision.take());
                if decision.is_none_or(|decision| decision.send(Ok(())).is_err()) {
                    self.client_gone(key);
                }
            }
            Effect::Refuse(key, refusal) => {
                if let Some(decision) = self.remove(key).and_then(|client| client.decision) {
                    // The request may have ended.
                    let _ = decision.send(Err(refusal));
                }
            }
            Effect::Close(key, code, last_frames) => {
                METRICS.closes.of(CloseLabel(code.0)).inc();
                if let Some(Client { id, session, socket: Some(socket), admitted, .. }) = self.remove(key) {
                    debug!(client = %id, %session, code = code.0, "closing the socket of a client");
                    match socket.stream.deregister(&self.registry) {
                        Ok(stream) => drop(tokio::task::spawn_local(async move {
                            closing::close(stream, last_frames).await;
                            drop(admitted);
                        })),
                        Err(error) => debug!(client = %id, %error, "socket closed without a close frame"),
                    }
                }
            }
            Effect::Verify(key, token) => self.renew_token(key, &token),
            Effect::Kick(kick) => {
                self.kick(&kick);
            }
            Effect::Read(key) => self.resume(key),
        }
    }

    /// Writes as much of a client's output as its socket accepts. An event requests the rest.
    pub(super) fn flush(&mut self, now: Instant, key: ClientKey) {
        let Some(client) = self.clients.get_mut(key) else { return };
        let Some(socket) = client.socket.as_mut() else { return };
        if socket.blocked {
            return;
        }
        loop {
            let output = self.core.output(key);
            let whole = output.len();
            if whole == 0 && !socket.stream.has_unsent_ciphertext() {
                return;
            }
            match socket.stream.try_write(output) {
                Ok(count) => {
                    trace!(client = %client.id, session = %client.session, count, "wrote to a client");
                    self.written_bytes += count as u64;
                    if count > 0 {
                        self.core.wrote(now, key, count);
                    }
                    if count == whole && !socket.stream.has_unsent_ciphertext() {
                        return;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if whole > 0 {
                        self.core.wrote(now, key, 0);
                    }
                    socket.blocked = true;
                    return;
                }
                Err(error) => {
                    debug!(client = %client.id, session = %client.session, %error, "socket of a client failed");
                    return self.client_gone(key);
                }
            }
        }
    }

    /// Closes sockets with a partial message of 10 s, writes to blocked ones, and sweeps the core.
    pub(super) fn sweep(&mut self, now: Instant) {
        let has_taken_too_long = |since| now.saturating_duration_since(since) >= MAX_MESSAGE_TIME;
        for client in self.clients_with(|socket| socket.unfinished_since.is_some_and(has_taken_too_long)) {
            METRICS.violations.of(ViolationLabel(CloseCode::POLICY.0)).inc();
            self.core.close(client, CloseCode::POLICY, "the message was not finished in time");
        }
        // Events of room need much of the send buffer free, which is late on a slow connection.
        for client in self.clients_with(|socket| socket.blocked) {
            if let Some(socket) = self.socket(client) {
                socket.blocked = false;
                self.flush(now, client);
            }
        }
        self.core.sweep(now);
    }

    /// Publishes the counts of the core and of the state itself.
    pub(super) fn publish(&self) {
        metrics::publish(&self.core);
        dialect_metrics::publish(&self.core);
        METRICS.handshakes.publish(self.handshakes.len() as u64);
        METRICS.partial.publish(self.unfinished_bytes as u64);
        METRICS.bytes.of(Direction::In).publish(self.read_bytes);
        METRICS.bytes.of(Direction::Out).publish(self.written_bytes);
    }

    /// Returns `true` if a connection may still become a client.
    pub(super) fn has_newcomers(&self) -> bool {
        self.handshakes.len() > 0 || self.clients.values().any(|client| client.socket.is_none())
    }

    fn clients_with(&self, is: impl Fn(&Socket) -> bool) -> Vec<ClientKey> {
        let has = |client: &Client| client.socket.as_ref().is_some_and(&is);
        self.clients.iter().filter(|(_, client)| has(client)).map(|(key, _)| key).collect()
    }

    /// Removes the client with its socket. Its admission ends with its connection.
    fn remove(&mut self, key: ClientKey) -> Option<Client> {
        let client = self.clients.remove(key)?;
        if let Some(socket) = &client.socket {
            self.unfinished_bytes -= socket.unfinished_bytes;
            METRICS.closed.inc();
            METRICS.sockets.dec();
        }
        Some(client)
    }
}
