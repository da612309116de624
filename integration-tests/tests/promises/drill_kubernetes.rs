//! With discovery by Kubernetes, plain clients notice no change of the nodes.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use signaling_api_standin::Fault;
use signaling_api_standin::asked::rights;
use signaling_integration_tests::kubernetes::KubernetesMesh;
use signaling_integration_tests::{Clients, drill, during, get, metric, repository};
use tokio::time::sleep;

/// Limit of all changes: less than the hold time for each.
const ALL_CHANGES: Duration = Duration::from_secs(40);
/// Maximum interval of requests to an API server that fails.
const MAX_RETRY_INTERVAL: Duration = Duration::from_secs(60);
/// Time without an API server: longer than the 5 s after which a restarted node is healthy.
const SILENCE: Duration = Duration::from_secs(15);
/// Maximum delay of a message by a crash.
const CRASH: Duration = Duration::from_secs(6);

#[tokio::test]
async fn scaling_by_kubernetes_loses_no_message() {
    let mut kubernetes = KubernetesMesh::with_options(|_| {}).await;

    let outcome = drill(
        "EndpointSlices: scale 3 to 5 to 2, and a rolling restart",
        Clients::Staying,
        &mut kubernetes.mesh,
        async |mesh| {
            for nodes in [5, 2] {
                mesh.scale(nodes).await.unwrap();
                mesh.until_views_agree().await;
            }
            for node in mesh.state().nodes {
                mesh.replace(&node.id).await.unwrap();
                mesh.until_views_agree().await;
            }
            for node in mesh.state().nodes {
                mesh.restart(&node.id).await.unwrap();
                mesh.until_views_agree().await;
            }
        },
    )
    .await;

    outcome.assert_nothing_lost().assert_moved().assert_done_within(ALL_CHANGES);
    assert_asked_by_all(&kubernetes).await;
    assert_asked_what_the_role_allows(&kubernetes);
}

#[tokio::test]
async fn messages_flow_when_a_node_restarts_without_a_view() {
    let mut kubernetes = KubernetesMesh::with_options(|options| {
        options.removal_delay = Duration::from_secs(600);
        options.ready_within = MAX_RETRY_INTERVAL + SILENCE;
    })
    .await;
    let api = Arc::clone(&kubernetes.api);

    let outcome = drill(
        "a node killed and restarted while the API server is away",
        Clients::Staying,
        &mut kubernetes.mesh,
        async |mesh| {
            let node = mesh.state().nodes.into_iter().find(|node| node.id == "node-1").unwrap();
            api.fails(Fault::Status(503));
            api.ends_watches();
            mesh.kill_unnoticed("node-1").await;
            let silence = async {
                sleep(SILENCE).await;
                let ready = get(&node.internal, "/readyz").await;
                assert_eq!((ready.status, ready.body.as_str()), (503, "starting\n"), "it has no view");
                let balancer = &mesh.balancer_internal();
                assert_eq!(metric(balancer, "signaling_suspect_nodes", "").await, 1.0, "no client goes there");
                api.recovers();
            };
            during(mesh.restart("node-1"), silence).await;
            mesh.until_views_agree().await;
        },
    )
    .await;

    outcome.assert_nothing_lost().assert_no_message_waited(CRASH);
}

/// All servers requested lists from the API server, and nothing failed.
async fn assert_asked_by_all(kubernetes: &KubernetesMesh) {
    let state = kubernetes.mesh.state();
    let asked = kubernetes.api.asked();
    assert!(asked.iter().filter(|asked| asked.verb == "list").count() > state.servers().count());
    let balancer = &state.balancers[0].internal;
    assert_eq!(metric(balancer, "signaling_discovery_failures_total", "").await, 0.0);
    assert!(metric(balancer, "signaling_discovery_age_seconds", "").await < 60.0);
}

/// The Role allows exactly the requests of the servers.
fn assert_asked_what_the_role_allows(kubernetes: &KubernetesMesh) {
    let asked = kubernetes.api.asked();
    assert!(asked.iter().all(|asked| asked.namespace == "calls"), "a Role holds for its own namespace: {asked:?}");
    let asked: BTreeSet<String> = asked.into_iter().map(|asked| asked.right).collect();
    let yaml = std::fs::read_to_string(repository().join("deploy/base/rbac.yaml")).unwrap();
    let manifest: Vec<Value> = serde_saphyr::from_multiple(&yaml).unwrap();
    assert_eq!(asked, rights(&manifest));
}
