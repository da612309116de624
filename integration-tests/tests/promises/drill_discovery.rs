//! Without discovery a mesh goes on with what it knew last.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::time::Duration;

use signaling_integration_tests::drill::go_on;
use signaling_integration_tests::metrics::metric;
use signaling_integration_tests::{Drill, TestMesh};

/// How long discovery is empty, and then gone.
const EMPTY: Duration = Duration::from_secs(4);
const GONE: Duration = Duration::from_secs(6);

#[tokio::test]
async fn discovery_is_empty_and_then_gone_and_a_node_is_killed_meanwhile_and_no_message_is_lost() {
    // The kill is told to discovery only at the end, and brings it back.
    let mut mesh = TestMesh::with(|options| options.notice = EMPTY + GONE - Duration::from_secs(2)).await;
    let file = mesh.dir.path().join("nodes.json");

    let outcome = Drill::new("discovery empty and then gone for 10 s, a node killed meanwhile")
        .run(&mut mesh, async |mesh| {
            fs::write(&file, "").unwrap();
            go_on(Duration::from_secs(2)).await;
            let killing = mesh.mesh.kill("node-1");
            let losing = async {
                go_on(EMPTY - Duration::from_secs(2)).await;
                fs::remove_file(&file).unwrap();
                go_on(GONE - Duration::from_secs(1)).await;
                assert!(!file.exists(), "discovery is back too early");
                let balancer = &mesh.mesh.state().balancers[0].internal;
                assert_eq!(metric(balancer, "signaling_view_nodes", "").await, 3.0, "the last view is kept");
                assert!(metric(balancer, "signaling_discovery_failures_total", "").await > 0.0, "and that is said");
            };
            let (killed, ()) = tokio::join!(killing, losing);
            killed.unwrap();
            mesh.agrees().await;
        })
        .await;

    outcome.assert_nothing_lost().assert_moved().assert_repeated().assert_no_message_waited(GONE);
}
