//! A connection before it is a client: PROXY header, TLS and requests, until one is upgraded.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Instant;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use signaling_protocol::ClientId;
use signaling_server::http::{BadHead, from_router, serve_connection};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tracing::debug;

use crate::admission::{AdmittedClient, TooMany};
use crate::handshakes::HandshakeKey;
use crate::metrics::{self, RefusalReason};
use crate::state::State;
use crate::{Edge, client_socket, closing, connect, dialects};

/// A connection until it is upgraded or closed: a handshake until it is admitted, then a client.
pub(crate) struct Handshake {
    pub(crate) edge: Edge,
    pub(crate) key: HandshakeKey,
    /// The admission of the client, which counts until the connection is closed.
    pub(crate) admitted: RefCell<Option<Rc<AdmittedClient>>>,
    /// Frames for the socket of an upgrade that closes at once.
    pub(crate) last_frames: RefCell<Option<(OnUpgrade, Vec<u8>)>>,
    /// `true` if its last request names another client address, which the settings ignore.
    is_forwarded: Cell<bool>,
}

impl Handshake {
    pub(crate) fn new(edge: Edge, key: HandshakeKey) -> Self {
        let (admitted, last_frames) = (RefCell::default(), RefCell::default());
        Self { edge, key, admitted, last_frames, is_forwarded: Cell::new(false) }
    }

    /// Counts a refused connection of this address, and logs it.
    fn refused(&self, peer: SocketAddr, reason: RefusalReason, why: &str) {
        metrics::refused(reason);
        self.log_refusal(peer, why, || None);
    }

    /// Logs the refusal of a connect, see [`RefusalLog`](crate::refusal_log::RefusalLog).
    ///
    /// A proxy that hides the addresses of its clients closes a mesh with limits per address. So
    /// the line of such a refusal names the flag.
    pub(crate) fn log_refusal(&self, peer: SocketAddr, why: &str, client: impl FnOnce() -> Option<ClientId>) {
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

pub(crate) async fn serve_handshake(handshake: Handshake, mut stream: TcpStream, peer: SocketAddr, pages: Router) {
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
