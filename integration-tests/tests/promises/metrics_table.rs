//! The table of metrics in `docs/METRICS.md` is what the code describes, and what servers serve.
//!
//! `WRITE_METRICS=1 cargo test -p signaling-integration-tests --test promises metrics_table` writes the table anew.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use serde_json::json;
use signaling_integration_tests::observability::{catalogue, of_balancers, of_nodes, page_of};
use signaling_integration_tests::rendered::repository;
use signaling_integration_tests::{Peer, TestMesh};
use signaling_metrics::{Kind, Metric, write_tables};

const HEAD: &str = "# Metrics

What servers serve on `/metrics` of their internal listener, in Prometheus' text format. This page is written from the code that counts \
(`WRITE_METRICS=1 cargo test -p signaling-integration-tests --test promises metrics_table`), and a test compares it with what real servers serve.

Every series is there from the start, at 0, with all that its labels can be. Histograms are of seconds, with buckets from 0.1 ms to 30 s. \
Where there is a limit, its metric has the same name and `_limit`. [RUNBOOK.md](RUNBOOK.md) says what to do when they are bad, \
[grafana.json](../deploy/observability/grafana.json) shows them by hop: latency, traffic, errors, saturation.
";

fn table() -> PathBuf {
    repository().join("docs/METRICS.md")
}

#[test]
fn the_committed_table_is_what_the_code_describes() {
    let written = format!("{HEAD}{}", write_tables(&catalogue()));
    if std::env::var_os("WRITE_METRICS").is_some() {
        fs::write(table(), &written).unwrap();
    }
    let committed = fs::read_to_string(table()).unwrap();
    assert!(committed == written, "docs/METRICS.md is not what the code describes: write it anew with WRITE_METRICS=1");
}

#[test]
fn every_name_is_one_metrics_and_keeps_to_prometheus_conventions() {
    let mut seen = BTreeSet::new();
    for metric in catalogue().iter().flat_map(|section| section.metrics) {
        let Metric { name, kind, labels, help } = metric;
        assert!(seen.insert(name), "{name} stands twice");
        assert!(name.starts_with("signaling_") || name.starts_with("process_"), "{name}");
        assert_eq!(name.ends_with("_total"), *kind == Kind::Counter, "{name}: counters end in _total, others do not");
        assert!(*kind != Kind::Histogram || name.ends_with("_seconds"), "{name}: times are in seconds");
        for unit in ["_ms", "_millis", "_micros", "_kb", "_kib", "_mb", "_mib", "_minutes", "_percent"] {
            assert!(!name.contains(unit), "{name} is not in base units");
        }
        assert!(help.ends_with('.') || help.ends_with("1970"), "{name}: {help}");
        let names: BTreeSet<_> = labels.iter().map(|label| label.name).collect();
        assert_eq!(names.len(), labels.len(), "{name}");
        let series: usize = labels.iter().map(|label| label.values.len().max(1)).product();
        assert!(series <= 32, "{name} has {series} series");
    }
}

#[tokio::test]
async fn servers_serve_what_the_table_has_and_nothing_else() {
    let mesh = TestMesh::with(|options| options.nodes = 2).await;
    // Something of everything: a call, a room, what is refused.
    let (ada, bob) = (mesh.id_owned_by("node-0", "ada"), mesh.id_owned_by("node-1", "bob"));
    let mut bob = (Peer::connect(&mesh.url(), &bob).await, bob);
    let mut ada = Peer::connect(&mesh.url(), &ada).await;
    ada.signal(&bob.1, json!("hello"), Some(1)).await;
    bob.0.recv_type("signal").await;
    ada.recv_type("ack").await;
    ada.send(&json!({ "type": "join", "room": "den", "id": 2 })).await;
    ada.send(&json!({ "type": "nonsense", "id": 3 })).await;
    ada.recv_type("error").await;
    assert!(Peer::try_connect(&mesh.url(), "not,an,id").await.is_err());

    let state = mesh.mesh.state();
    let balancers = state.balancers.iter().map(|balancer| (&balancer.internal, of_balancers()));
    let nodes = state.nodes.iter().map(|node| (&node.internal, of_nodes()));
    for (internal, described) in balancers.chain(nodes) {
        let page = page_of(internal).await;
        let served: BTreeMap<_, _> = page.families();
        let described: BTreeMap<_, _> = described.into_iter().map(|metric| (metric.name, metric)).collect();
        let (served_names, names): (BTreeSet<_>, BTreeSet<_>) =
            (served.keys().map(String::as_str).collect(), described.keys().copied().collect());
        assert_eq!(
            served_names.difference(&names).collect::<Vec<_>>(),
            [&""; 0],
            "served by {internal} and not described"
        );
        // What is counted by something that the configuration names is there once it has been counted.
        let is_open = |name: &&&str| described[**name].labels.iter().any(|label| label.values.is_empty());
        let unserved: Vec<_> = names.difference(&served_names).filter(|name| !is_open(name)).collect();
        assert!(unserved.is_empty(), "described and not served by {internal}: {unserved:?}");
        for (name, family) in &served {
            let metric = described[name.as_str()];
            assert_eq!(family.kind, metric.kind.as_str(), "{name}");
            assert_eq!(family.help, metric.help, "{name}");
            assert!(
                family.samples > 0 || metric.labels.iter().any(|label| label.values.is_empty()),
                "{name} has no sample"
            );
            for (label, value) in &family.labels {
                let listed = metric.labels.iter().find(|known| known.name == label);
                let listed = listed.unwrap_or_else(|| panic!("{name} has a label {label} that the table lacks"));
                assert!(
                    listed.values.is_empty() || listed.values.contains(&value.as_str()),
                    "{name}{{{label}={value}}}"
                );
            }
        }
    }
}
