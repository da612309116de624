//! Limits of public connections, which count from accept to end.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::future::ready;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use axum::Router;
use signaling_core::edge::{ClientKey, EdgeCore, LinkKey, Settings};
use signaling_edge::identity::IdentityConfig;
use signaling_edge::{
    AdmissionLimits, Backend, ClientAddresses, ClientPort, DialectConfig, Edge, EdgeConfig, LinkEvent, MemoryBound,
};
use signaling_server::Listener;
use signaling_server::coalescer::Coalescer;
use signaling_server::http::{HttpLimits, not_found};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::LocalSet;
use tokio::time::timeout;

/// A WebSocket request without a client, which is refused by a close frame.
const REFUSED: &str = "GET /v1/connect HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                       Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
                       Sec-WebSocket-Protocol: signaling.v1\r\n\r\n";
const PAGE: &str = "GET /nothing HTTP/1.1\r\nHost: a\r\nConnection: keep-alive\r\n\r\n";
/// Longer than a close takes, and shorter than any time limit.
const MOMENT: Duration = Duration::from_millis(200);

/// A backend without nodes, which admits no client.
struct NoNodes;

impl Backend for NoNodes {
    fn assign_node(&mut self, _: Instant, _: &mut EdgeCore, _: ClientKey) {}

    fn on_link_event(&mut self, _: Instant, _: &mut EdgeCore, _: LinkKey, _: LinkEvent) {}
}

fn config() -> EdgeConfig {
    EdgeConfig {
        admission: AdmissionLimits {
            sockets: 1_000,
            per_address: None,
            per_subject: None,
            rate: 2_000,
            rate_per_address: None,
        },
        max_message_bytes: 65_536,
        handshakes: 1_000,
        connections: usize::MAX,
        http: HttpLimits::PUBLIC,
        addresses: ClientAddresses::default(),
        reuse_port: false,
        tls: None,
        core: Settings { max_memory_bytes: 64 << 20, ..Settings::for_messages_of(65_536) },
        identity: IdentityConfig::default(),
        dialects: DialectConfig::default(),
        coalescer: Coalescer::disabled(),
    }
}

/// Serves an edge with this configuration while `test` runs with its address.
async fn with_edge<T>(config: EdgeConfig, test: impl AsyncFnOnce(SocketAddr) -> T) -> T {
    let listener = Listener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local_addr();
    let edge = Edge::new(EdgeCore::new(config.core.clone()), &config, Box::new(NoNodes)).unwrap();
    let local = LocalSet::new();
    local.spawn_local(edge.serve(ClientPort::Own(listener), ready(()), Router::new().fallback(not_found)));
    local.run_until(test(address)).await
}

/// Opens connections one after the other. Sends the request, if any, and reads the answer's status.
async fn open(address: SocketAddr, count: usize, request: &str) -> Vec<TcpStream> {
    let mut streams = Vec::new();
    for _ in 0..count {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        if !request.is_empty() {
            stream.read_exact(&mut [0; 12]).await.unwrap();
        }
        streams.push(stream);
    }
    streams
}

/// Sends one request on each of `count` connections. Returns the number that stay open.
async fn stay_open(config: EdgeConfig, count: usize, request: &str) -> usize {
    with_edge(config, async |address| {
        let streams = open(address, count, request).await;
        tokio::time::sleep(MOMENT).await;
        let mut still_open = 0;
        for mut stream in streams {
            let end = async { while matches!(stream.read(&mut [0; 1_024]).await, Ok(1..)) {} };
            still_open += usize::from(timeout(Duration::from_millis(20), end).await.is_err());
        }
        still_open
    })
    .await
}

#[tokio::test]
async fn page_closes_or_counts_its_connection() {
    let few = EdgeConfig { handshakes: 3, ..config() };
    assert!(stay_open(few, 10, PAGE).await <= 3);
}

#[tokio::test]
async fn refused_upgrades_count_until_they_are_closed() {
    let few = EdgeConfig { handshakes: 3, ..config() };
    let reset = with_edge(few, async |address| {
        let mut reset = 0;
        for mut stream in open(address, 10, REFUSED).await {
            // A closed socket answers with a reset, which the second write reports.
            let _ = stream.write_all(b"x").await;
            tokio::time::sleep(Duration::from_millis(5)).await;
            reset += usize::from(stream.write_all(b"x").await.is_err());
        }
        reset
    });
    assert!(reset.await >= 7);
}

#[tokio::test]
async fn silent_connections_of_one_address_are_limited() {
    let limits = AdmissionLimits { per_address: Some(1), ..config().admission };
    assert_eq!(stay_open(EdgeConfig { admission: limits, ..config() }, 20, "").await, 8);
}

#[tokio::test]
async fn drain_closes_the_listener_of_a_shared_address() {
    let config = EdgeConfig { reuse_port: true, ..config() };
    let port = config.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = port.local_addr();
    config.bind(address).expect("processes share it");
    let edge = Edge::new(EdgeCore::new(config.core.clone()), &config, Box::new(NoNodes)).unwrap();
    let local = LocalSet::new();
    let (is_ready, readiness) = oneshot::channel::<()>();
    let until_ready = async { readiness.await.unwrap() };
    local.spawn_local(edge.clone().serve(port, until_ready, Router::new().fallback(not_found)));
    let is_open = async || TcpStream::connect(address).await.is_ok();
    let opens = async || {
        while !is_open().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let test = async {
        tokio::time::sleep(MOMENT).await;
        assert!(!is_open().await, "before it is ready");
        is_ready.send(()).unwrap();
        timeout(5 * MOMENT, opens()).await.unwrap();
        edge.drain().await;
        assert!(!is_open().await, "while it drains");
        edge.undrain();
        timeout(5 * MOMENT, opens()).await.unwrap();
    };
    local.run_until(test).await;
}

#[test]
fn memory_bound_counts_the_limits_within_the_descriptors() {
    let limits = AdmissionLimits { sockets: 1_000_000, ..config().admission };
    let config = EdgeConfig { admission: limits, handshakes: 1_024, ..config() };
    let bound = MemoryBound::of(&config.within(20_480));
    assert_eq!((bound.sockets, bound.for_sockets >> 20, bound.for_handshakes >> 20), (18_240, 71, 28));
    assert_eq!(bound.total() >> 20, 32 + 71 + 28 + 192);
}
