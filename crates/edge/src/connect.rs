//! `GET /v1/connect`: from the request to the answered upgrade.

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::response::IntoResponse as _;
use http::{HeaderMap, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use signaling_protocol::server::ServerMessage;
use signaling_protocol::{ClientId, CloseCode};
use signaling_server::http::refusal;
use signaling_server::unix_time;
use signaling_wire::{SessionId, SocketId};
use tracing::{debug, info_span};

use crate::admission::{AdmittedClient, TooMany};
use crate::connection::Handshake;
use crate::handshake::{self, Accept};
use crate::metrics::{AuthFailure, METRICS};
use crate::query::Query;
use crate::{Edge, client_socket, cors, metrics};
use signaling_core::edge::{ClientKey, ConnectRequest, DialectClient, Newcomer, PresentedToken, Refusal};
use signaling_core::ws::encode;

pub(super) const PATH: &str = "/v1/connect";
/// Maximum time for a node's decision. After it the client is refused with 503.
const DECISION_TIMEOUT: Duration = Duration::from_secs(8);
/// Delay before a retry that a refused client is given, in milliseconds.
const RETRY_AFTER_MS: u32 = 1_000;

/// Answers a request to [`PATH`]: preflight, upgrade or refusal. `peer` is the client's address.
pub(super) async fn answer(handshake: &Handshake, peer: SocketAddr, request: Request<Incoming>) -> Response<Body> {
    let origin = cors::origin_allowed(&handshake.edge.config.identity.origins, &request);
    let mut response =
        if cors::is_preflight(&request) { cors::preflight() } else { decide(handshake, peer, request).await };
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        cors::allow(&mut response, origin);
    }
    response
}

/// Answers a connect request: an upgrade once a node has admitted the client, or a refusal.
async fn decide(handshake: &Handshake, peer: SocketAddr, mut request: Request<Incoming>) -> Response<Body> {
    let accept = match handshake::check(request.method(), request.version(), request.headers()) {
        Ok(accept) => accept,
        Err(refused) => {
            metrics::refused_status(refused.status.as_u16());
            handshake.log_refusal(peer, &refused.message, || client_of(&request));
            return refused.into_response();
        }
    };
    let started = Instant::now();
    match connect(handshake, peer, &request, &accept).await {
        Ok(waiting) => {
            METRICS.connect.observe(started.elapsed());
            let upgrade = hyper::upgrade::on(&mut request);
            tokio::task::spawn_local(open(waiting, upgrade));
            accept.client_response()
        }
        Err(refused) => {
            metrics::refused_status(refused.status);
            handshake.log_refusal(peer, &refused.message, || client_of(&request));
            refuse(handshake, request, &accept, &refused)
        }
    }
}

/// Returns the client id in the query. `None`: the query is invalid.
fn client_of(request: &Request<Incoming>) -> Option<ClientId> {
    Query::parse(request.uri().query().unwrap_or_default()).ok().map(|query| query.client_id)
}

/// A client without a socket. It is removed if its request ends early.
pub(super) struct Waiting {
    edge: Edge,
    key: Option<ClientKey>,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.edge.with(|state, _| state.client_gone(key));
        }
    }
}

/// Fails with 403 if the request is of a page whose origin is not allowed.
pub(super) fn check_origin(handshake: &Handshake, headers: &HeaderMap) -> Result<(), Refusal> {
    if handshake.edge.config.identity.origins.admit(headers) {
        return Ok(());
    }
    METRICS.auth_failures.of(AuthFailure::Origin).inc();
    let message = "this origin is not among the allowed ones";
    Err(refused(StatusCode::FORBIDDEN, "origin_not_allowed", message, None))
}

async fn connect(
    handshake: &Handshake,
    peer: SocketAddr,
    request: &Request<Incoming>,
    accept: &Accept,
) -> Result<Waiting, Refusal> {
    check_origin(handshake, request.headers())?;
    let query = Query::parse(request.uri().query().unwrap_or_default())?;
    let offered = || accept.bearer.clone().map(|token| token.0.into());
    let token = bearer(request.headers()).or_else(offered).or_else(|| query.token.clone());
    let mut newcomer = newcomer(query.client_id, query.reliable, peer, request.headers())?;
    request.uri().path().clone_into(&mut newcomer.request.path);
    newcomer.request.query = query.rest;
    newcomer.request.resume = accept.resume.clone().or(query.resume.map(|token| PresentedToken(token.into())));
    let subject = newcomer.client_id.clone();
    admit(handshake, peer, newcomer, None, (Some(subject.as_str()), token.as_deref())).await
}

