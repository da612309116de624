//! The table of metrics in `docs/METRICS.md` is what the code describes, and what servers serve.
//!
//! `WRITE_METRICS=1 cargo test -p signaling-integration-tests --test promises metrics_table` writes the table anew.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Stdio};

use serde_json::json;
use signaling_integration_tests::http::get;
use signaling_integration_tests::optional::{in_path, missing};
use signaling_integration_tests::rendered::repository;
use signaling_integration_tests::{Peer, TestMesh};
use signaling_metrics::{Metric, Section, write_tables};
use signaling_server::process;

const HEAD: &str = "# Metrics

What servers serve on `/metrics` of their internal listener, in Prometheus' text format. This page is written from the code that counts \
(`WRITE_METRICS=1 cargo test -p signaling-integration-tests --test promises metrics_table`), and a test compares it with what real servers serve.

Every series is there from the start, at 0, with all that its labels can be. Histograms are of seconds, with buckets from 0.1 ms to 30 s. \
Where there is a limit, its metric has the same name and `_limit`. [RUNBOOK.md](RUNBOOK.md) says what to do when they are bad, \
[grafana.json](../deploy/observability/grafana.json) shows them by hop: latency, traffic, errors, saturation.
";

/// A section of the table, and the servers of a test mesh that serve it.
struct Chapter {
    section: Section<'static>,
    nodes: bool,
    balancers: bool,
}

fn catalogue() -> [Chapter; 8] {
    let chapter = |title, about, metrics, [nodes, balancers]: [bool; 2]| Chapter {
        section: Section { title, about, metrics },
        nodes,
        balancers,
    };
    [
        chapter(
            "Edges: client to edge, and back",
            "Served by balancers, and by nodes with `--public` for the clients that come to them directly.",
            signaling_edge::shell::metrics::METRICS,
            [true, true],
        ),
        chapter(
            "Balancers: edge to node",
            "Served by balancers, beside what all servers serve of trunks.",
            signaling_balancer::metrics::METRICS,
            [false, true],
        ),
        chapter(
            "Nodes: sessions, messages, forwards to other nodes, rooms and their store",
            "Served by nodes.",
            signaling_node::shell::metrics::METRICS,
            [true, false],
        ),
        chapter(
            "Discovery",
            "Served by all servers whose source of views can change.",
            signaling_discovery::metrics::METRICS,
            [true, true],
        ),
        chapter(
            "Peers behind the same front",
            "Served by balancers; 0 where they have no `--balancer-discovery`.",
            signaling_discovery::metrics::METRICS_OF_PEERS,
            [false, true],
        ),
        chapter(
            "Readiness by load",
            "Served by servers with `--unready-above-percent`.",
            signaling_server::load_readiness::METRICS,
            [false, false],
        ),
        chapter(
            "All servers",
            "Trunks are counted at both of their ends.",
            signaling_server::metrics::METRICS,
            [true, true],
        ),
        chapter(
            "Processes",
            "Served by all servers, as by all programs that Prometheus knows.",
            process::METRICS,
            [true, true],
        ),
    ]
}

#[test]
fn the_committed_table_is_what_the_code_describes() {
    let written = format!("{HEAD}{}", write_tables(&catalogue().map(|chapter| chapter.section)));
    let table = repository().join("docs/METRICS.md");
    if std::env::var_os("WRITE_METRICS").is_some() {
        fs::write(&table, &written).unwrap();
    }
    let committed = fs::read_to_string(table).unwrap();
    assert!(committed == written, "docs/METRICS.md is not what the code describes: write it anew with WRITE_METRICS=1");
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

    let (state, catalogue) = (mesh.mesh.state(), catalogue());
    let served_by = |is: fn(&Chapter) -> bool| -> Vec<&Metric> {
        catalogue.iter().filter(|chapter| is(chapter)).flat_map(|chapter| chapter.section.metrics).collect()
    };
    let nodes = state.nodes.iter().map(|node| (&node.internal, served_by(|chapter| chapter.nodes)));
    let balancers = state.balancers.iter().map(|server| (&server.internal, served_by(|chapter| chapter.balancers)));
    for (internal, described) in nodes.chain(balancers) {
        let page = get(internal, "/metrics").await.body;
        is_described(&page, &described);
        keeps_the_conventions_of_prometheus(&page);
    }
}

fn is_described(page: &str, described: &[&Metric]) {
    let heads = |metric: &Metric| {
        let Metric { name, kind, help, .. } = metric;
        [format!("# HELP {name} {help}"), format!("# TYPE {name} {}", kind.as_str())]
    };
    // A metric whose labels the configuration names is there once it has been counted.
    let is_open = |metric: &Metric| metric.labels.iter().any(|label| label.values.is_empty());
    let served: BTreeSet<_> = page.lines().filter(|line| line.starts_with('#')).map(str::to_owned).collect();
    let all: BTreeSet<_> = described.iter().flat_map(|metric| heads(metric)).collect();
    let wanted = described.iter().filter(|metric| !is_open(metric)).flat_map(|metric| heads(metric)).collect();
    assert_eq!(served.difference(&all).collect::<Vec<_>>(), [""; 0], "served and not described");
    assert_eq!(BTreeSet::difference(&wanted, &served).collect::<Vec<_>>(), [""; 0], "described and not served");

    let mut sampled = BTreeSet::new();
    for line in page.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (series, _) = line.rsplit_once(' ').unwrap();
        let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
        let is_its = |metric: &&&Metric| {
            let rest = name.strip_prefix(metric.name);
            rest.is_some_and(|rest| ["", "_bucket", "_sum", "_count"].contains(&rest))
        };
        let metric = described.iter().filter(is_its).max_by_key(|metric| metric.name.len()).unwrap();
        sampled.insert(metric.name);
        for label in labels.trim_end_matches('}').split(',').filter(|label| !label.is_empty()) {
            let (label, value) = label.split_once('=').unwrap();
            let listed = metric.labels.iter().find(|known| known.name == label).map(|known| known.values);
            let is_listed = |values: &[&str]| values.is_empty() || values.contains(&value.trim_matches('"'));
            assert!(label == "le" || listed.is_some_and(is_listed), "not in the table: {line}");
        }
    }
    let unsampled = described.iter().filter(|metric| !is_open(metric) && !sampled.contains(metric.name));
    assert_eq!(unsampled.map(|metric| metric.name).collect::<Vec<_>>(), [""; 0], "without a sample");
}

fn keeps_the_conventions_of_prometheus(page: &str) {
    let Some(promtool) = in_path(&["promtool"]) else { return missing("promtool", "prometheus") };
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), page).unwrap();
    let mut check = Command::new(promtool);
    check.args(["check", "metrics"]).stdin(Stdio::from(fs::File::open(file.path()).unwrap()));
    let run = check.output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
}
