//! Several balancers on one port: the kernel gives each a share of the clients, and no newcomer
//! meets one that drains.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use signaling_integration_tests::{Peer, TestMesh, metric};
use tokio::task::JoinSet;
use tokio::time::interval;
use tokio_tungstenite::tungstenite::Error;

const BALANCERS: u32 = 4;
const CLIENTS: usize = 400;
/// 100 newcomers each second.
const PACE: Duration = Duration::from_millis(10);
/// Connections that may arrive in the microseconds between a last accept and the end of its socket.
const MAX_RESETS: usize = 2;

async fn mesh() -> TestMesh {
    TestMesh::with_options(|options| {
        (options.nodes, options.balancers, options.share_port) = (2, BALANCERS, true);
        options.balancer_args.push("--drain-ms=2000".to_owned());
    })
    .await
}

#[tokio::test]
async fn balancers_on_one_port_have_about_equal_shares() {
    let mesh = mesh().await;
    let balancers = mesh.state().balancers;
    let url = &balancers[0].url;
    assert!(balancers.iter().all(|balancer| balancer.url == *url), "{balancers:?}");

    let _clients = Peer::connect_all(url, (0..CLIENTS).map(|number| format!("client-{number}"))).await;

    for balancer in &balancers {
        let clients = metric(&balancer.internal, "signaling_client_sockets", "").await;
        assert!((60.0..=140.0).contains(&clients), "{} has {clients} of {CLIENTS}", balancer.id);
    }
}

/// Newcomers since the start, and the part that was not admitted.
#[derive(Debug, Default)]
struct Newcomers {
    all: AtomicUsize,
    refusals: Mutex<Vec<String>>,
    reset: AtomicUsize,
}

impl Newcomers {
    /// Connects a client that leaves at once.
    async fn connect(self: Arc<Self>, url: String) {
        let number = self.all.fetch_add(1, Ordering::Relaxed);
        match Peer::open(&url, &format!("newcomer-{number}"), "").await {
            Ok(peer) => peer.close().await,
            Err(Error::Http(answer)) => {
                let body = String::from_utf8_lossy(answer.body().as_deref().unwrap_or_default()).into_owned();
                self.refusals.lock().unwrap().push(body);
            }
            Err(_) => drop(self.reset.fetch_add(1, Ordering::Relaxed)),
        }
    }
}

#[tokio::test]
async fn restart_of_each_balancer_refuses_no_newcomer() {
    let mesh = mesh().await;
    // Present clients make drains last.
    let url = mesh.state().balancers[0].url.clone();
    let _present = Peer::connect_all(&url, (0..CLIENTS / 10).map(|number| format!("present-{number}"))).await;
    let newcomers = Arc::new(Newcomers::default());
    let coming = tokio::spawn({
        let newcomers = Arc::clone(&newcomers);
        async move {
            let (mut pace, mut tasks) = (interval(PACE), JoinSet::new());
            loop {
                pace.tick().await;
                tasks.spawn(Arc::clone(&newcomers).connect(url.clone()));
                while tasks.try_join_next().is_some() {}
            }
        }
    });

    for number in 0..BALANCERS {
        mesh.restart(&format!("balancer-{number}")).await.unwrap();
    }
    coming.abort();

    let [all, reset] = [&newcomers.all, &newcomers.reset].map(|count| count.load(Ordering::Relaxed));
    let is_refused = !newcomers.refusals.lock().unwrap().is_empty();
    assert!(all > 100 && !is_refused && reset <= MAX_RESETS, "{newcomers:?}");
}
