//! Memory and metrics of the servers while the crowd is connected, and what they show.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::Duration;

use anyhow::Result;
use serde::Serialize;
use signaling_devmesh::Server;
use tokio::time::{MissedTickBehavior, interval};

use crate::servers::{fetch, http, series, sum, usage};

const SAMPLE_INTERVAL: Duration = Duration::from_millis(250);
const MIB: f64 = 1024.0 * 1024.0;

/// Allowed ratio of a node's growth to its bound of the memory for rooms.
const MAX_NODE_GROWTH: f64 = 1.2;

/// Kind of a server, which decides its metrics and its judgment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Kind {
    #[default]
    Edge,
    Node,
}

/// Memory and metrics of one server while the crowd is connected.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct ServerReport {
    server: String,
    #[serde(skip)]
    pub(super) kind: Kind,
    #[serde(skip)]
    pid: u32,
    #[serde(skip)]
    internal: String,
    has_ended: bool,
    /// Resident memory at the first reading, in bytes. `None` before it.
    resident_bytes_before: Option<u64>,
    /// Maximum resident memory, in bytes.
    resident_bytes: u64,
    /// Maximum memory by the server's own bound, in bytes: of an edge with its clients, or of a
    /// node's rooms. `None`: it reports none.
    bound_bytes: Option<u64>,
    /// Highest values of gauges that the server has.
    highest: BTreeMap<&'static str, u64>,
    /// Growth of counters, by series.
    counted: BTreeMap<String, u64>,
    /// Counters at the first reading.
    #[serde(skip)]
    first: Option<BTreeMap<String, u64>>,
}

impl Kind {
    fn bound(self) -> &'static str {
        match self {
            Self::Edge => "signaling_client_memory_bound_bytes",
            Self::Node => "signaling_room_bytes_limit",
        }
    }

    fn gauges(self) -> &'static [&'static str] {
        match self {
            Self::Edge => &["signaling_handshakes", "signaling_client_sockets", "signaling_client_buffered_bytes"],
            Self::Node => &["signaling_room_bytes", "signaling_rooms_owned", "signaling_room_seats"],
        }
    }

    fn counters(self) -> &'static [&'static str] {
        match self {
            Self::Edge => &[
                "signaling_refused_connects_total",
                "signaling_client_sockets_closed_total",
                "signaling_evicted_clients_total",
            ],
            Self::Node => &["signaling_refused_joins_total", "signaling_requests_refused_total"],
        }
    }
}

/// Reads the servers periodically while it is polled, and calls `also` each time.
pub(super) async fn observe(servers: &mut [ServerReport], mut also: impl FnMut()) -> Result<Infallible> {
    let http = http()?;
    let mut ticks = interval(SAMPLE_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        ticks.tick().await;
        also();
        for server in &mut *servers {
            server.used(usage(server.pid).map(|usage| usage.rss_kib * 1024));
            if let Ok(page) = fetch(&http, &server.internal).await {
                server.read(&page);
            }
        }
    }
}

impl ServerReport {
    pub(super) fn new(kind: Kind, Server { id, internal, pid, .. }: &Server) -> Self {
        Self { server: id.clone(), kind, pid: *pid, internal: internal.clone(), ..Self::default() }
    }

    /// Records the resident memory in bytes; `None`: the process has ended.
    fn used(&mut self, bytes: Option<u64>) {
        let Some(bytes) = bytes else { return self.has_ended = true };
        self.resident_bytes_before.get_or_insert(bytes);
        self.resident_bytes = self.resident_bytes.max(bytes);
    }

    fn read(&mut self, page: &str) {
        self.bound_bytes = Some(sum(page, self.kind.bound())).filter(|bound| *bound > 0);
        for name in self.kind.gauges() {
            if series(page, name).next().is_some() {
                let highest = self.highest.entry(name).or_default();
                *highest = sum(page, name).max(*highest);
            }
        }
        let counters = self.kind.counters().iter().flat_map(|name| series(page, name));
        let now: BTreeMap<_, _> = counters.map(|(series, value)| (series.to_owned(), value)).collect();
        let first = self.first.get_or_insert_with(|| now.clone());
        let growth = |(series, value): (String, u64)| {
            let growth = value.saturating_sub(first.get(&series).copied().unwrap_or(0));
            (growth > 0).then_some((series, growth))
        };
        self.counted = now.into_iter().filter_map(growth).collect();
    }

