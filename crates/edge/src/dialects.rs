//! Requests below the mounts of dialects: plain answers, refusals, and upgrades with a translator.
//! A mount is the first part of a dialect's paths.

use std::net::SocketAddr;
use std::time::Instant;

use axum::body::Body;
use axum::response::IntoResponse as _;
use http::header::{ACCESS_CONTROL_REQUEST_HEADERS, CONNECTION, HeaderName, ORIGIN};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use signaling_core::edge::{DialectClient, Refusal};
use signaling_core::ws::encode;
use signaling_dialects::request::{HttpAnswer, Rejection};
use signaling_dialects::{Answer, Dialect, Head, Opening, Settings};
use signaling_protocol::{ClientId, CloseCode};
use signaling_server::http::refusal;
use signaling_wire::Credential;

use crate::connect::{self, bearer, open};
use crate::connection::Handshake;
use crate::handshake::{self, Accept};
use crate::metrics::{self, METRICS, RefusalReason};

/// Dialects that an edge serves.
#[derive(Debug, Clone, Default)]
pub struct DialectConfig {
    /// Dialects with a mount on the listener; empty by default.
    pub mounted: Vec<Dialect>,
    /// Settings of their translators.
    pub settings: Settings,
}

impl DialectConfig {
    /// Returns the mounted dialect that has a path, and the path below its mount.
    pub(super) fn of_path<'a>(&self, path: &'a str) -> Option<(Dialect, &'a str)> {
        Dialect::of_path(&self.settings, path).filter(|(dialect, _)| self.mounted.contains(dialect))
    }
}

/// Answers a request whose path is `below` the mount of a dialect. `peer` is the client's address.
pub(super) async fn answer(
    handshake: &Handshake,
    peer: SocketAddr,
    (dialect, below): (Dialect, &str),
    request: Request<Incoming>,
) -> Response<Body> {
    match decide(handshake, peer, (dialect, below), request).await {
        Ok(response) => response,
        Err((refused, client)) => {
            metrics::refused_status(refused.status);
            handshake.log_refusal(peer, &refused.message, || client);
            connect::status_of(&refused)
        }
    }
}

/// A refusal, and the client if it is known.
type RefusedClient = (Refusal, Option<ClientId>);

async fn decide(
    handshake: &Handshake,
    peer: SocketAddr,
    (dialect, below): (Dialect, &str),
    mut request: Request<Incoming>,
) -> Result<Response<Body>, RefusedClient> {
    let unknown = |refused| (refused, None);
    let config = &handshake.edge.config;
    connect::check_origin(handshake, request.headers()).map_err(unknown)?;
    let upgrade = handshake::has_websocket_upgrade(request.headers());
    let accept = match upgrade.then(|| handshake::check(request.method(), request.version(), request.headers())) {
        Some(Err(bad)) => {
            metrics::refused_status(bad.status.as_u16());
            handshake.log_refusal(peer, &bad.message, || None);
            return Ok(bad.into_response());
        }
        checked => checked.and_then(Result::ok),
    };
    let text = |name: HeaderName| request.headers().get(name).and_then(|value| value.to_str().ok());
    // The connection sends no body to HEAD.
    let method = if request.method() == Method::HEAD { &Method::GET } else { request.method() };
    let head = Head {
        method: method.as_str(),
        path: below,
        query: request.uri().query().unwrap_or_default(),
        origin: text(ORIGIN),
        asked_headers: text(ACCESS_CONTROL_REQUEST_HEADERS),
        upgrade,
    };
    let random = connect::random_bytes().map_err(unknown)?;
    match (dialect.request(&config.dialects.settings, &head, &random), accept) {
        (Answer::Http(answer), accept) => {
            if accept.is_some() {
                metrics::refused_status(answer.status);
                handshake.log_refusal(peer, &answer.body, || None);
            }
            Ok(plain(answer))
        }
        (Answer::Reject(rejection), Some(accept)) => {
            metrics::refused(RefusalReason::Other);
            handshake.log_refusal(peer, &rejection.frame, || None);
            Ok(reject(handshake, &mut request, &accept, &rejection))
        }
        (Answer::Upgrade(opening), Some(accept)) => {
            upgrade_to(handshake, peer, dialect, *opening, request, &accept).await
        }
        _ => Ok(refusal(StatusCode::NOT_FOUND, "not_found", "this dialect has no such path", None)),
    }
}

/// Opens a session, and upgrades once a node has admitted the client.
async fn upgrade_to(
    handshake: &Handshake,
    peer: SocketAddr,
    dialect: Dialect,
    opening: Opening,
    mut request: Request<Incoming>,
    accept: &Accept,
) -> Result<Response<Body>, RefusedClient> {
    let Opening { client_id, credential, lifetime, token, subject, if_taken, translator } = opening;
    let started = Instant::now();
    let known = |refused| (refused, Some(client_id.clone()));
    let newcomer = connect::newcomer(client_id.clone(), false, peer, request.headers()).map_err(known)?;
    let token = bearer(request.headers()).or(token);
    let credential = credential.map(Credential);
    let client = DialectClient { dialect, translator, credential, lifetime };
    match connect::admit(handshake, peer, newcomer, Some(client), (subject.as_deref(), token.as_deref())).await {
        Ok(waiting) => {
            METRICS.connect.observe(started.elapsed());
            tokio::task::spawn_local(open(waiting, hyper::upgrade::on(&mut request)));
            Ok(accept.dialect_response())
        }
        Err(Refusal { status: 409, .. }) if let Some(rejection) = if_taken => {
            metrics::refused_status(409);
            handshake.log_refusal(peer, "another client has the id", || Some(client_id));
            Ok(reject(handshake, &mut request, accept, &rejection))
        }
        Err(refusal) => Err(known(refusal)),
    }
}

/// Upgrades, and has the connection end with a frame and a close frame.
fn reject(
    handshake: &Handshake,
    request: &mut Request<Incoming>,
    accept: &Accept,
    Rejection { frame, close }: &Rejection,
) -> Response<Body> {
    let mut frames = Vec::new();
    encode::text(&mut frames, frame.as_bytes());
    encode::close(&mut frames, close.code.unwrap_or(CloseCode::NO_CODE).0, "");
    handshake.last_frames.replace(Some((hyper::upgrade::on(request), frames)));
    accept.dialect_response()
}

fn plain(HttpAnswer { status, headers, body }: HttpAnswer) -> Response<Body> {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::NOT_FOUND);
    let into: &mut HeaderMap = response.headers_mut();
    into.insert(CONNECTION, HeaderValue::from_static("close"));
    for (name, value) in headers {
        if let Ok(value) = HeaderValue::from_str(&value) {
            into.append(HeaderName::from_static(name), value);
        }
    }
    response
}
