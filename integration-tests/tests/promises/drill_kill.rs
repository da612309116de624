//! While one node after the other is killed, plain clients notice nothing.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use signaling_integration_tests::drill::go_on;
use signaling_integration_tests::{Drill, TestMesh};

#[tokio::test]
async fn each_node_is_killed_in_turn_and_no_message_is_lost_and_no_socket_closed() {
    let mut mesh = TestMesh::start().await;

    let outcome = Drill::new("kill -9 each node in turn")
        .run(&mut mesh, async |mesh| {
            for node in ["node-0", "node-1", "node-2"] {
                mesh.mesh.kill(node).await.unwrap();
                mesh.mesh.restart(node).await.unwrap();
                mesh.agrees().await;
                go_on(Duration::from_secs(1)).await;
            }
        })
        .await;

    outcome.assert_nothing_lost().assert_moved().assert_repeated();
}