/// Admits a client: checks the limits and its token, then waits at most 8 s for a node. `dialect`:
/// `None` for the native protocol. `subject`: the required `sub` of the token, or `None` for any.
///
/// # Errors
/// 503 while draining or without a node's answer in time, 429 above a limit, 401 or 403 for the
/// token, or the node's refusal.
pub(super) async fn admit(
    handshake: &Handshake,
    peer: SocketAddr,
    mut newcomer: Newcomer,
    dialect: Option<DialectClient>,
    (subject, token): (Option<&str>, Option<&str>),
) -> Result<Waiting, Refusal> {
    let edge = &handshake.edge;
    let span = info_span!("connect", client = %newcomer.client_id, session = %newcomer.session);
    let (client, decided) = edge.with(|state, _| {
        if state.draining {
            return Err(unavailable("draining", "this server is draining; connect again"));
        }
        let now = Instant::now();
        let too_many = |TooMany(reason, message)| {
            metrics::refused(reason);
            refused(StatusCode::TOO_MANY_REQUESTS, "too_many", message, Some(RETRY_AFTER_MS))
        };
        state.admission.borrow_mut().admit_request(now, peer.ip()).map_err(too_many)?;
        // The token is verified first: strangers must not use up the arrival rate of all clients.
        let verified = state.verify_token(&newcomer.client_id, subject, token);
        newcomer.request.token = verified.map_err(|why| {
            let (status, code, _) = why.answer();
            refused(status, code, &why.to_string(), None)
        })?;
        let client_id = &newcomer.client_id;
        let token = newcomer.request.token.as_ref();
        let subject = token.map(|token| token.subject.as_ref().map_or(client_id.as_str(), |subject| subject.as_str()));
        let admitted = AdmittedClient::new(&state.admission, now, peer.ip(), subject).map_err(too_many)?;
        state.handshakes.remove(handshake.key);
        handshake.admitted.replace(Some(Rc::clone(&admitted)));
        Ok(state.connect(now, (newcomer, dialect), peer.ip(), admitted))
    })?;
    let waiting = Waiting { edge: edge.clone(), key: Some(client) };
    match tokio::time::timeout(DECISION_TIMEOUT, decided).await {
        Ok(Ok(Ok(()))) => Ok(waiting),
        Ok(Ok(Err(refusal))) => {
            span.in_scope(|| debug!(status = refusal.status, code = refusal.code, "client refused by its node"));
            Err(refusal)
        }
        Ok(Err(_)) | Err(_) => Err(unavailable("no_node", "no node answered in time; try again")),
    }
}

/// Returns fresh random bytes. Fails with 503 if the system has none.
pub(super) fn random_bytes<const N: usize>() -> Result<[u8; N], Refusal> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)
        .map_err(|error| unavailable("internal", &format!("no random numbers available: {error}")))?;
    Ok(bytes)
}

/// Creates a client with a new session, without query and tokens. Fails without random bytes.
pub(super) fn newcomer(
    client_id: ClientId,
    reliable: bool,
    peer: SocketAddr,
    headers: &HeaderMap,
) -> Result<Newcomer, Refusal> {
    let origin = headers.get(header::ORIGIN).and_then(|origin| Some(origin.to_str().ok()?.to_owned()));
    Ok(Newcomer {
        client_id,
        session: SessionId::new(random_bytes()?, reliable),
        socket: SocketId(random_bytes()?),
        since_ms: u64::try_from(unix_time().as_millis()).unwrap_or(u64::MAX),
        reliable,
        request: ConnectRequest { origin, address: peer.ip().to_string(), ..ConnectRequest::default() },
    })
}

/// Returns the token of an `Authorization: Bearer` header; `None` without a readable one.
pub(super) fn bearer(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.to_owned())
}

/// Creates a refusal. `retry_after_ms` is `None` if a later retry does not help.
pub(super) fn refused(status: StatusCode, code: &str, message: &str, retry_after_ms: Option<u32>) -> Refusal {
    Refusal { status: status.as_u16(), code: code.to_owned(), message: message.to_owned(), retry_after_ms }
}

/// Creates a refusal with status 503, this error code and text, and a retry after 1 s.
pub fn unavailable(code: &str, message: &str) -> Refusal {
    refused(StatusCode::SERVICE_UNAVAILABLE, code, message, Some(RETRY_AFTER_MS))
}

/// Opens the socket of an admitted client after its upgrade. A failed upgrade removes the client.
pub(super) async fn open(mut waiting: Waiting, upgrade: OnUpgrade) {
    let (edge, client) = (waiting.edge.clone(), waiting.key);
    let failed = |error: &dyn std::error::Error| edge.with_state(|state| state.upgrade_failed(client, error));
    match upgrade.await.map(client_socket::recover) {
        Ok(Ok((stream, early))) => {
            if let Some(client) = waiting.key.take() {
                edge.with(|state, now| state.socket_opened(now, client, stream, &early));
            }
        }
        Ok(Err(error)) => failed(&error),
        Err(error) => failed(&error),
    }
}

/// Refuses by status, or by an upgrade that closes at once if the client supports our close codes:
/// pages cannot read the status.
fn refuse(handshake: &Handshake, mut request: Request<Incoming>, accept: &Accept, refused: &Refusal) -> Response<Body> {
    match CloseCode::of_status(refused.status) {
        Some(code) if accept.signaling_v1 => {
            let mut frames = Vec::new();
            if code == CloseCode::TRY_AGAIN {
                let reason = &refused.message;
                let retry_after_ms = refused.retry_after_ms.map(u64::from);
                encode::text(&mut frames, &ServerMessage::Goodbye { reason, retry_after_ms }.to_json());
            }
            encode::close(&mut frames, code.0, &refused.message);
            handshake.last_frames.replace(Some((hyper::upgrade::on(&mut request), frames)));
            accept.client_response()
        }
        _ => status_of(refused),
    }
}

/// Returns the HTTP answer of a refusal. `Retry-After` is in whole seconds, rounded up.
pub(super) fn status_of(refused: &Refusal) -> Response<Body> {
    let retry_after = refused.retry_after_ms.map(|wait| Duration::from_millis(u64::from(wait)));
    let status = StatusCode::from_u16(refused.status).unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
    refusal(status, &refused.code, &refused.message, retry_after)
}
