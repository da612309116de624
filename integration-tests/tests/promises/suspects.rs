//! A paused node is avoided until it has answered for a while, as the metrics show.

use std::time::Duration;

use signaling_integration_tests::{TestMesh, eventually, metric, talk};
use tokio::task::JoinSet;
use tokio::time::Instant;

/// How long a suspect must answer without a failure.
const PROBATION: Duration = Duration::from_secs(5);
/// Longer than any server takes to notice, and to reach the node again after that.
const PATIENCE: Duration = Duration::from_secs(30);

#[tokio::test]
async fn paused_node_is_suspect_until_its_probation_ends() {
    let mesh = TestMesh::start().await;
    let others = all_but(&mesh, "node-1");
    has_answered_all_others(&mesh).await;
    all_count(&others, "no suspect", |suspects| suspects == 0.0).await;

    mesh.mesh.pause("node-1").await.unwrap();
    all_count(&others, "a suspect", |suspects| suspects > 0.0).await;

    let silent = Instant::now();
    mesh.mesh.resume("node-1").await.unwrap();
    let trusted = all_count(&others, "no suspect any more", |suspects| suspects == 0.0).await;
    let soonest = trusted.into_iter().min().unwrap() - silent;
    assert!(soonest >= PROBATION, "trusted after {soonest:?}");
}

/// Has node-1 answer the other nodes: who never has is taken to be starting, and trusted at the
/// first answer.
async fn has_answered_all_others(mesh: &TestMesh) {
    let nodes = ["node-0", "node-1", "node-2", "node-1"].into_iter().enumerate();
    let mut clients = mesh.connect(nodes.map(|(n, node)| mesh.id_owned_by(node, &format!("client{n}")))).await;
    talk(&mut clients, "hello").await;
}

/// The internal listeners of all servers but one.
fn all_but(mesh: &TestMesh, id: &str) -> Vec<String> {
    let state = mesh.mesh.state();
    state.servers().filter(|server| server.id != id).map(|server| server.internal.to_owned()).collect()
}

/// Waits until each server's count of suspects is so, and says since when.
async fn all_count(servers: &[String], what: &'static str, is_so: fn(f64) -> bool) -> Vec<Instant> {
    let waits: JoinSet<_> = servers
        .iter()
        .cloned()
        .map(|internal| async move {
            let suspects = async || metric(&internal, "signaling_suspect_nodes", "").await;
            let look = || async { is_so(suspects().await).then(Instant::now) };
            eventually(&format!("{internal} to have {what}"), PATIENCE, look).await
        })
        .collect();
    waits.join_all().await
}
