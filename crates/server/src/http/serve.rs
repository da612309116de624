//! Service of one HTTP/1 connection within limits, for all listeners of both servers.

use std::cell::Cell;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::response::Response;
use http::header::DATE;
use http::{HeaderValue, Request};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::task::spawn_local;
use tokio::time::timeout;
use tower::ServiceExt;
use tracing::debug;

use crate::{Listener, clock};

/// Minimum buffer that hyper accepts, in bytes.
const SMALLEST_BUFFER: usize = 8 * 1024;
/// Maximum time to write the answer to an HTTP/2 preface.
const REFUSE_TIMEOUT: Duration = Duration::from_secs(2);

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

/// Answer to an HTTP/2 preface, in the form of the HTTP library's own answers to bytes that are no
/// request. The library gives none.
const BARE_400: &str = "HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n";

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
        async {
            let mut answer = answer.await;
            // The library's own date stands still after the clock was set back.
            answer.headers_mut().entry(DATE).or_insert_with(date);
            Ok::<_, Infallible>(answer)
        }
    });
    let mut connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head_timeout)
        .max_buf_size(limits.buffer_bytes.max(SMALLEST_BUFFER))
        .max_headers(limits.headers)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    let error = (&mut connection).await.err()?;
    debug!(%peer, %error, "an HTTP connection ended early");
    if error.is_parse_version_h2()
        && let Some(parts) = connection.into_parts()
    {
        refuse_http2(parts.io.into_inner()).await;
    }
    if error.is_parse_too_large() {
        Some(BadHead::TooLarge)
    } else if error.is_parse() {
        Some(BadHead::Malformed)
    } else {
        (error.is_timeout() && !has_request.get()).then_some(BadHead::Late)
    }
}

/// Returns the value of `Date` (RFC 9110 section 6.6.1).
fn date() -> HeaderValue {
    let date = httpdate::fmt_http_date(clock::time_of_day());
    HeaderValue::try_from(date).unwrap_or(HeaderValue::from_static(""))
}

async fn refuse_http2(mut stream: impl AsyncWrite + Unpin) {
    let answer = async {
        stream.write_all(BARE_400.as_bytes()).await?;
        stream.write_all(&[b"date: ", date().as_bytes(), b"\r\n\r\n"].concat()).await?;
        stream.shutdown().await
    };
    // The peer may have left, or not read.
    let _ = timeout(REFUSE_TIMEOUT, answer).await;
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

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, duplex};

    use super::*;

    /// Returns the time in the `Date` of an answer, in whole seconds.
    async fn date_of_an_answer() -> u64 {
        let (mut client, server) = duplex(4_096);
        client.write_all(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await.unwrap();
        let peer = "192.0.2.1:5".parse().unwrap();
        serve_connection(server, peer, HttpLimits::PUBLIC, async |_| Response::default()).await;
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        let date = answer.lines().find_map(|line| line.strip_prefix("date: ")).unwrap();
        let date = httpdate::parse_http_date(date).unwrap();
        date.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs()
    }

    #[tokio::test]
    async fn date_follows_the_clock_when_it_is_set_back() {
        let before = date_of_an_answer().await;
        clock::TEST_DELAY.set(Duration::from_secs(3_600));
        let after = date_of_an_answer().await;
        clock::TEST_DELAY.set(Duration::ZERO);
        assert!((3_500..=3_600).contains(&(before - after)), "{before} {after}");
    }
}
