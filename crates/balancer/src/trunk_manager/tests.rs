//! Tests of trunks to nodes that views drop and add again.

use axum::Router;
use clap::Parser as _;
use http::HeaderValue;
use http::header::SEC_WEBSOCKET_PROTOCOL;
use signaling_admin::servers::Role;
use signaling_core::edge::{EdgeCore, KickName};
use signaling_discovery::Source;
use signaling_edge::ClientPort;
use signaling_server::mesh_status::ServerStatus;
use signaling_server::{Health, Listener, clock};
use signaling_wire::limits::SUSPECT_AFTER;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::LocalSet;
use tokio::time;
use tokio_tungstenite::tungstenite::handshake::server::{Request, Response};
use tokio_tungstenite::{WebSocketStream, accept_hdr_async};

use super::*;
use crate::config::{Args, Config};

const WAIT_TIMEOUT: Duration = Duration::from_secs(5);

/// Accepts a trunk like a node.
#[allow(clippy::result_large_err)]
async fn accept(node: &TcpListener) -> WebSocketStream<TcpStream> {
    let (stream, _) = timeout(WAIT_TIMEOUT, node.accept()).await.expect("a trunk is opened").unwrap();
    let select = |_: &Request, mut answer: Response| {
        let version = HeaderValue::from_static(signaling_wire::trunk::SUBPROTOCOL);
        answer.headers_mut().insert(SEC_WEBSOCKET_PROTOCOL, version);
        Ok(answer)
    };
    accept_hdr_async(stream, select).await.unwrap()
}

async fn until(what: &str, is_so: impl Fn() -> bool) {
    assert!(clock::until(WAIT_TIMEOUT, Duration::from_millis(5), is_so).await, "{what}");
}

/// Sends frames to a node that does not read, until its kernel accepts no more. A busy machine
/// writes late, so frames must stay unwritten for a while.
async fn block(edge: &Edge, link: LinkKey) {
    let id = KickName::new(&"c".repeat(64));
    let is_idle = || edge.is_link_idle(link);
    loop {
        edge.with_core(|core| (0..20_000).for_each(|_| core.spread_kick(&id, 1)));
        if !clock::until(Duration::from_millis(300), Duration::from_millis(5), is_idle).await {
            return;
        }
    }
}

#[tokio::test]
async fn trunk_reopens_when_its_node_is_named_while_it_closes() {
    for _ in 0..10 {
        if LocalSet::new().run_until(close_and_reopen()).await {
            return;
        }
    }
    panic!("the machine is too slow: each trunk was silent before it could close");
}

/// Returns `false` if the machine took so long that the trunk was silent first, another end.
async fn close_and_reopen() -> bool {
    let node = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let secret = dir.path().join("secret");
    std::fs::write(&secret, "5e".repeat(32)).unwrap();
    let source = format!("static:node-0={}", node.local_addr().unwrap());
    let flags = ["x", "--id", "balancer-0", "--discovery", &source, "--mesh-secret-file", secret.to_str().unwrap()];
    let Config { common, edge: config, .. } = Args::try_parse_from(flags).unwrap().check().unwrap();
    let Source::Static(named) = &common.discovery else { panic!("not static") };
    let named = Arc::new(named.clone());
    let discovery = Rc::new(signaling_discovery::watch(common.discovery.clone()).await.unwrap());
    let status = ServerStatus::new(&common, Role::Balancer, Health::of_balancer(), discovery);
    let backend = BalancerBackend::new(0, Health::of_balancer(), status);
    let edge = Edge::new(EdgeCore::new(config.core.clone()), &config, Box::new(backend.clone())).unwrap();
    let (views, seen) = watch::channel(Arc::clone(&named));
    let manager =
        TrunkManager { edge: edge.clone(), backend: backend.clone(), proofs: common.proofs.clone(), internal_port: 1 };
    tokio::task::spawn_local(manager.follow(seen));
    let listener = Listener::bind((std::net::Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    tokio::task::spawn_local(edge.clone().serve(ClientPort::Own(listener), std::future::pending(), Router::new()));
    tokio::task::spawn_local(edge.clone().sweep());
    let first = accept(&node).await;
    let current_link = || backend.with(|state| state.links.keys().next());
    until("the trunk is up", || current_link().is_some()).await;
    let link = current_link().unwrap();

    let start = Instant::now();
    block(&edge, link).await;
    views.send_replace(Arc::default());
    sleep(Duration::from_millis(100)).await;
    time::pause();
    time::advance(RETIRE_TIMEOUT).await;
    time::resume();
    until("the trunk is given up", || edge.with_core(|core| !core.has_link(link))).await;
    if start.elapsed() > SUSPECT_AFTER / 2 {
        return false;
    }
    assert_eq!(current_link(), Some(link), "its last bytes are on their way");
    backend.use_link(&edge, link);
    assert!(!backend.with(|state| state.placement.uses(link)), "a link that is down is not used again");

    views.send_replace(named);
    sleep(Duration::from_millis(50)).await;
    assert!(!backend.with(|state| state.placement.uses(link)), "no client is placed on it");
    drop(first);
    let _second = accept(&node).await;
    until("another trunk is in use", || backend.with(|state| state.placement.usable_count() == 1)).await;
    true
}
