//! The internal listener, which `run` starts. Checks the versions and proofs of trunks, lanes and
//! nodes' operator requests, and passes them on. Others go to the router for health, metrics and
//! admin.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::response::IntoResponse as _;
use http::{HeaderValue, Request, Response, StatusCode};
use hyper::body::Incoming;
use signaling_server::Listener;
use signaling_server::admin::BETWEEN_SERVERS;
use signaling_server::auth::RefusalLog;
use signaling_server::clock::until;
use signaling_server::http::{HttpLimits, Refused, from_router, refusal, serve_connection};
use signaling_server::proofs::{ProofError, Proofs, Purpose};
use signaling_wire::{lane, trunk};

use crate::{Node, inbound_lanes, trunks};

/// Maximum wait of a trunk for the first view of a node that has just started; working discovery is
/// faster. An edge may have read discovery earlier, and a refused trunk makes the node suspect for
/// at least 5 s. Less than an edge waits for a trunk.
const FIRST_VIEW_TIMEOUT: Duration = Duration::from_secs(1);
const FIRST_VIEW_POLL: Duration = Duration::from_millis(20);

#[derive(Clone)]
pub(crate) struct Internal {
    /// The node.
    pub node: Node,
    /// Checks that edges and other nodes have the mesh secret.
    pub proofs: Proofs,
    /// Routes for health, metrics and admin.
    pub router: Router,
    /// Limits the log of refused requests.
    pub refusals: Rc<RefCell<RefusalLog>>,
}

/// Serves the internal listener. Never returns. Panics outside a `LocalSet`.
pub(crate) async fn serve(internal: Internal, mut listener: Listener) {
    loop {
        let (stream, peer) = listener.accept().await;
        let internal = internal.clone();
        tokio::task::spawn_local(async move {
            let service = |request| answer(internal.clone(), peer, request);
            serve_connection(stream, peer, HttpLimits::INTERNAL, service).await;
        });
    }
}

/// Returns the refusal of a server with another version than `own`. The text names both. `None`: it
/// sent none.
pub(super) fn other_version(code: &'static str, own: &str, sent: Option<&HeaderValue>) -> Refused {
    let sent = sent.map_or("no version", |sent| sent.to_str().unwrap_or("an unreadable version"));
    let message = format!("this node has {own}, the sender {sent}: run the same release on all servers");
    Refused::new(StatusCode::BAD_REQUEST, code, message)
}

async fn answer(internal: Internal, peer: SocketAddr, request: Request<Incoming>) -> Response<Body> {
    let path = request.uri().path();
    if path != trunk::PATH && path != lane::PATH && !path.starts_with(BETWEEN_SERVERS) {
        return from_router(&internal.router, request).await;
    }
    let (purpose, version) = match path {
        trunk::PATH => (Purpose::Trunk, trunks::check_version(&request)),
        lane::PATH => (Purpose::Lane, inbound_lanes::check_version(&request)),
        _ => (Purpose::Request, Ok(())),
    };
    if let Err(refused) = version {
        return refused.into_response();
    }
    let opener = match internal.proofs.check(purpose, request.headers()) {
        Ok(opener) => opener,
        Err(error) => {
            if error == ProofError::NoProof {
                internal.refusals.borrow_mut().record(peer.ip());
            }
            return internal.proofs.refuse(error);
        }
    };
    let has_view = match purpose {
        Purpose::Trunk => until(FIRST_VIEW_TIMEOUT, FIRST_VIEW_POLL, || internal.node.has_view()).await,
        Purpose::Lane => internal.node.has_view(),
        Purpose::Request => true,
    };
    if !has_view {
        let message = "this node has no view of the mesh and cannot forward; use another node";
        return refusal(StatusCode::SERVICE_UNAVAILABLE, "no_view", message, None);
    }
    match purpose {
        Purpose::Trunk => trunks::answer(&internal.node, peer, opener, request),
        Purpose::Lane => inbound_lanes::answer(&internal.node, &opener.server, peer, request),
        Purpose::Request => from_router(&internal.router, request).await,
    }
}
