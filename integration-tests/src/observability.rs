//! What the code says of metrics, and what servers serve.

use std::collections::{BTreeMap, BTreeSet};

use signaling_metrics::{Metric, Section};
use signaling_server::process;

use crate::http::get;

/// All metrics, as the table in `docs/METRICS.md` has them.
#[must_use]
pub fn catalogue() -> Vec<Section<'static>> {
    let section = |title, about, metrics| Section { title, about, metrics };
    vec![
        section(
            "Edges: client to edge, and back",
            "Served by balancers, and by nodes with `--public` for the clients that come to them directly.",
            signaling_edge::shell::metrics::METRICS,
        ),
        section(
            "Balancers: edge to node",
            "Served by balancers, beside what all servers serve of trunks.",
            signaling_balancer::metrics::METRICS,
        ),
        section(
            "Nodes: sessions, messages, forwards to other nodes, rooms and their store",
            "Served by nodes.",
            signaling_node::shell::metrics::METRICS,
        ),
        section(
            "Discovery",
            "Served by all servers whose source of views can change.",
            signaling_discovery::metrics::METRICS,
        ),
        section(
            "Peers behind the same front",
            "Served by balancers; 0 where they have no `--balancer-discovery`.",
            signaling_discovery::metrics::METRICS_OF_PEERS,
        ),
        section(
            "Readiness by load",
            "Served by servers with `--unready-above-percent`.",
            signaling_server::load_readiness::METRICS,
        ),
        section("All servers", "Trunks are counted at both of their ends.", signaling_server::metrics::METRICS),
        section("Processes", "Served by all servers, as by all programs that Prometheus knows.", process::METRICS),
    ]
}

/// What a balancer serves.
#[must_use]
pub fn of_balancers() -> Vec<&'static Metric> {
    [
        of_all(),
        signaling_edge::shell::metrics::METRICS.iter().collect(),
        signaling_balancer::metrics::METRICS.iter().collect(),
        signaling_discovery::metrics::METRICS_OF_PEERS.iter().collect(),
    ]
    .concat()
}

/// What a node with a public listener serves.
#[must_use]
pub fn of_nodes() -> Vec<&'static Metric> {
    [
        of_all(),
        signaling_edge::shell::metrics::METRICS.iter().collect(),
        signaling_node::shell::metrics::METRICS.iter().collect(),
    ]
    .concat()
}

fn of_all() -> Vec<&'static Metric> {
    [signaling_discovery::metrics::METRICS, signaling_server::metrics::METRICS, process::METRICS]
        .into_iter()
        .flatten()
        .collect()
}

/// A page of metrics.
pub struct MetricsPage(String);

/// One metric of a page.
#[derive(Debug, Default)]
pub struct Family {
    /// Its type.
    pub kind: String,
    /// What is said of it.
    pub help: String,
    /// How many samples it has.
    pub samples: usize,
    /// Labels and their values, but for the bounds of buckets.
    pub labels: BTreeSet<(String, String)>,
}

/// The page that the server with this internal listener serves now.
pub async fn page_of(internal: &str) -> MetricsPage {
    MetricsPage(get(internal, "/metrics").await.body)
}

impl MetricsPage {
    /// Its metrics by name.
    ///
    /// # Panics
    /// If a line is none of the format.
    #[must_use]
    pub fn families(&self) -> BTreeMap<String, Family> {
        let mut families = BTreeMap::<String, Family>::new();
        for line in self.0.lines().filter(|line| !line.is_empty()) {
            if let Some(rest) = line.strip_prefix("# HELP ") {
                let (name, help) = rest.split_once(' ').unwrap();
                families.entry(name.to_owned()).or_default().help = help.to_owned();
            } else if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').unwrap();
                families.entry(name.to_owned()).or_default().kind = kind.to_owned();
            } else {
                let (series, _) = line.rsplit_once(' ').unwrap();
                let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
                let of_times = ["_bucket", "_sum", "_count"].iter().find_map(|suffix| name.strip_suffix(suffix));
                let family = of_times.filter(|base| families.contains_key(*base)).unwrap_or(name);
                let family = families.entry(family.to_owned()).or_default();
                family.samples += 1;
                for label in labels.trim_end_matches('}').split(',').filter(|label| !label.is_empty()) {
                    let (label, value) = label.split_once('=').unwrap();
                    if label != "le" {
                        family.labels.insert((label.to_owned(), value.trim_matches('"').to_owned()));
                    }
                }
            }
        }
        families
    }
}
