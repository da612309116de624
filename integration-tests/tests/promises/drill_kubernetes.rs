//! Where Kubernetes says who the nodes are, plain clients notice nothing of what it does to them.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use signaling_integration_tests::Drill;
use signaling_integration_tests::kubernetes::KubernetesMesh;
use signaling_integration_tests::metrics::metric;

/// Less than the hold time for each act.
const ALL: Duration = Duration::from_secs(40);

#[tokio::test]
async fn from_three_nodes_to_five_to_two_and_all_replaced_in_turn_no_message_is_lost_and_no_socket_closed() {
    let mut kubernetes = KubernetesMesh::start().await;

    let outcome = Drill::new("EndpointSlices: scale 3 to 5 to 2, and a rolling restart")
        .run(&mut kubernetes.mesh, async |mesh| {
            for nodes in [5, 2] {
                mesh.mesh.scale(nodes).await.unwrap();
                mesh.agrees().await;
            }
            for node in mesh.mesh.state().nodes {
                mesh.mesh.replace(&node.id).await.unwrap();
                mesh.agrees().await;
            }
            for node in mesh.mesh.state().nodes {
                mesh.mesh.restart(&node.id).await.unwrap();
                mesh.agrees().await;
            }
        })
        .await;

    outcome.assert_nothing_lost().assert_moved().assert_done_within(ALL);
    assert_asked_by_all(&kubernetes).await;
}

/// The servers have it all from the API server, and nothing failed.
async fn assert_asked_by_all(kubernetes: &KubernetesMesh) {
    let state = kubernetes.mesh.mesh.state();
    let asked = kubernetes.api.asked();
    assert!(asked.iter().filter(|asked| asked.verb == "list").count() > state.nodes.len() + state.balancers.len());
    let balancer = &state.balancers[0].internal;
    assert_eq!(metric(balancer, "signaling_discovery_failures_total", "").await, 0.0);
    assert!(metric(balancer, "signaling_discovery_age_seconds", "").await < 60.0);
}
