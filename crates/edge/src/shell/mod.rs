//! The edge's I/O around its core. All of it runs on one thread, in local tasks: one per connection that is not upgraded yet,
//! then one per client socket that reads it; writes are tried at once by whoever has something for the client.
//!
//! The way of a message up: `socket` reads into a buffer that all clients share, `state` decodes it and hands each text to
//! the core, which writes into a link's batch; the [`Backend`] wakes whoever carries that. Down: whoever carries a link calls
//! [`Edge::with_core`], and at the end of that turn `state` flushes every client that got something, once.

mod admission;
mod args;
mod closing;
mod connect;
mod cors;
mod farewell;
mod identity;
mod kick;
mod metrics;
mod query;
mod socket;
mod state;

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Instant;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use http::{Request, Response};
use hyper::body::Incoming;
use signaling_server::Listener;
use signaling_server::http::{HttpLimits, from_router, serve_connection};
use tokio::time::{MissedTickBehavior, interval};

use self::admission::Admission;
use self::state::State;
use crate::core::{ClientKey, EdgeCore, LinkKey, SWEEP_INTERVAL};
use crate::identity::IdentityConfig;

pub use self::admission::AdmissionLimits;
pub use self::args::AdmissionArgs;
pub use self::connect::refuse_upgrade;
pub use self::farewell::{say_goodbye, send_away};
pub use self::kick::{Kicks, kicks};

/// What stands behind an edge: who finds clients a place, and who carries its links.
pub trait Backend {
    /// The client needs a place: attach it, keep it in mind until there is one, or refuse it.
    fn place(&mut self, now: Instant, core: &mut EdgeCore, client: ClientKey);

    /// A turn has ended: links may have something to carry.
    fn wake(&mut self, core: &EdgeCore);

    /// This process was paused for so long that nodes have given it up: what its links bring now is as old.
    fn jumped(&mut self, now: Instant, core: &mut EdgeCore);
}

/// What an edge is told at its start.
#[derive(Debug, Clone)]
pub struct EdgeConfig {
    /// How many clients come in, and how fast.
    pub admission: AdmissionLimits,
    /// Largest message of a client, bytes.
    pub max_message_bytes: usize,
    /// Who is let in.
    pub identity: IdentityConfig,
}

/// An edge. A cheap clone shares it; it stays on its thread.
#[derive(Clone)]
pub struct Edge(Rc<RefCell<State>>);

impl Edge {
    /// An edge around its core.
    #[must_use]
    pub fn new(core: EdgeCore, config: &EdgeConfig, backend: Box<dyn Backend>) -> Self {
        let admission = Admission::new(config.admission, Instant::now());
        let ws_limits = state::ws_limits(config.max_message_bytes);
        let identity = Rc::new(config.identity.clone());
        Self(Rc::new(RefCell::new(State::new(core, backend, admission, ws_limits, identity))))
    }

    /// Tells the core something, then carries out what it wants. Never call this from within a [`Backend`].
    pub fn with_core<R>(&self, tell: impl FnOnce(&mut EdgeCore) -> R) -> R {
        self.with(|state, _| tell(&mut state.core))
    }

    /// Takes what a link has to carry; none if the link is down.
    #[must_use]
    pub fn take_batch(&self, link: LinkKey) -> Option<Vec<u8>> {
        self.with_quietly(|state| state.core.has_link(link).then(|| state.core.take_batch(link)))
    }

    /// Refuses newcomers from now on.
    pub fn drain(&self) {
        self.with_quietly(|state| state.draining = true);
    }

    /// Takes newcomers again.
    pub fn undrain(&self) {
        self.with_quietly(|state| state.draining = false);
    }

    /// Clients with a socket, or waiting for one.
    #[must_use]
    pub fn clients(&self) -> usize {
        self.with_quietly(|state| state.admission.sockets())
    }

    /// Accepts clients, and answers other requests from `pages`, which learn by [`ConnectInfo`] who asks. Ends when dropped.
    pub async fn serve(self, mut listener: Listener, pages: Router) {
        loop {
            let (stream, peer) = listener.accept().await;
            let (edge, pages) = (self.clone(), pages.clone());
            tokio::task::spawn_local(async move {
                let service = |request| answer(edge.clone(), peer, pages.clone(), request);
                if let Some(bad) = serve_connection(stream, peer, HttpLimits::PUBLIC, service).await {
                    metrics::refused_head(bad);
                }
            });
        }
    }

    /// Lets the core look at the time, at its interval. Ends when dropped.
    pub async fn sweep(self) {
        let mut ticks = interval(SWEEP_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.with(|state, _| state.sweep(Instant::now()));
        }
    }

    fn with<R>(&self, act: impl FnOnce(&mut State, &Self) -> R) -> R {
        let mut state = self.0.borrow_mut();
        state.look_for_jump(Instant::now());
        let result = act(&mut state, self);
        state.turn(self);
        result
    }

    fn with_quietly<R>(&self, act: impl FnOnce(&mut State) -> R) -> R {
        act(&mut self.0.borrow_mut())
    }
}

async fn answer(edge: Edge, peer: SocketAddr, pages: Router, mut request: Request<Incoming>) -> Response<Body> {
    if request.uri().path() == connect::PATH {
        connect::answer(edge, peer, request).await
    } else {
        request.extensions_mut().insert(ConnectInfo(peer));
        let response = from_router(&pages, request).await;
        if response.status().is_client_error() {
            metrics::refused_status(response.status().as_u16());
        }
        response
    }
}
