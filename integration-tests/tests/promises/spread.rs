//! The hash spreads clients evenly, each to its owner, and no state of them remains after they
//! leave.

use futures_util::{StreamExt as _, stream};
use signaling_integration_tests::{Peer, TestMesh, eventually};
use signaling_server::limits::raise_open_files;

const CLIENTS: u32 = 1_000;
const MAX_CONCURRENT: usize = 32;

#[tokio::test]
async fn thousand_clients_spread_over_the_nodes_by_hash() {
    raise_open_files().unwrap();
    let mesh = TestMesh::of((3, 1), &["--reveal-nodes"], &["--reveal-nodes"]).await;
    let url = mesh.url();

    let connecting = (0..CLIENTS).map(|number| {
        let (id, url) = (format!("client-{number}"), &url);
        async move { Peer::connect(url, &id).await }
    });
    let peers: Vec<_> = stream::iter(connecting).buffer_unordered(MAX_CONCURRENT).collect().await;

    for Peer { id, welcome, .. } in &peers {
        assert_eq!(welcome["node"], mesh.owner(id).as_str(), "{id}");
    }
    let sessions = eventually("the nodes to count all sessions", async || {
        let sessions = mesh.metrics("node-", "signaling_sessions", "").await;
        (sessions.iter().sum::<f64>() == f64::from(CLIENTS)).then_some(sessions)
    })
    .await;
    assert_eq!(mesh.of_balancer("signaling_client_sockets", "").await, f64::from(CLIENTS));
    let share = 1.0 / sessions.len() as f64;
    let mean = f64::from(CLIENTS) * share;
    let deviation = (mean * (1.0 - share)).sqrt();
    for count in &sessions {
        assert!((count - mean).abs() < 5.0 * deviation, "{sessions:?} is not what chance allows");
    }

    stream::iter(peers).for_each_concurrent(MAX_CONCURRENT, Peer::close).await;
    eventually("all sessions and sockets to go", async || {
        let left = mesh.total("signaling_sessions").await + mesh.of_balancer("signaling_client_sockets", "").await;
        (left == 0.0).then_some(())
    })
    .await;
}
