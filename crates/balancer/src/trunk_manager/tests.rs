//! Tests of trunks to nodes that views drop and add again.

use axum::Router;
use clap::Parser as _;
use http::HeaderValue;
use http::header::SEC_WEBSOCKET_PROTOCOL;
use signaling_core::Member;
use signaling_protocol::ClientId;
use signaling_server::{Health, Listener};
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::LocalSet;
use tokio::time;
use tokio_tungstenite::tungstenite::handshake::server::{Request, Response};
use tokio_tungstenite::{WebSocketStream, accept_hdr_async};

use super::*;
use crate::config::Args;

const WAIT_TIMEOUT: Duration = Duration::from_secs(5);

/// A manager of trunks to one node.
struct Managed {
    edge: Edge,
    backend: BalancerBackend,
    views: watch::Sender<Arc<View>>,
    named: Arc<View>,
    _secret: TempDir,
}

impl Managed {
    /// Starts a manager with a view of the node behind the listener.
    fn start(node: &TcpListener) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let secret = dir.path().join("secret");
        std::fs::write(&secret, "s".repeat(32)).unwrap();
        let address = node.local_addr().unwrap().to_string();
        let source = format!("static:node-0={address}");
        let member = Member { id: NodeId::new("node-0").unwrap(), address: address.parse().unwrap(), draining: false };
        let flags = ["x", "--id", "balancer-0", "--discovery", &source, "--mesh-secret-file", secret.to_str().unwrap()];
        let config = Args::try_parse_from(flags).unwrap().check().unwrap();
        let named = Arc::new(View::new([member]).unwrap());
        let backend = BalancerBackend::new(0, Health::for_clients());
        let edge = Edge::new(&config.edge, Box::new(backend.clone())).unwrap();
        let manager = TrunkManager {
            edge: edge.clone(),
            backend: backend.clone(),
            secrets: config.common.mesh_secrets.clone(),
            id: config.common.id.clone(),
            internal_port: 1,
        };
        let (views, seen) = watch::channel(Arc::clone(&named));
        tokio::task::spawn_local(manager.follow(seen));
        let listener = Listener::bind((std::net::Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        tokio::task::spawn_local(edge.clone().serve(listener, Router::new()));
        tokio::task::spawn_local(edge.clone().sweep());
        Self { edge, backend, views, named, _secret: dir }
    }

    /// Sends frames to a node that does not read, until its kernel accepts no more.
    async fn block(&self) {
        let id = ClientId::new(&"c".repeat(64)).unwrap();
        while self.edge.is_link_idle(self.link().unwrap()) {
            self.edge.with_core(|core| (0..20_000).for_each(|_| core.spread_kick(&id, 1)));
            sleep(Duration::from_millis(50)).await;
        }
    }

    fn link(&self) -> Option<LinkKey> {
        self.backend.with(|state| state.links.keys().next())
    }
}

/// Returns a listener whose connections buffer little unread data.
fn listener() -> TcpListener {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(8 * 1024).unwrap();
    socket.bind((std::net::Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    socket.listen(1).unwrap()
}

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
    let waiting = async {
        while !is_so() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(WAIT_TIMEOUT, waiting).await.expect(what);
}

#[tokio::test]
async fn trunk_reopens_when_its_node_is_named_while_it_closes() {
    let story = async {
        let node = listener();
        let balancer = Managed::start(&node);
        let first = accept(&node).await;
        until("the trunk is up", || balancer.link().is_some()).await;
        let link = balancer.link().unwrap();

        balancer.block().await;
        balancer.views.send_replace(Arc::default());
        sleep(Duration::from_millis(100)).await;
        time::pause();
        time::advance(RETIRE_TIMEOUT).await;
        time::resume();
        until("the trunk is given up", || balancer.edge.with_core(|core| !core.has_link(link))).await;
        assert_eq!(balancer.link(), Some(link), "its last bytes are on their way");
        balancer.backend.use_link(&balancer.edge, link);
        assert!(!balancer.backend.with(|state| state.placement.uses(link)), "a link that is down is not used again");

        balancer.views.send_replace(Arc::clone(&balancer.named));
        sleep(Duration::from_millis(50)).await;
        assert!(!balancer.backend.with(|state| state.placement.uses(link)), "no client is placed on it");
        drop(first);
        let _second = accept(&node).await;
        until("another trunk is in use", || balancer.backend.with(|state| state.placement.usable_count() == 1)).await;
    };
    LocalSet::new().run_until(story).await;
}
