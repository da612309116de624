//! A paused node is avoided until it has answered for a while, as the metrics show.

use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use signaling_integration_tests::{TestMesh, eventually, metric, talk};
use tokio::time::Instant;

/// Time for which a suspect must answer without a failure.
const PROBATION: Duration = Duration::from_secs(5);

#[tokio::test]
async fn paused_node_is_suspect_until_its_probation_ends() {
    let mesh = TestMesh::start().await;
    let others = all_but(&mesh, "node-1");
    has_answered_all_others(&mesh).await;
    all_count(&others, "no suspect", |suspects| suspects == 0.0).await;

    mesh.pause("node-1").await.unwrap();
    all_count(&others, "a suspect", |suspects| suspects > 0.0).await;

    let silent = Instant::now();
    mesh.resume("node-1").await.unwrap();
    let healthy = all_count(&others, "no suspect any more", |suspects| suspects == 0.0).await;
    let soonest = healthy.into_iter().min().unwrap() - silent;
    assert!(soonest >= PROBATION, "healthy after {soonest:?}");
}

/// Has node-1 answer the other nodes. A node that never answered counts as starting, and is healthy
/// after its first answer.
async fn has_answered_all_others(mesh: &TestMesh) {
    let nodes = ["node-0", "node-1", "node-2", "node-1"].into_iter().enumerate();
    let mut clients = mesh.connect(nodes.map(|(n, node)| mesh.id_owned_by(node, &format!("client{n}")))).await;
    talk(&mut clients, "hello").await;
}

fn all_but(mesh: &TestMesh, id: &str) -> Vec<String> {
    let state = mesh.state();
    state.servers().filter(|server| server.id != id).map(|server| server.internal.clone()).collect()
}

/// Waits until each server's number of suspects fits. Returns the times at which it does.
async fn all_count(servers: &[String], what: &'static str, is_so: fn(f64) -> bool) -> Vec<Instant> {
    let waits = servers.iter().map(|internal| async move {
        let fits = async || is_so(metric(internal, "signaling_suspect_nodes", "").await).then(Instant::now);
        eventually(&format!("{internal} to have {what}"), fits).await
    });
    stream::iter(waits).buffer_unordered(servers.len()).collect().await
}
