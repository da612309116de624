//! While nodes are added and taken away, plain clients notice nothing.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use signaling_integration_tests::drill::go_on;
use signaling_integration_tests::{Drill, TestMesh};

/// Nodes that drain while all clients are there have nothing to wait for: less than the hold time.
const ALL: Duration = Duration::from_secs(15);

#[tokio::test]
async fn from_three_nodes_to_five_and_to_two_no_message_is_lost_and_no_socket_closed() {
    let mut mesh = TestMesh::start().await;

    let outcome = Drill::new("scale 3 to 5 to 2")
        .run(&mut mesh, async |mesh| {
            mesh.mesh.scale(5).await.unwrap();
            mesh.agrees().await;
            go_on(Duration::from_secs(2)).await;
            mesh.mesh.scale(2).await.unwrap();
        })
        .await;

    outcome.assert_nothing_lost().assert_moved().assert_done_within(ALL);
}

#[tokio::test]
async fn one_of_three_nodes_gives_its_place_to_another_and_no_message_is_lost_and_no_socket_closed() {
    let mut mesh = TestMesh::start().await;

    let outcome = Drill::new("replace").run(&mut mesh, async |mesh| mesh.mesh.replace("node-1").await.unwrap()).await;

    outcome.assert_nothing_lost().assert_moved().assert_done_within(ALL);
}
