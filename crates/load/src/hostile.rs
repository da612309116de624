//! Good clients alone, and then beside a crowd of hostile clients: latency, losses and memory.
//! `crowd` has the hostile clients, which need servers on this machine.

mod crowd;

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use serde::Serialize;
use signaling_devmesh::Server;
use tokio::time::{MissedTickBehavior, interval};

use crate::exchange::{Settings, TrafficOptions, play};
use crate::fleet::FleetOptions;
use crate::record::Record;
use crate::report::Report;
use crate::servers::{fetch, http, sum, usage};
use crowd::{Crowd, CrowdSize};

const SAMPLE_INTERVAL: Duration = Duration::from_millis(250);
const MIB: f64 = 1024.0 * 1024.0;
const BOUND: &str = "signaling_client_memory_bound_bytes";
const GAUGES: [&str; 3] = ["signaling_handshakes", "signaling_client_sockets", "signaling_client_buffered_bytes"];
const COUNTERS: [&str; 3] =
    ["signaling_refused_connects_total", "signaling_client_sockets_closed_total", "signaling_evicted_clients_total"];

/// Allowed ratio of the 99th percentile latency beside the crowd to the one without it.
const MAX_P99_RATIO: f64 = 2.0;

/// Options of `mesh-load hostile`.
#[derive(Clone, Debug, Args)]
pub struct Options {
    #[command(flatten)]
    pub(crate) fleet: FleetOptions,
    #[command(flatten)]
    traffic: TrafficOptions,
    /// Hostile connections that request a WebSocket at one byte per second and never use it; an
    /// ended one starts again
    #[arg(long, default_value_t = 5_000)]
    handshakes: u32,
    /// Hostile clients that send to themselves and never read; a closed one reconnects
    #[arg(long, default_value_t = 2_000)]
    deaf: u32,
    /// Fail when the good clients' 99th percentile latency beside the crowd is above this and above
    /// twice the one without the crowd, in milliseconds
    #[arg(long, default_value_t = 20.0)]
    max_p99_ms: f64,
}

impl Options {
    /// Returns the number of sockets of hostile clients.
    pub(crate) fn hostile_sockets(&self) -> u32 {
        self.handshakes + self.deaf
    }

    /// Returns the allowed 99th percentile latency beside the crowd, given the one without it.
    fn allowed_p99_us(&self, before_us: u64) -> u64 {
        (before_us as f64 * MAX_P99_RATIO).max(self.max_p99_ms * 1e3) as u64
    }
}

/// Runs the scenario. Fails if the options do not fit, clients of either kind cannot connect, or a
/// URL is not of the form `ws://ADDRESS:PORT`.
pub(crate) async fn run(options: &Options) -> Result<Report> {
    options.fleet.check_pairs(1)?;
    let mesh = options.fleet.mesh()?;
    let targets = targets(&options.fleet.bases(mesh.as_ref()))?;
    let expected = CrowdSize { handshakes: options.handshakes.into(), deaf: options.deaf.into() };
    let before = good_clients(options, "before", async { Ok(()) }).await?;

    let mut edges: Vec<_> = mesh.iter().flat_map(|mesh| &mesh.balancers).map(EdgeReport::new).collect();
    let mut sizes = Vec::new();
    let crowd = OnceCell::new();
    let gather = async {
        // It is set only once, so this cannot fail.
        let _ = crowd.set(Crowd::gather(expected, targets).await?);
        Ok(())
    };
    let count_crowd = || sizes.extend(crowd.get().map(Crowd::size));
    let meanwhile = tokio::select! {
        meanwhile = good_clients(options, "meanwhile", gather) => meanwhile?,
        never = observe(&mut edges, count_crowd) => match never? {},
    };
    drop(crowd);

    let allowed_p99_us = options.allowed_p99_us(before.times.latency.percentiles().p99);
    let mut report = Report::new("hostile");
    for (when, record) in [("before", &before), ("meanwhile", &meanwhile)] {
        let mut phase = Report::default();
        options.traffic.run.describe(&mut phase, options.fleet.clients, options.traffic.rate, record);
        record.judge(&mut phase, false);
        phase.fail_if(record.errors, "errors");
        report.set(when, &phase);
        phase.failures.iter().for_each(|failure| report.fail(format!("{when}: {failure}")));
    }
    let size = CrowdSize::mean(&sizes);
    report.set("allowed_p99_us", allowed_p99_us);
    report.set("crowd", size);
    report.set("edges", &edges);
    report.fail_above("latency", &meanwhile.times.latency, Some(allowed_p99_us as f64 / 1_000.0));
    size.failures(expected).chain(edges.iter().filter_map(EdgeReport::failure)).for_each(|text| report.fail(text));
    Ok(report)
}

fn targets(urls: &[String]) -> Result<Vec<SocketAddr>> {
    let address = |url: &String| {
        let address = url.trim_start_matches("ws://").trim_end_matches('/');
        address.parse().with_context(|| format!("`{url}`: hostile clients need a URL of the form ws://ADDRESS:PORT"))
    };
    urls.iter().map(address).collect()
}

/// Runs the load of the good clients once. They connect before `gather` is polled.
async fn good_clients(options: &Options, name: &str, gather: impl Future<Output = Result<()>>) -> Result<Record> {
    let traffic = &options.traffic;
    let fleet = FleetOptions { prefix: format!("{}-{name}", options.fleet.prefix), ..options.fleet.clone() };
    play(&fleet, Settings::new(&traffic.run, traffic.rate), traffic.size, fleet.plan()?, gather).await
}

/// Reads the edges periodically while it is polled, and calls `also` each time.
async fn observe(edges: &mut [EdgeReport], mut also: impl FnMut()) -> Result<Infallible> {
    let http = http()?;
    let mut ticks = interval(SAMPLE_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        ticks.tick().await;
        also();
        for edge in &mut *edges {
            if let Some(usage) = usage(edge.pid) {
                edge.resident_bytes = edge.resident_bytes.max(usage.rss_kib * 1024);
            }
            if let Ok(page) = fetch(&http, &edge.internal).await {
                edge.read(&page);
            }
        }
    }
}

/// Memory and metrics of one edge while the crowd is connected.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
struct EdgeReport {
    edge: String,
    #[serde(skip)]
    pid: u32,
    /// URL of its internal listener.
    #[serde(skip)]
    internal: String,
    /// Maximum resident memory, in bytes.
    resident_bytes: u64,
    /// Maximum memory by the edge's own bound, in bytes.
    bound_bytes: u64,
    highest: BTreeMap<&'static str, u64>,
    counted: BTreeMap<&'static str, u64>,
    #[serde(skip)]
    first: BTreeMap<&'static str, u64>,
}

impl EdgeReport {
    fn new(Server { id, internal, pid, .. }: &Server) -> Self {
        Self { edge: id.clone(), pid: *pid, internal: internal.clone(), ..Self::default() }
    }

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
    fn failure(&self) -> Option<String> {
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
    use crate::testing::options;

    #[test]
    fn larger_latency_limit_counts() {
        let options: Options = options(&[]).unwrap();

        assert_eq!([3_000, 15_000].map(|before_us| options.allowed_p99_us(before_us)), [20_000, 30_000]);
    }

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
