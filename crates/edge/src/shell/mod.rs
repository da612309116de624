//! The edge's I/O around its core.
//!
//! One thread runs it in local tasks: one per connection before its upgrade, one per socket that
//! closes, and one for all open sockets. The balancer's `run` and the node's `shell::direct`
//! create an [`Edge`]. A link is a trunk to a node, or the local link: the in-memory path to this
//! process's own node.
//!
//! A message from a client: `sockets` polls for readable clients. `reading` reads into a
//! buffer that all clients share, decodes it and passes each text to the core. The core appends it
//! to a link's batch. The event loop writes trunks; a node's task takes batches of the local link.
//!
//! A message to a client: the event loop reads a trunk, or the task of the local link calls
//! [`Edge::with_core`]. After that call, or after the ready sockets of one poll, `state` writes to
//! the clients with output.

mod address;
mod admission;
mod args;
mod bound;
mod client_socket;
mod closing;
mod connect;
mod cors;
pub mod dialect_metrics;
mod dialects;
mod drain;
mod handshakes;
mod identity;
mod intake;
mod links;
pub mod metrics;
mod query;
mod reading;
mod refusal_log;
mod sockets;
mod state;
mod tls;

use std::cell::{Cell, RefCell};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use signaling_protocol::ClientId;
use signaling_server::clock::{ticks, until};
use signaling_server::coalescer::Coalescer;
use signaling_server::http::{BadHead, HttpLimits, from_router, serve_connection};
use signaling_server::telemetry::publish_on_scrape;
use signaling_server::trunk::OutboundTrunk;
use signaling_server::{FlushSignal, Listener, SharedPort};
use tokio::net::TcpStream;
use tokio::task::yield_now;
use tokio::time::timeout;
use tracing::{debug, error, warn};

use self::admission::{AdmittedClient, TooMany};
use self::handshakes::HandshakeKey;
use self::intake::Intake;
use self::metrics::RefusalReason;
use self::sockets::Sockets;
use self::state::State;
use crate::identity::IdentityConfig;
use signaling_core::edge::{ClientKey, EdgeCore, FlushUrgency, LinkKey, SWEEP_INTERVAL, Settings};

pub use self::address::ClientAddresses;
pub use self::admission::AdmissionLimits;
pub use self::args::EdgeArgs;
pub use self::bound::MemoryBound;
pub use self::connect::unavailable;
pub use self::dialects::DialectConfig;
pub use self::drain::{drain_clients, send_goodbye};
pub use self::intake::ClientPort;
pub use self::links::LinkEvent;
pub use self::tls::{Tls, TlsError, TlsFiles};

/// The part of a server that decides which node serves a client. The edge calls it with its core.
pub trait Backend {
    /// Attaches the client to a link, keeps it until there is one, or refuses it. Called for each
    /// new client, and whenever a node released or rejected it or its link went down. Also called
    /// for a client without a socket whose messages have no outcome yet.
    fn assign_node(&mut self, now: Instant, core: &mut EdgeCore, client: ClientKey);

    /// Handles an event of a link.
    fn on_link_event(&mut self, now: Instant, core: &mut EdgeCore, link: LinkKey, event: LinkEvent);
}

/// Descriptors that public connections leave free for trunks, connections to peer nodes, discovery,
/// secrets and the internal listener; less if few are available, see [`EdgeConfig::within`].
pub const RESERVED_DESCRIPTORS: usize = 1_024;
/// Divisor of the reserved part where descriptors are few.
const RESERVED_PART: usize = 4;
/// Divisor of the public connections that clients cannot take, so that new requests are answered.
const NEWCOMERS_PART: usize = 16;

/// Interval of keep-alive checks.
const LINK_CHECK_INTERVAL: Duration = Duration::from_millis(250);
/// Time of a connection to become a client, once the listener is closed for a drain.
const NEWCOMERS_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum time to close all trunks before the process ends.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(200);
const CLOSE_CHECK_INTERVAL: Duration = Duration::from_millis(5);

