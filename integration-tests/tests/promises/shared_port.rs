//! Several balancers on one port: the kernel gives each a share of the clients, and no newcomer
//! meets one that drains.

use std::time::Duration;

use signaling_integration_tests::{Peer, TestMesh, metric};
use tokio::task::JoinSet;
use tokio::time::{interval, timeout};
use tokio_tungstenite::tungstenite::Error;

const BALANCERS: u32 = 4;
const CLIENTS: usize = 400;
/// 100 newcomers each second.
const PACE: Duration = Duration::from_millis(10);
/// Maximum time in which the last newcomers connect and leave.
const VISIT_TIMEOUT: Duration = Duration::from_secs(30);
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

/// Connects a client that leaves at once.
async fn visit(url: String, number: u32) -> Result<(), Error> {
    Peer::open(&url, &format!("newcomer-{number}"), "").await?.close().await;
    Ok(())
}

#[tokio::test]
async fn restart_of_each_balancer_refuses_no_newcomer() {
    let mesh = mesh().await;
    // Present clients make drains last.
    let url = mesh.state().balancers[0].url.clone();
    let _present = Peer::connect_all(&url, (0..CLIENTS / 10).map(|number| format!("present-{number}"))).await;
    let mut newcomers = JoinSet::new();
    let coming = async {
        let mut pace = interval(PACE);
        for number in 0.. {
            pace.tick().await;
            newcomers.spawn(visit(url.clone(), number));
        }
    };
    let restarts = async {
        for number in 0..BALANCERS {
            mesh.restart(&format!("balancer-{number}")).await.unwrap();
        }
    };
    tokio::select! {
        () = coming => unreachable!("newcomers connect until the restarts are over"),
        () = restarts => {}
    }

    let newcomers = timeout(VISIT_TIMEOUT, newcomers.join_all()).await.expect("newcomers are stuck");
    assert!(newcomers.len() > 100, "only {} newcomers", newcomers.len());
    let failures: Vec<_> = newcomers.iter().filter_map(|visit| visit.as_ref().err()).collect();
    let refusals: Vec<_> = failures.iter().filter(|error| matches!(error, Error::Http(_))).collect();
    assert!(refusals.is_empty(), "newcomers are refused: {refusals:?}");
    assert!(failures.len() <= MAX_RESETS, "too many connections are reset: {failures:?}");
}
