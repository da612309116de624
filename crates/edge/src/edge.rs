//! An edge: its core with the client sockets and links, and the tasks that drive them. One thread
//! runs it in local tasks: one per connection before its upgrade, one per socket that closes, and
//! one for all open sockets.

use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use axum::Router;
use signaling_core::edge::{ClientKey, EdgeCore, FlushUrgency, LinkKey, SWEEP_INTERVAL};
use signaling_server::clock::{ticks, until};
use signaling_server::telemetry::publish_on_scrape;
use signaling_server::trunk::OutboundTrunk;
use signaling_server::{FlushSignal, SharedPort};
use tokio::net::TcpStream;
use tokio::task::yield_now;
use tracing::error;

use crate::EdgeConfig;
use crate::connection::{Handshake, serve_handshake};
use crate::intake::{ClientPort, Intake};
use crate::links::LinkEvent;
use crate::metrics::{self, RefusalReason};
use crate::sockets::Sockets;
use crate::state::State;

/// The part of a server that decides which node serves a client. The edge calls it with its core.
pub trait Backend {
    /// Attaches the client to a link, keeps it until there is one, or refuses it. Called for each
    /// new client, and whenever a node released or rejected it or its link went down. Also called
    /// for a client without a socket whose messages have no outcome yet.
    fn assign_node(&mut self, now: Instant, core: &mut EdgeCore, client: ClientKey);

    /// Handles an event of a link.
    fn on_link_event(&mut self, now: Instant, core: &mut EdgeCore, link: LinkKey, event: LinkEvent);
}

/// Interval of keep-alive checks.
const LINK_CHECK_INTERVAL: Duration = Duration::from_millis(250);
/// Time of a connection to become a client, once the listener is closed for a drain.
const NEWCOMERS_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum time to close all trunks before the process ends.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(200);
const CLOSE_CHECK_INTERVAL: Duration = Duration::from_millis(5);

/// An edge. Clones share one state, on one thread. A call within another one, also by the backend,
/// panics. So does a call outside a `LocalSet` that closes a client's socket, which spawns a task.
#[derive(Clone)]
pub struct Edge {
    state: Rc<RefCell<State>>,
    sockets: Rc<Sockets>,
    intake: Rc<Intake>,
    pub(crate) config: Rc<EdgeConfig>,
}

impl Edge {
    /// Creates an edge around a core of the same config, which may have links but no clients. It
    /// serves no client before [`Edge::serve`].
    ///
    /// # Errors
    /// If the system refuses a poll or a descriptor.
    ///
    /// # Panics
    /// Outside a Tokio runtime with I/O.
    pub fn new(core: EdgeCore, config: &EdgeConfig, backend: Box<dyn Backend>) -> io::Result<Self> {
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
        self.with_state(|state| state.links.local = Some((link, signal)));
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
    /// address as [`ConnectInfo`](axum::extract::ConnectInfo). Listens on a shared port only once
    /// `ready` is over. Returns only if the event loop fails, which is logged.
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
        let handshake = Handshake::new(self.clone(), key);
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
        publish_on_scrape(&self.state, |state| state.borrow().publish());
        let (mut sweeps, mut checks) = (ticks(SWEEP_INTERVAL), ticks(LINK_CHECK_INTERVAL));
        loop {
            tokio::select! {
                _ = sweeps.tick() => self.with(State::sweep),
                _ = checks.tick() => self.with(|state, now| state.links(now).check()),
            }
        }
    }

    pub(crate) fn with<R>(&self, act: impl FnOnce(&mut State, Instant) -> R) -> R {
        let mut state = self.state.borrow_mut();
        let now = Instant::now();
        state.detect_pause(now);
        let result = act(&mut state, now);
        state.turn(now);
        state.request_writes(now);
        result
    }

    /// Like [`Edge::with`], for the event loop, which writes the links itself.
    pub(crate) fn with_sockets(&self, act: impl FnOnce(&mut State, Instant)) {
        let mut state = self.state.borrow_mut();
        let now = Instant::now();
        state.detect_pause(now);
        act(&mut state, now);
        state.turn(now);
        state.write_links(now);
    }

    pub(crate) fn with_state<R>(&self, act: impl FnOnce(&mut State) -> R) -> R {
        act(&mut self.state.borrow_mut())
    }
}