/// Settings of an edge.
#[derive(Debug, Clone)]
pub struct EdgeConfig {
    /// Limits of client sockets and of their arrival rate.
    pub admission: AdmissionLimits,
    /// Maximum size of a client's message, in bytes; more than 1 MiB counts as 1 MiB. A larger
    /// message closes the socket with code 1009. The limits of dialects are at least 1 KiB lower.
    pub max_message_bytes: usize,
    /// Maximum connections that are not clients: before their upgrade, refused, or loading pages.
    /// One more closes the oldest.
    pub handshakes: usize,
    /// Maximum public connections, clients' and others; lowered by [`EdgeConfig::within`]. One more
    /// closes the oldest that is not a client. The new one is accepted even if all are clients.
    pub connections: usize,
    /// Limits of a request before its answer. The head timeout also limits the PROXY header and the
    /// TLS handshake, each on its own.
    pub http: HttpLimits,
    /// Source of clients' addresses.
    pub addresses: ClientAddresses,
    /// `true` if other processes may listen on the address for clients too.
    pub reuse_port: bool,
    /// TLS of the public listener; `None`: clients connect without TLS.
    pub tls: Option<Tls>,
    /// Settings of the core. `max_memory_bytes` also limits partial messages, counted separately.
    pub core: Settings,
    /// Rules for tokens and origins of clients.
    pub identity: IdentityConfig,
    /// Dialects of existing clients beside the native protocol.
    pub dialects: DialectConfig,
    /// Delay of reads while the server is busy. Unused while the edge has no trunk.
    pub coalescer: Coalescer,
}

impl EdgeConfig {
    /// Binds the address for clients.
    ///
    /// # Errors
    /// As for [`Listener::bind`].
    pub fn bind(&self, address: SocketAddr) -> io::Result<ClientPort> {
        if !self.reuse_port {
            return Listener::bind(address).map(ClientPort::Own);
        }
        warn!(listen = %address, "other processes of this user may listen on the address for clients too (--reuse-port)");
        SharedPort::bind(address).map(ClientPort::Shared)
    }

    /// Lowers the limits so that public connections leave descriptors of `open_files` free: 1,024,
    /// or a quarter if that is less. Client sockets take at most 15/16 of the rest, so that
    /// requests are still answered.
    #[must_use]
    pub fn within(mut self, open_files: u64) -> Self {
        let open_files = usize::try_from(open_files).unwrap_or(usize::MAX);
        let public = open_files - RESERVED_DESCRIPTORS.min(open_files / RESERVED_PART);
        self.connections = self.connections.min(public);
        self.admission.sockets = self.admission.sockets.min(public - public / NEWCOMERS_PART);
        self
    }
}

/// An edge. Clones share one state, on one thread. A call within another one, also by the backend,
/// panics. So does a call outside a `LocalSet` that closes a client's socket, which spawns a task.
#[derive(Clone)]
pub struct Edge {
    state: Rc<RefCell<State>>,
    sockets: Rc<Sockets>,
    intake: Rc<Intake>,
    config: Rc<EdgeConfig>,
}

impl Edge {
    /// Creates an edge without links or clients. It serves no client before [`Edge::serve`].
    ///
    /// # Errors
    /// If the system refuses a poll or a descriptor.
    ///
    /// # Panics
    /// Outside a Tokio runtime with I/O.
    pub fn new(config: &EdgeConfig, backend: Box<dyn Backend>) -> io::Result<Self> {
        Self::around(EdgeCore::new(config.core.clone()), config, backend)
    }

    /// Creates an edge around an existing core, which may have links. Panics like [`Edge::new`].
    ///
    /// # Errors
    /// As for [`Edge::new`].
    pub fn around(core: EdgeCore, config: &EdgeConfig, backend: Box<dyn Backend>) -> io::Result<Self> {
        let config = Rc::new(config.clone());
        let sockets = Sockets::new(config.coalescer.clone())?;
        let state = State::new(core, Rc::clone(&config), backend, &sockets)?;
        let intake = Rc::default();
        Ok(Self { state: Rc::new(RefCell::new(state)), sockets: Rc::new(sockets), intake, config })
    }