    /// Returns the failure that its end or memory shows, if any. A node without a bound has none.
    pub(super) fn failure(&self) -> Option<String> {
        let Self { server, resident_bytes, .. } = self;
        if self.has_ended {
            return Some(format!("{server} has ended"));
        }
        let had = *resident_bytes as f64 / MIB;
        match (self.kind, self.bound_bytes) {
            (Kind::Edge, None) => Some(format!("{server} does not report a bound of the memory for its clients")),
            (Kind::Edge, Some(bound)) => (*resident_bytes > bound)
                .then(|| format!("{server} used {had:.0} MiB, above its own bound of {:.0} MiB", bound as f64 / MIB)),
            (Kind::Node, None) => None,
            (Kind::Node, Some(bound)) => {
                let growth = resident_bytes.saturating_sub(self.resident_bytes_before.unwrap_or(0)) as f64;
                let allowed = bound as f64 * MAX_NODE_GROWTH;
                (growth > allowed).then(|| {
                    let (growth, allowed) = (growth / MIB, allowed / MIB);
                    format!("{server} grew by {growth:.0} MiB, above {allowed:.0} MiB, its bound of rooms plus 20%")
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gauges_show_their_highest_and_counters_what_they_rose_by() {
        let mut report = ServerReport::default();
        for (handshakes, refused) in [(5, 100), (9, 103), (2, 110)] {
            report.read(&format!(
                "signaling_handshakes {handshakes}\nsignaling_refused_connects_total{{reason=\"rate\"}} {refused}\n\
                 signaling_refused_connects_total{{reason=\"sockets\"}} 7\nsignaling_client_memory_bound_bytes 4096\n"
            ));
        }

        assert_eq!(report.highest, BTreeMap::from([("signaling_handshakes", 9)]));
        let refused = "signaling_refused_connects_total{reason=\"rate\"}".to_owned();
        assert_eq!(report.counted, BTreeMap::from([(refused, 10)]));
        assert_eq!(report.bound_bytes, Some(4096));
    }

    #[test]
    fn counter_that_begins_later_counts_from_0() {
        let mut report = ServerReport { kind: Kind::Node, ..ServerReport::default() };
        let refused = "signaling_refused_joins_total{limit=\"new_rooms\"}";
        for page in [String::new(), format!("{refused} 3\n")] {
            report.read(&page);
        }

        assert_eq!((report.counted[refused], report.bound_bytes), (3, None));
    }

    /// Kind of a server, its bound and readings in MiB (`None`: it has ended), and a part of the
    /// failure.
    type Case<'a> = (Kind, Option<u64>, &'a [Option<u64>], Option<&'a str>);

    #[test]
    fn server_fails_by_its_end_or_by_memory_above_its_bound() {
        let cases: [Case<'_>; 8] = [
            (Kind::Edge, Some(10), &[Some(10)], None),
            (Kind::Edge, Some(10), &[Some(11), Some(3)], Some("11 MiB")),
            (Kind::Edge, None, &[Some(1)], Some("does not report a bound")),
            (Kind::Edge, Some(10), &[Some(1), None], Some("ended")),
            (Kind::Node, Some(10), &[Some(50), Some(62), Some(20)], None),
            (Kind::Node, Some(10), &[Some(50), Some(63)], Some("13 MiB")),
            (Kind::Node, None, &[Some(50), Some(900)], None),
            (Kind::Node, Some(10), &[Some(1), None], Some("ended")),
        ];
        for (kind, bound_mib, used_mib, expected) in cases {
            let bound_bytes = bound_mib.map(|mib| mib << 20);
            let mut report = ServerReport { kind, bound_bytes, ..ServerReport::default() };
            used_mib.iter().for_each(|mib| report.used(mib.map(|mib| mib << 20)));
            let failure = report.failure();
            let Some(part) = expected else {
                assert_eq!(failure, None);
                continue;
            };
            assert!(failure.as_deref().is_some_and(|text| text.contains(part)), "{part}: {failure:?}");
        }
    }
}
