//! The Role in deploy/ allows what discovery asks, and no more.
#![allow(clippy::unwrap_used)]

mod support;

use std::collections::BTreeSet;

use serde_json::Value;
use signaling_api_standin::{Expiry, Fault, Faults};
use support::{Cluster, slice};

const RBAC: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/base/rbac.yaml");

#[tokio::test]
async fn discovery_asks_exactly_what_the_role_allows() {
    let mut cluster = Cluster::of(&["a"]).await;
    // Whatever it might ask besides, it asks when things change and fail.
    cluster.api.put(&slice("two", &["b"]));
    cluster.becomes("a b").await;
    cluster.api.expires(Expiry::Status);
    cluster.is_healed().await;
    cluster.api.fails(Faults::of_both(Fault::Status(403)));
    cluster.api.ends_watches();
    cluster.is_healed().await;
    cluster.api.goes_away();
    cluster.api.comes_back();
    cluster.is_healed().await;

    let asked = cluster.api.asked();
    assert!(asked.iter().all(|asked| asked.namespace == "calls"), "a Role holds for its own namespace: {asked:?}");
    let asked: BTreeSet<String> =
        asked.iter().map(|asked| format!("{} {}/{}", asked.verb, asked.group, asked.resource)).collect();
    let allowed = allowed(&std::fs::read_to_string(RBAC).unwrap());
    assert_eq!(asked, allowed);
}

/// All that the Roles of the file allow. Names of resources would make it less; there are none to know beforehand.
fn allowed(yaml: &str) -> BTreeSet<String> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(yaml).unwrap();
    let roles: Vec<&Value> = documents.iter().filter(|document| document["kind"] == "Role").collect();
    assert!(!roles.is_empty(), "{RBAC} has no Role");
    assert!(documents.iter().all(|document| document["kind"] != "ClusterRole"), "{RBAC} has a ClusterRole");
    let mut allowed = BTreeSet::new();
    for rule in roles.iter().flat_map(|role| role["rules"].as_array().unwrap()) {
        let texts = |field: &str| rule[field].as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned());
        assert_eq!(rule.as_object().unwrap().len(), 3, "{rule}");
        for group in texts("apiGroups") {
            for resource in texts("resources") {
                allowed.extend(texts("verbs").map(|verb| format!("{verb} {group}/{resource}")));
            }
        }
    }
    allowed
}