    /// Calls the core, executes its effects and writes to clients. The event loop writes to trunks.
    pub fn with_core<R>(&self, call: impl FnOnce(&mut EdgeCore) -> R) -> R {
        self.with(|state, _| call(&mut state.core))
    }

    /// Adds a link over a trunk to a node, which this edge began to open at `asked`. The event loop
    /// reads and writes the trunk.
    ///
    /// # Errors
    /// If the system refuses to watch the socket.
    pub fn add_trunk(&self, asked: Instant, trunk: OutboundTrunk) -> io::Result<LinkKey> {
        self.with(|state, _| state.add_trunk(asked, trunk))
    }

    /// Closes a trunk once its current batch is written; does not wait for that. Its sessions are
    /// assigned anew at once. No effect on a closed trunk.
    pub fn close_link(&self, link: LinkKey) {
        self.with(|state, now| state.links(now).close(link));
    }

    /// Closes all trunks, each once its current batch is written, so that nodes do not count a
    /// failure. The local link stays. Returns once all are closed, or after 200 ms.
    pub async fn close_trunks(&self) {
        self.with(|state, now| state.links(now).close_all());
        until(CLOSE_TIMEOUT, CLOSE_CHECK_INTERVAL, || self.with_state(|state| state.links.trunk_count()) == 0).await;
    }

    /// Returns `true` if the link has neither sessions nor unwritten frames, or is closed.
    pub fn is_link_idle(&self, link: LinkKey) -> bool {
        self.with_state(|state| {
            let core = &state.core;
            core.sessions_on(link) == 0 && core.wants(link) == FlushUrgency::Idle && state.links.is_flushed(link)
        })
    }

    /// Sets the local link. `signal` wakes the task that takes its batches by [`Edge::take_batch`].
    pub fn set_local_link(&self, link: LinkKey, signal: Rc<FlushSignal>) {
        self.with_state(|state| state.links.set_local(link, signal));
    }

    /// Takes the local link's frames for the node, possibly none. `None`: the link is down.
    #[must_use]
    pub fn take_batch(&self, link: LinkKey) -> Option<Vec<u8>> {
        self.with_state(|state| state.core.has_link(link).then(|| state.core.take_batch(link)))
    }

    /// Refuses new clients from now on: by code 1013 if they offer `signaling.v1`, else by 503.
    /// An address that other processes share first loses this listener, and connections that were
    /// accepted before get up to 1 s to become clients: no newcomer meets a draining process.
    pub async fn drain(&self) {
        if self.config.reuse_port {
            self.intake.close().await;
            until(NEWCOMERS_TIMEOUT, CLOSE_CHECK_INTERVAL, || !self.with_state(|state| state.has_newcomers())).await;
        }
        self.with_state(|state| state.draining = true);
    }

    /// Accepts new clients again.
    pub fn undrain(&self) {
        self.with_state(|state| state.draining = false);
        self.intake.open();
    }

    /// Returns the number of clients that have a socket or wait for one.
    pub fn clients(&self) -> usize {
        self.with_state(|state| state.clients.len())
    }

    /// Accepts and serves clients, and answers other requests from `pages`, with the client's
    /// address as [`ConnectInfo`]. Listens on a shared port only once `ready` is over. Returns only
    /// if the event loop fails, which is logged.
    ///
    /// # Panics
    /// Outside a `LocalSet`, once a connection is accepted.
    pub async fn serve(self, port: ClientPort, ready: impl Future<Output = ()>, pages: Router) {
        tokio::select! {
            served = self.sockets.serve(&self) => if let Err(error) = served {
                error!(%error, "cannot poll client sockets any more, no client is admitted");
            },
            () = self.accept(port, ready, pages) => {}
        }
    }

