//! While a node stands still, plain clients notice nothing.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use signaling_integration_tests::drill::go_on;
use signaling_integration_tests::{Drill, TestMesh};

const PAUSED: Duration = Duration::from_secs(5);

#[tokio::test]
async fn a_node_stands_still_for_five_seconds_and_no_message_is_lost_and_no_socket_closed() {
    let mut mesh = TestMesh::start().await;

    let outcome = Drill::new("SIGSTOP a node for 5 s")
        .run(&mut mesh, async |mesh| {
            mesh.mesh.pause("node-1").await.unwrap();
            go_on(PAUSED).await;
            mesh.mesh.resume("node-1").await.unwrap();
        })
        .await;

    outcome.assert_nothing_lost().assert_moved().assert_repeated().assert_no_message_waited(PAUSED);
}
