//! Memory and metrics of the mesh's edges while the crowd is connected.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::Duration;

use anyhow::Result;
use serde::Serialize;
use signaling_devmesh::{BalancerEntry, MeshFile};
use tokio::time::{MissedTickBehavior, interval};

use crate::costs::usage;
use crate::metrics::{fetch, http, sum};

const SAMPLE_INTERVAL: Duration = Duration::from_millis(250);
const MIB: f64 = 1024.0 * 1024.0;
/// Metric with the maximum memory for an edge's clients.
const BOUND: &str = "signaling_client_memory_bound_bytes";
const GAUGES: [&str; 3] = ["signaling_handshakes", "signaling_client_sockets", "signaling_client_buffered_bytes"];
const COUNTERS: [&str; 3] =
    ["signaling_refused_connects_total", "signaling_client_sockets_closed_total", "signaling_evicted_clients_total"];

pub(super) struct Edges {
    http: reqwest::Client,
    edges: Vec<(BalancerEntry, EdgeReport)>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct EdgeReport {
    edge: String,
    /// Maximum resident memory, in bytes.
    resident_bytes: u64,
    /// Maximum memory by the edge's own bound, in bytes.
    bound_bytes: u64,
    /// Maximum values of its gauges.
    highest: BTreeMap<&'static str, u64>,
    /// Increases of its counters.
    counted: BTreeMap<&'static str, u64>,
    #[serde(skip)]
    first: BTreeMap<&'static str, u64>,
}

impl Edges {
    /// Returns the balancers of a mesh. Without a mesh file it observes no server.
    pub(super) fn of(mesh: Option<&MeshFile>) -> Result<Self> {
        let report =
            |edge: &BalancerEntry| (edge.clone(), EdgeReport { edge: edge.id.clone(), ..EdgeReport::default() });
        let edges = mesh.iter().flat_map(|mesh| &mesh.balancers).map(report).collect();
        Ok(Self { http: http()?, edges })
    }

    /// Reads the edges periodically while it is polled, and calls `also` each time.
    pub(super) async fn observe(&mut self, mut also: impl FnMut()) -> Infallible {
        let mut ticks = interval(SAMPLE_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            ticks.tick().await;
            also();
            for (server, report) in &mut self.edges {
                if let Some(usage) = usage(server.pid) {
                    report.resident_bytes = report.resident_bytes.max(usage.rss_kib * 1024);
                }
                if let Ok(page) = fetch(&self.http, &server.internal).await {
                    report.read(&page);
                }
            }
        }
    }

    pub(super) fn reports(self) -> Vec<EdgeReport> {
        self.edges.into_iter().map(|(_, report)| report).collect()
    }
}

impl EdgeReport {
    fn read(&mut self, page: &str) {
        self.bound_bytes = sum(page, BOUND);
        for name in GAUGES {
            let highest = self.highest.entry(name).or_default();
            *highest = sum(page, name).max(*highest);
        }
        for name in COUNTERS {
            let now = sum(page, name);
            let first = *self.first.entry(name).or_insert(now);
            self.counted.insert(name, now.saturating_sub(first));
        }
    }

    /// Returns the failure that its memory usage shows, if any.
    pub(super) fn failure(&self) -> Option<String> {
        let Self { edge, resident_bytes, bound_bytes, .. } = self;
        if *bound_bytes == 0 {
            return Some(format!("{edge} does not report a bound of the memory for its clients"));
        }
        let is_too_much = resident_bytes > bound_bytes;
        is_too_much.then(|| {
            let (had, bound) = (*resident_bytes as f64 / MIB, *bound_bytes as f64 / MIB);
            format!("{edge} used {had:.0} MiB, above its own bound of {bound:.0} MiB")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gauges_show_their_highest_and_counters_what_they_rose_by() {
        let mut report = EdgeReport::default();
        for (handshakes, refused) in [(5, 100), (9, 103), (2, 110)] {
            report.read(&format!(
                "signaling_handshakes {handshakes}\nsignaling_refused_connects_total{{reason=\"rate\"}} {refused}\n\
                 {BOUND} 4096\n"
            ));
        }

        assert_eq!(report.highest["signaling_handshakes"], 9);
        assert_eq!(report.counted["signaling_refused_connects_total"], 10);
        assert_eq!(report.bound_bytes, 4096);
    }

    #[test]
    fn edge_above_its_stated_bound_or_without_one_fails() {
        let report = |resident_bytes, bound_bytes| EdgeReport { resident_bytes, bound_bytes, ..EdgeReport::default() };

        assert_eq!(report(1, 1).failure(), None);
        assert!(report(2 << 20, 1 << 20).failure().is_some_and(|text| text.contains("2 MiB")));
        assert!(report(1, 0).failure().is_some());
    }
}
