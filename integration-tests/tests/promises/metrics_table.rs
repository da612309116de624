//! The table in `docs/METRICS.md` has the declared metrics, which are the served ones.
//!
//! `WRITE_METRICS=1 cargo test -p signaling-integration-tests --test promises metrics_table` writes
//! the table anew.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::process::{Command, Stdio};

use serde_json::json;
use signaling_balancer::metrics::BalancerMetrics;
use signaling_discovery::metrics::DiscoveryMetrics;
use signaling_edge::dialect_metrics::DialectMetrics;
use signaling_edge::metrics::EdgeMetrics;
use signaling_integration_tests::{Peer, TestMesh, assert_document, exchange, get, program};
use signaling_metrics::{Registry, page};
use signaling_node::metrics::NodeMetrics;
use signaling_server::load_readiness::LoadReadinessMetrics;
use signaling_server::metrics::ServerMetrics;
use signaling_server::process::ProcessMetrics;

const HEAD: &str = "# Metrics

Servers serve these metrics on `/metrics` of the internal listener, in Prometheus' text format. A
test writes this page from the code and compares it with real servers:
`WRITE_METRICS=1 cargo test -p signaling-integration-tests --test promises metrics_table`.

Every series exists from the start, with every label value; counters and histograms begin at 0.
Histograms are in seconds, with buckets from 0.1 ms to 30 s. The maximum of a gauge has its name and
`_limit`.
[RUNBOOK.md](RUNBOOK.md) has an entry per alert.
[grafana.json](../deploy/observability/grafana.json) shows latency, traffic, errors and saturation
by hop.
";

/// A section of the table, and the servers of a test mesh that serve it.
struct Section {
    title: &'static str,
    about: &'static str,
    /// The page of a server that has just started.
    page: String,
    nodes: bool,
    balancers: bool,
}

fn sections() -> [Section; 8] {
    fn section<M>(
        title: &'static str,
        about: &'static str,
        register: fn(&mut Registry) -> M,
        [nodes, balancers]: [bool; 2],
    ) -> Section {
        let mut registry = Registry::default();
        register(&mut registry);
        Section { title, about, page: page(&registry), nodes, balancers }
    }
    let edges = "Served by balancers, and by nodes with `--public-listen`, for their clients.";
    let nodes = "Nodes: sessions, messages, lanes and rooms";
    let discovery = "Served by all servers whose nodes can change.";
    let load = "Served by servers with `--unready-above-percent`.";
    let processes = "Served by all servers, under the names common to programs for Prometheus.";
    [
        section("Edges: client to edge, and back", edges, EdgeMetrics::register, [true, true]),
        section("Edges: clients of dialects", edges, DialectMetrics::register, [true, true]),
        section("Balancers: edge to node", "Served by balancers.", BalancerMetrics::register, [false, true]),
        section(nodes, "Served by nodes.", NodeMetrics::register, [true, false]),
        section("Discovery", discovery, DiscoveryMetrics::register, [true, true]),
        section("Readiness by load", load, LoadReadinessMetrics::register, [false, false]),
        section("All servers", "Both ends of a trunk count it.", ServerMetrics::register, [true, true]),
        section("Processes", processes, ProcessMetrics::register, [true, true]),
    ]
}

/// Labels of a metric, each with its values.
type Labels<'a> = Vec<(&'a str, Vec<&'a str>)>;

/// Writes one row per metric of a page, by name.
fn rows(page: &str) -> String {
    let mut rows: BTreeMap<&str, (&str, &str, Labels<'_>)> = BTreeMap::new();
    for line in page.lines() {
        let (first, rest) = line.split_once(' ').unwrap();
        match (first, line.split_once('{')) {
            ("#", _) => {
                let (name, text) = rest.split_once(' ').unwrap().1.split_once(' ').unwrap();
                let row = rows.entry(name).or_default();
                *(if rest.starts_with("HELP") { &mut row.1 } else { &mut row.0 }) = text;
            }
            (_, Some((name, labels))) if !labels.starts_with("le=") => {
                let known = &mut rows.get_mut(name).unwrap().2;
                for (label, value) in labels.split("\",").map(|label| label.split_once("=\"").unwrap()) {
                    let value = value.split('"').next().unwrap();
                    match known.iter_mut().find(|(name, _)| *name == label) {
                        Some((_, values)) if !values.contains(&value) => values.push(value),
                        Some(_) => {}
                        None => known.push((label, vec![value])),
                    }
                }
            }
            _ => {}
        }
    }
    let list = |(label, values): (&str, Vec<&str>)| format!("`{label}`: {}", values.join(", "));
    let mut written = String::new();
    for (name, (kind, help, labels)) in rows {
        let labels: Vec<_> = labels.into_iter().map(list).collect();
        writeln!(written, "| `{name}` | {kind} | {} | {help} |", labels.join("; ")).unwrap();
    }
    written
}

#[test]
fn metrics_page_matches_the_code() {
    let mut written = HEAD.to_owned();
    for Section { title, about, page, .. } in sections() {
        let head = "| metric | type | labels | what |\n|---|---|---|---|";
        write!(written, "\n## {title}\n\n{about}\n\n{head}\n{}", rows(&page)).unwrap();
    }
    assert_document("docs/METRICS.md", &written, "WRITE_METRICS");
}

#[tokio::test]
async fn servers_serve_exactly_the_metrics_of_the_table() {
    let mesh = TestMesh::with_servers((2, 1), &[], &[]).await;
    // A call, a room, and refusals.
    let mut ada = mesh.peer_owned_by("node-0", "ada").await;
    let mut bob = mesh.peer_owned_by("node-1", "bob").await;
    exchange((&mut ada, &mut bob), &json!("hello"), 1).await;
    ada.send(&json!({ "type": "join", "room": "den", "id": 2 })).await;
    ada.send(&json!({ "type": "nonsense", "id": 3 })).await;
    ada.recv_type("error").await;
    assert!(Peer::open(&mesh.url(), "not,an,id", "").await.is_err());

    let state = mesh.state();
    let nodes = state.nodes.iter().map(|node| (&node.internal, true));
    let balancers = state.balancers.iter().map(|balancer| (&balancer.internal, false));
    for (internal, is_node) in nodes.chain(balancers) {
        let page = get(internal, "/metrics").await.body;
        let expected = sections().into_iter().filter(|section| if is_node { section.nodes } else { section.balancers });
        let expected: String = expected.map(|section| section.page).collect();
        assert_eq!(series(&page).symmetric_difference(&series(&expected)).copied().collect::<Vec<_>>(), [""; 0]);
        keeps_the_conventions_of_prometheus(&page);
    }
}

/// Returns the descriptions and the series of a page, without values.
fn series(page: &str) -> BTreeSet<&str> {
    page.lines().map(|line| if line.starts_with('#') { line } else { line.rsplit_once(' ').unwrap().0 }).collect()
}

fn keeps_the_conventions_of_prometheus(page: &str) {
    let Some(promtool) = program(&["promtool"], "prometheus") else { return };
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), page).unwrap();
    let mut check = Command::new(promtool);
    check.args(["check", "metrics"]).stdin(Stdio::from(fs::File::open(file.path()).unwrap()));
    let run = check.output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
}
