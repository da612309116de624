//! One connection over a real socket: limits, upgrade, local services.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::response::Response;
use axum::routing::get;
use http::{Request, StatusCode};
use hyper::body::Incoming;
use signaling_server::Listener;
use signaling_server::http::{HttpLimits, from_router, not_found, refusal, serve_connection, upgraded_tcp};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{Instant, timeout};

const SHORT: HttpLimits = HttpLimits { head_timeout: Duration::from_millis(200), ..HttpLimits::PUBLIC };
const LONG: Duration = Duration::from_secs(10);

#[tokio::test]
async fn connection_is_closed_after_the_head_timeout() {
    for head in [&b""[..], b"GET / HTTP/1.1\r\nhost: a\r\n"] {
        let started = Instant::now();
        let answer = talk(SHORT, head).await;
        assert!(answer.is_empty() || status(&answer) == 408, "{answer}");
        assert!(started.elapsed() >= SHORT.head_timeout, "{:?}", started.elapsed());
    }
}

#[tokio::test]
async fn head_beyond_the_limits_is_refused() {
    let long = format!("x: {}\r\n", "y".repeat(HttpLimits::PUBLIC.buffer_bytes));
    for lines in [long, "x: y\r\n".repeat(HttpLimits::PUBLIC.headers)] {
        let head = format!("GET / HTTP/1.1\r\nhost: a\r\n{lines}\r\n");
        assert_eq!(status(&talk(HttpLimits::PUBLIC, head.as_bytes()).await), 431);
    }
    assert_eq!(status(&talk(HttpLimits::PUBLIC, b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n").await), 400);
}

#[tokio::test]
async fn local_service_falls_back_to_a_router() {
    let asked = b"GET /page HTTP/1.1\r\nhost: a\r\n\r\nGET /none HTTP/1.1\r\nhost: a\r\n\r\n";
    let answer = talk(HttpLimits::PUBLIC, asked).await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("a page, for request 1"), "{answer}");
    assert!(answer.contains("HTTP/1.1 404") && answer.contains(r#"{"error":{"code":"not_found""#), "{answer}");
}

#[tokio::test]
async fn bytes_behind_a_refused_request_are_not_parsed() {
    let asked = b"GET /refused HTTP/1.1\r\nhost: a\r\n\r\nGET /page HTTP/1.1\r\nhost: a\r\n\r\n";
    let answer = talk(HttpLimits::PUBLIC, asked).await;
    assert_eq!(status(&answer), 429);
    assert!(answer.contains("retry-after: 3\r\n") && !answer.contains("a page"), "{answer}");
}

#[tokio::test]
async fn upgraded_socket_is_returned_with_its_early_bytes() {
    let asked = b"GET /upgrade HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\nearly bird";
    let answer = talk(HttpLimits::PUBLIC, asked).await;
    assert_eq!(status(&answer), 101);
    assert!(answer.ends_with("\r\n\r\nyou said early bird"), "{answer}");
}

/// Sends bytes to a server with these limits, and returns all that comes back until it closes.
async fn talk(limits: HttpLimits, bytes: &[u8]) -> String {
    let local = LocalSet::new();
    let mut listener = Listener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local_addr();
    local.spawn_local(async move {
        let router = Router::new().fallback(not_found);
        // State that only one thread may touch.
        let requests = Rc::new(Cell::new(0));
        let (stream, peer) = listener.accept().await;
        serve_connection(stream, peer, limits, |request| answer(request, &router, Rc::clone(&requests))).await;
    });
    let exchange = async {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        let mut answer = Vec::new();
        // A reset after the answer is as good an end as a close.
        let _ = timeout(LONG, stream.read_to_end(&mut answer)).await.expect("the server never closed");
        String::from_utf8_lossy(&answer).into_owned()
    };
    local.run_until(exchange).await
}

async fn answer(request: Request<Incoming>, fallback: &Router, requests: Rc<Cell<u32>>) -> Response<Body> {
    requests.set(requests.get() + 1);
    match request.uri().path() {
        "/refused" => {
            refusal(StatusCode::TOO_MANY_REQUESTS, "rate_limited", "slower", Some(Duration::from_millis(2_500)))
        }
        "/upgrade" => upgrade(request),
        "/page" => {
            let number = requests.get();
            let router = Router::new().route("/page", get(async move || format!("a page, for request {number}")));
            from_router(&router, request).await
        }
        _ => from_router(fallback, request).await,
    }
}

fn upgrade(request: Request<Incoming>) -> Response<Body> {
    spawn_local(async move {
        let (mut stream, early) = upgraded_tcp(hyper::upgrade::on(request).await.unwrap()).unwrap();
        stream.write_all(b"you said ").await.unwrap();
        stream.write_all(&early).await.unwrap();
    });
    let response = Response::builder().status(StatusCode::SWITCHING_PROTOCOLS);
    response.header("connection", "upgrade").header("upgrade", "echo").body(Body::empty()).unwrap()
}

fn status(answer: &str) -> u16 {
    answer.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)?.parse().ok()).unwrap_or_default()
}
