//! The hash spreads clients evenly, each to its owner, and no state of them remains after they
//! leave.

use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use signaling_integration_tests::{Peer, TestMesh, eventually, metric};
use signaling_server::limits::raise_open_files;

const CLIENTS: u32 = 1_000;
const AT_ONCE: usize = 32;
const SOON: Duration = Duration::from_secs(15);

#[tokio::test]
async fn thousand_clients_spread_over_the_nodes_by_hash() {
    raise_open_files().unwrap();
    let mesh = TestMesh::with_flags_of_all(3, &["--reveal-nodes"]).await;
    let url = mesh.url();

    let connecting = (0..CLIENTS).map(|number| {
        let (id, url) = (format!("client-{number}"), &url);
        async move { (Peer::connect(url, &id).await, id) }
    });
    let peers: Vec<(Peer, String)> = stream::iter(connecting).buffer_unordered(AT_ONCE).collect().await;

    for (peer, id) in &peers {
        assert_eq!(peer.welcome["node"], mesh.owner(id).as_str(), "{id}");
    }
    let sessions = eventually("the nodes to count all sessions", SOON, || async {
        let sessions = sessions_by_node(&mesh).await;
        (sessions.iter().sum::<f64>() == f64::from(CLIENTS)).then_some(sessions)
    })
    .await;
    assert_eq!(client_sockets(&mesh).await, f64::from(CLIENTS));
    let share = 1.0 / sessions.len() as f64;
    let mean = f64::from(CLIENTS) * share;
    let deviation = (mean * (1.0 - share)).sqrt();
    for count in &sessions {
        assert!((count - mean).abs() < 5.0 * deviation, "{sessions:?} is not what chance allows");
    }

    stream::iter(peers).for_each_concurrent(AT_ONCE, |(peer, _)| peer.close()).await;
    eventually("all sessions and sockets to go", SOON, || async {
        let left = sessions_by_node(&mesh).await.iter().sum::<f64>() + client_sockets(&mesh).await;
        (left == 0.0).then_some(())
    })
    .await;
}

async fn sessions_by_node(mesh: &TestMesh) -> Vec<f64> {
    let nodes = mesh.mesh.state().nodes;
    stream::iter(nodes)
        .then(|node| async move { metric(&node.internal, "signaling_sessions", "").await })
        .collect()
        .await
}

async fn client_sockets(mesh: &TestMesh) -> f64 {
    metric(&mesh.balancer(), "signaling_client_sockets", "").await
}
