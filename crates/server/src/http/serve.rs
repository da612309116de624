//! Service of one HTTP/1 connection within limits, for all listeners of both servers.

use std::cell::Cell;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::response::Response;
use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::spawn_local;
use tower::ServiceExt;
use tracing::debug;

use crate::Listener;

/// Minimum buffer that hyper accepts, in bytes.
const SMALLEST_BUFFER: usize = 8 * 1024;

/// Limits of one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HttpLimits {
    /// Maximum time for a request head after the connection or last answer; ends idle ones too.
    pub head_timeout: Duration,
    /// Maximum bytes buffered for reading, at least 8 KiB, and so of a head; a longer one gets 431.
    pub buffer_bytes: usize,
    /// Maximum header lines of a request. More are answered 431.
    pub headers: usize,
}

impl HttpLimits {
    /// Limits of public listeners: 5 s, 16 KiB, 64 lines.
    pub const PUBLIC: Self = Self { head_timeout: Duration::from_secs(5), buffer_bytes: 16 * 1024, headers: 64 };
    /// Limits of internal listeners: 120 s, 64 KiB, 64 lines. Servers send large batches and keep
    /// idle connections, commonly for 90 s.
    pub const INTERNAL: Self = Self { head_timeout: Duration::from_secs(120), buffer_bytes: 64 * 1024, headers: 64 };
}

/// Reason why a connection ended without a readable request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadHead {
    /// No first head within `head_timeout`. Closed without an answer. Later heads do not count.
    Late,
    /// The head was above the limits. Answered 431, without a body.
    TooLarge,
    /// The head was not HTTP. Answered 400, without a body.
    Malformed,
}

/// Serves a connection until it ends or is upgraded. Returns the defect of a head that reached no
/// service; `None` if the connection ended otherwise.
/// Errors are caused by the peer and logged at debug level. The service need not be `Send`. Its
/// future is dropped when the peer leaves before its answer.
pub async fn serve_connection<I, S, F>(stream: I, peer: SocketAddr, limits: HttpLimits, service: S) -> Option<BadHead>
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: Fn(Request<Incoming>) -> F,
    F: Future<Output = Response<Body>>,
{
    let has_request = Cell::new(false);
    let service = service_fn(|request| {
        has_request.set(true);
        let answer = service(request);
        async { Ok::<_, Infallible>(answer.await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head_timeout)
        .max_buf_size(limits.buffer_bytes.max(SMALLEST_BUFFER))
        .max_headers(limits.headers)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    let error = connection.await.err()?;
    debug!(%peer, %error, "an HTTP connection ended early");
    if error.is_parse_too_large() {
        Some(BadHead::TooLarge)
    } else if error.is_parse() {
        Some(BadHead::Malformed)
    } else {
        (error.is_timeout() && !has_request.get()).then_some(BadHead::Late)
    }
}

/// Returns a router's answer to a request of [`serve_connection`].
pub async fn from_router(router: &Router, request: Request<Incoming>) -> Response<Body> {
    match router.clone().oneshot(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    }
}

/// Serves the connections of an internal listener with a router, each in a task of the current
/// `LocalSet`; panics outside one. Runs until dropped; open connections stay.
pub async fn serve_router(mut listener: Listener, router: Router) {
    loop {
        let ((stream, peer), router) = (listener.accept().await, router.clone());
        spawn_local(async move {
            let service = |request| {
                let router = router.clone();
                async move { from_router(&router, request).await }
            };
            serve_connection(stream, peer, HttpLimits::INTERNAL, service).await;
        });
    }
}