    async fn accept(&self, port: ClientPort, ready: impl Future<Output = ()>, pages: Router) {
        let port = match port {
            ClientPort::Own(mut listener) => loop {
                self.begin_handshake(listener.accept().await, &pages).await;
            },
            ClientPort::Shared(port) => port,
        };
        ready.await;
        let (address, mut port) = (port.local_addr(), Ok(port));
        loop {
            let mut listener = self.intake.opened(address, port).await;
            let queued = loop {
                tokio::select! {
                    accepted = listener.accept() => self.begin_handshake(accepted, &pages).await,
                    () = self.intake.until(false) => break listener.close(),
                }
            };
            for accepted in queued {
                self.begin_handshake(accepted, &pages).await;
            }
            self.intake.closed(address);
            port = SharedPort::bind(address);
        }
    }

    async fn begin_handshake(&self, (stream, peer): (TcpStream, SocketAddr), pages: &Router) {
        let (key, evicted) = self.with_state(State::begin_handshake);
        if let Some(evicted) = evicted {
            metrics::refused(RefusalReason::Handshakes);
            evicted.abort();
            // The aborted task drops its connection before the next one is accepted.
            yield_now().await;
        }
        let handshake = Handshake {
            edge: self.clone(),
            key,
            admitted: RefCell::default(),
            last_frames: RefCell::default(),
            is_forwarded: Cell::new(false),
        };
        let task = tokio::task::spawn_local(serve_handshake(handshake, stream, peer, pages.clone())).abort_handle();
        self.with_state(|state| state.handshakes.set_task(key, task));
    }

    /// Replaces the certificate within about 1 s of a change of its files. An unusable one leaves
    /// the old one in use. Never returns, also without TLS.
    pub async fn renew_certificate(self) {
        match &self.config.tls {
            Some(tls) => tls.clone().renew().await,
            None => std::future::pending().await,
        }
    }

    /// Runs the periodic work of the core and the links, and publishes metrics before each
    /// `/metrics` page of this thread. Never returns.
    pub async fn sweep(self) {
        let state = Rc::downgrade(&self.state);
        publish_on_scrape(move || {
            if let Some(state) = state.upgrade() {
                state.borrow().publish();
            }
        });
        let (mut sweeps, mut checks) = (ticks(SWEEP_INTERVAL), ticks(LINK_CHECK_INTERVAL));
        loop {
            tokio::select! {
                _ = sweeps.tick() => self.with(State::sweep),
                _ = checks.tick() => self.with(|state, now| state.links(now).check()),
            }
        }
    }

    fn with<R>(&self, act: impl FnOnce(&mut State, Instant) -> R) -> R {
        let mut state = self.state.borrow_mut();
        let now = Instant::now();
        state.detect_pause(now);
        let result = act(&mut state, now);
        state.turn(now);
        state.request_writes(now);
        result
    }

    /// Like [`Edge::with`], for the event loop, which writes the links itself.
    fn with_sockets(&self, act: impl FnOnce(&mut State, Instant)) {
        let mut state = self.state.borrow_mut();
        let now = Instant::now();
        state.detect_pause(now);
        act(&mut state, now);
        state.turn(now);
        state.write_links(now);
    }

    fn with_state<R>(&self, act: impl FnOnce(&mut State) -> R) -> R {
        act(&mut self.state.borrow_mut())
    }
}

/// A connection until it is upgraded or closed: a handshake until it is admitted, then a client.
struct Handshake {
    edge: Edge,
    key: HandshakeKey,
    /// The admission of the client, which counts until the connection is closed.
    admitted: RefCell<Option<Rc<AdmittedClient>>>,
    /// Frames for the socket of an upgrade that closes at once.
    last_frames: RefCell<Option<(OnUpgrade, Vec<u8>)>>,
    /// `true` if its last request names another client address, which the settings ignore.
    is_forwarded: Cell<bool>,
}

impl Handshake {
    /// Counts a refused connection of this address, and logs it.
    fn refused(&self, peer: SocketAddr, reason: RefusalReason, why: &str) {
        metrics::refused(reason);
        self.log_refusal(peer, why, || None);
    }

