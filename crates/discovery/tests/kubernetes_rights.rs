//! The Role in `deploy/` allows exactly the requests of discovery.

mod support;

use std::collections::BTreeSet;

use serde_json::Value;
use signaling_api_standin::asked::rights;
use signaling_api_standin::{Asked, Expiry, Fault, Faults};
use support::{Cluster, slice};

const RBAC: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/base/rbac.yaml");

#[tokio::test]
async fn discovery_asks_exactly_what_the_role_allows() {
    let mut cluster = Cluster::of(&["a"]).await;
    // Changes and failures cause all other kinds of requests.
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
    let asked: BTreeSet<String> = asked.iter().map(Asked::right).collect();
    let manifest: Vec<Value> = serde_saphyr::from_multiple(&std::fs::read_to_string(RBAC).unwrap()).unwrap();
    assert_eq!(asked, rights(&manifest));
}
