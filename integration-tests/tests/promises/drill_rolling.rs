//! While servers are restarted one after the other, as for an upgrade, clients notice nothing, or come back.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use signaling_integration_tests::{Drill, TestMesh};

/// A node whose clients are all there has nothing to wait for: less than the hold time.
const ONE_RESTART: Duration = Duration::from_secs(10);

#[tokio::test]
async fn all_nodes_are_restarted_in_turn_and_no_message_is_lost_and_no_socket_closed() {
    let mut mesh = TestMesh::start().await;

    let outcome = Drill::new("rolling restart of all nodes")
        .run(&mut mesh, async |mesh| {
            for node in ["node-0", "node-1", "node-2"] {
                mesh.mesh.restart(node).await.unwrap();
                mesh.agrees().await;
            }
        })
        .await;

    outcome.assert_nothing_lost().assert_moved().assert_done_within(3 * ONE_RESTART);
}

#[tokio::test]
async fn nodes_and_balancers_are_restarted_together_and_clients_that_resume_lose_nothing() {
    let mut mesh = TestMesh::with(|options| {
        options.balancers = 2;
        options.balancer_args = vec!["--drain-ms=3000".to_owned()];
    })
    .await;

    let outcome = Drill::new("rolling restart of nodes and balancers")
        .with_clients_that_come_back()
        .run(&mut mesh, async |mesh| {
            for (node, balancer) in [("node-0", Some("balancer-0")), ("node-1", Some("balancer-1")), ("node-2", None)] {
                let restart_balancer = async {
                    if let Some(balancer) = balancer {
                        mesh.mesh.restart(balancer).await.unwrap();
                    }
                };
                let (node_restarted, ()) = tokio::join!(mesh.mesh.restart(node), restart_balancer);
                node_restarted.unwrap();
                mesh.agrees().await;
            }
        })
        .await;

    outcome.assert_nothing_lost().assert_moved().assert_resumed().assert_done_within(3 * ONE_RESTART);
}