    /// Logs the refusal of a connect, see [`RefusalLog`](refusal_log::RefusalLog).
    ///
    /// A proxy that hides the addresses of its clients closes a mesh with limits per address. So
    /// the line of such a refusal names the flag.
    fn log_refusal(&self, peer: SocketAddr, why: &str, client: impl FnOnce() -> Option<ClientId>) {
        let hint = match self.is_forwarded.get() && TooMany::is_of_address(why) {
            true => "; its requests name other addresses, which count once --client-address is set",
            false => "",
        };
        let why = format!("{why}{hint}");
        self.edge.with_state(|state| state.refusals.record(Instant::now(), peer.ip(), &why, client));
    }
}

impl Drop for Handshake {
    fn drop(&mut self) {
        self.edge.with_state(|state| state.handshakes.remove(self.key));
    }
}

async fn serve_handshake(handshake: Handshake, mut stream: TcpStream, peer: SocketAddr, pages: Router) {
    let config = Rc::clone(&handshake.edge.config);
    let peer = match timeout(config.http.head_timeout, config.addresses.of_connection(&mut stream, peer)).await {
        Ok(Ok(peer)) => peer,
        Ok(Err(error)) => return handshake.refused(peer, RefusalReason::ProxyHeader, &error.to_string()),
        Err(_) => return metrics::refused(RefusalReason::Timeout),
    };
    let set_address = |state: &mut State| state.set_handshake_address(handshake.key, peer.ip());
    if !config.addresses.is_shared(peer.ip())
        && let Some(evicted) = handshake.edge.with_state(set_address)
    {
        let why = "the address has its maximum of connections, the oldest that is no client was closed";
        handshake.refused(peer, RefusalReason::Address, why);
        evicted.abort();
    }
    let service = |request: Request<Incoming>| {
        handshake.is_forwarded.set(config.addresses.ignores(request.headers()));
        answer(&handshake, peer, pages.clone(), request)
    };
    let bad = match &config.tls {
        None => serve_connection(stream, peer, config.http, service).await,
        Some(tls) => match timeout(config.http.head_timeout, tls.accept(stream)).await {
            Ok(Ok(stream)) => serve_connection(stream, peer, config.http, service).await,
            Ok(Err(error)) => {
                debug!(%peer, %error, "TLS handshake failed");
                return metrics::refused(RefusalReason::Tls);
            }
            Err(_) => return metrics::refused(RefusalReason::Timeout),
        },
    };
    match bad {
        None => {}
        // Browsers open spare connections and send nothing.
        Some(BadHead::Late) => metrics::refused(RefusalReason::Timeout),
        Some(BadHead::TooLarge) => handshake.refused(peer, RefusalReason::TooLarge, "the request's head is too large"),
        Some(BadHead::Malformed) => handshake.refused(peer, RefusalReason::BadRequest, "the bytes are no HTTP request"),
    }
    // A client that is refused by an upgrade gets a close frame.
    if let Some((upgrade, frames)) = handshake.last_frames.take()
        && let Ok(Ok((stream, _))) = upgrade.await.map(client_socket::recover)
    {
        closing::close(stream, frames).await;
    }
}

async fn answer(
    handshake: &Handshake,
    peer: SocketAddr,
    pages: Router,
    mut request: Request<Incoming>,
) -> Response<Body> {
    let peer = handshake.edge.config.addresses.of_request(peer, request.headers());
    let path = request.uri().path();
    if path == connect::PATH {
        connect::answer(handshake, peer, request).await
    } else if let Some((dialect, below)) = handshake.edge.config.dialects.of_path(path) {
        let below = below.to_owned();
        dialects::answer(handshake, peer, (dialect, &below), request).await
    } else {
        request.extensions_mut().insert(ConnectInfo(peer));
        let response = from_router(&pages, request).await;
        if response.status().is_client_error() {
            metrics::refused_status(response.status().as_u16());
        }
        response
    }
}
