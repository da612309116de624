//! The internal listener, which `run` starts. Checks the mesh secret of trunks, lanes and nodes'
//! operator requests, and passes them on. Others go to the router for health, metrics and admin.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use signaling_server::admin::BETWEEN_SERVERS;
use signaling_server::auth::RefusalLog;
use signaling_server::clock::until;
use signaling_server::http::{HttpLimits, from_router, refusal, serve_connection};
use signaling_server::{Listener, Secrets};
use signaling_wire::{lane, trunk};

use super::{Node, inbound_lanes, trunks};

/// Maximum wait of a trunk for the first view of a node that has just started; working discovery is
/// faster. An edge may have read discovery earlier, and a refused trunk makes the node suspect for
/// at least 5 s. Less than an edge waits for a trunk.
const FIRST_VIEW_TIMEOUT: Duration = Duration::from_secs(1);
const FIRST_VIEW_POLL: Duration = Duration::from_millis(20);

/// Context of the internal listener.
#[derive(Clone)]
pub struct Internal {
    /// The node.
    pub node: Node,
    /// Secrets that edges and other nodes must present.
    pub secrets: Secrets,
    /// Routes for health, metrics and admin.
    pub router: Router,
    /// Limits the log of refused requests.
    pub refusals: Rc<RefCell<RefusalLog>>,
}

/// Serves the internal listener. Never returns. Panics outside a `LocalSet`.
pub async fn serve(internal: Internal, mut listener: Listener) {
    loop {
        let (stream, peer) = listener.accept().await;
        let internal = internal.clone();
        tokio::task::spawn_local(async move {
            let service = |request| answer(internal.clone(), peer, request);
            serve_connection(stream, peer, HttpLimits::INTERNAL, service).await;
        });
    }
}

async fn answer(internal: Internal, peer: SocketAddr, request: Request<Incoming>) -> Response<Body> {
    let path = request.uri().path();
    if path != trunk::PATH && path != lane::PATH && !path.starts_with(BETWEEN_SERVERS) {
        return from_router(&internal.router, request).await;
    }
    if !internal.secrets.authorize(request.headers()) {
        internal.refusals.borrow_mut().record(peer.ip());
        let message = "this needs the mesh secret as bearer token";
        return refusal(StatusCode::UNAUTHORIZED, "unauthorized", message, None);
    }
    let has_view = match path {
        trunk::PATH => until(FIRST_VIEW_TIMEOUT, FIRST_VIEW_POLL, || internal.node.has_view()).await,
        lane::PATH => internal.node.has_view(),
        _ => true,
    };
    if !has_view {
        let message = "this node has no view of the mesh and cannot forward; use another node";
        return refusal(StatusCode::SERVICE_UNAVAILABLE, "no_view", message, None);
    }
    match path {
        trunk::PATH => trunks::answer(&internal.node, peer, request),
        lane::PATH => inbound_lanes::answer(&internal.node, request),
        _ => from_router(&internal.router, request).await,
    }
}
