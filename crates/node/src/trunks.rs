//! Node side of trunks: passes frames between the WebSocket and the core. `internal` calls it.

use std::net::SocketAddr;
use std::time::Instant;

use axum::body::Body;
use axum::response::IntoResponse as _;
use http::{HeaderValue, Request, Response, header};
use hyper::body::Incoming;
use signaling_edge::handshake;
use signaling_server::http::{Refused, upgraded_tcp};
use signaling_server::proofs::Opener;
use signaling_server::trunk::serve;
use signaling_wire::trunk::SUBPROTOCOL;
use tracing::{info, info_span, warn};

use crate::Node;
use crate::internal::other_version;
use crate::report::EdgeServer;

/// Checks the version of a request for a trunk. Passes one that is no upgrade, which [`answer`]
/// refuses.
pub(super) fn check_version(request: &Request<Incoming>) -> Result<(), Refused> {
    let offered = request.headers().get_all(header::SEC_WEBSOCKET_PROTOCOL);
    if offered.iter().any(|offer| offer == SUBPROTOCOL) || !request.headers().contains_key(header::UPGRADE) {
        return Ok(());
    }
    Err(other_version("unknown_trunk_version", SUBPROTOCOL, offered.iter().next()))
}

/// Answers a trunk request of an edge whose proof has been checked: 101, or the refusal of the
/// upgrade. Serves the trunk in a task.
pub(super) fn answer(node: &Node, peer: SocketAddr, opener: Opener, mut request: Request<Incoming>) -> Response<Body> {
    let accept = match handshake::check(request.method(), request.version(), request.headers()) {
        Ok(accept) => accept,
        Err(refused) => return refused.into_response(),
    };
    // Each event names the span; it is never entered, since that would cost time per frame.
    let span = info_span!("trunk", edge = %opener.server, %peer);
    let server = EdgeServer::read(opener, request.headers(), peer.ip());
    let accepted = Instant::now();
    let upgrade = hyper::upgrade::on(&mut request);
    let node = node.clone();
    let trunk = async move {
        match upgrade.await.map(upgraded_tcp) {
            Ok(Ok((stream, early))) => {
                let (key, signal) = node.edge_up(accepted, server);
                info!(parent: &span, "trunk of an edge connected");
                let on_frames = |frames: &[u8]| -> Result<(), String> {
                    node.with_core(|core| {
                        // Frames of a trunk that is being closed are ignored.
                        if !core.trunks().contains(key) {
                            return Ok(());
                        }
                        core.trunk_frames(Instant::now(), key, frames).map_err(|error| error.to_string())
                    })
                };
                let next_batch =
                    || node.with_core(|core| core.trunks().contains(key).then(|| core.take_trunk_batch(key)));
                let end = serve(stream, &early, &signal, on_frames, next_batch).await;
                node.trunk_down(key);
                info!(parent: &span, %end, "trunk of an edge ended");
            }
            Ok(Err(error)) => warn!(parent: &span, %error, "upgrade of a trunk failed"),
            Err(error) => warn!(parent: &span, %error, "upgrade of a trunk failed"),
        }
    };
    tokio::task::spawn_local(trunk);
    accept.response_with(Some(HeaderValue::from_static(SUBPROTOCOL)))
}
