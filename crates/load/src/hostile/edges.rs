//! The edges of the mesh while the crowd is there.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::Duration;

use anyhow::Result;
use serde::Serialize;
use signaling_devmesh::MeshFile;
use tokio::time::{MissedTickBehavior, interval};

use crate::metrics::{fetch, http, sum};
use crate::procfs::usage;

const EVERY: Duration = Duration::from_millis(250);
/// What an edge says its clients can cost at most.
const BOUND: &str = "signaling_client_memory_bound_bytes";
/// Those that have highest values.
const GAUGES: [&str; 3] = ["signaling_handshakes", "signaling_client_sockets", "signaling_client_buffered_bytes"];
/// What is done to a crowd.
const COUNTERS: [&str; 3] =
    ["signaling_refused_connects_total", "signaling_client_sockets_closed_total", "signaling_evicted_clients_total"];

/// What was seen of all edges.
#[derive(Default)]
pub(crate) struct Edges {
    http: Option<reqwest::Client>,
    edges: Vec<(Server, Seen)>,
}

struct Server {
    internal: String,
    pid: u32,
}

/// What was seen of an edge.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Seen {
    pub(super) edge: String,
    /// The most memory in RAM that it had.
    pub(super) resident_bytes: u64,
    /// The most that it says its clients can make it have.
    pub(super) bound_bytes: u64,
    /// The highest that its gauges showed.
    pub(super) highest: BTreeMap<&'static str, u64>,
    /// What its counters rose by.
    pub(super) counted: BTreeMap<&'static str, u64>,
    #[serde(skip)]
    pub(super) first: BTreeMap<&'static str, u64>,
}

impl Edges {
    /// The balancers of a mesh; nothing is seen of one that is known by its address alone.
    pub(crate) fn of(mesh: Option<&MeshFile>) -> Result<Self> {
        let Some(mesh) = mesh else { return Ok(Self::default()) };
        let edges = mesh.balancers.iter().map(|balancer| {
            let server = Server { internal: balancer.internal.clone(), pid: balancer.pid };
            (server, Seen { edge: balancer.id.clone(), ..Seen::default() })
        });
        Ok(Self { http: Some(http()?), edges: edges.collect() })
    }

    /// Looks at them again and again, for as long as it is polled. `also` is called at each look.
    pub(crate) async fn look(&mut self, mut also: impl FnMut()) -> Infallible {
        let mut ticks = interval(EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            ticks.tick().await;
            also();
            for (server, seen) in &mut self.edges {
                if let Some(usage) = usage(server.pid) {
                    seen.resident_bytes = seen.resident_bytes.max(usage.rss_kib * 1024);
                }
                if let Some(http) = &self.http
                    && let Ok(page) = fetch(http, &server.internal).await
                {
                    seen.take(&page);
                }
            }
        }
    }

    /// What was seen, edge by edge.
    pub(crate) fn seen(self) -> Vec<Seen> {
        self.edges.into_iter().map(|(_, seen)| seen).collect()
    }
}

impl Seen {
    fn take(&mut self, page: &str) {
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gauges_show_their_highest_and_counters_what_they_rose_by() {
        let mut seen = Seen::default();
        for (handshakes, refused) in [(5, 100), (9, 103), (2, 110)] {
            seen.take(&format!(
                "signaling_handshakes {handshakes}\nsignaling_refused_connects_total{{reason=\"rate\"}} {refused}\n\
                 {BOUND} 4096\n"
            ));
        }

        assert_eq!(seen.highest["signaling_handshakes"], 9);
        assert_eq!(seen.counted["signaling_refused_connects_total"], 10);
        assert_eq!(seen.bound_bytes, 4096);
    }
}
