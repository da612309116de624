//! Good clients alone, and then beside a crowd of hostile clients: latency, losses and memory.
//!
//! | module | content |
//! |---|---|
//! | `crowd` | the hostile clients |
//! | `edges` | metrics and memory of the edges during the run |

mod crowd;
mod edges;

use std::cell::OnceCell;
use std::net::SocketAddr;

use anyhow::{Context, Result};
use clap::Args;
use signaling_devmesh::MeshFile;

use crate::exchange::{Pairs, Settings, TrafficOptions, play};
use crate::fleet::FleetOptions;
use crate::record::Record;
use crate::report::Report;
use crowd::{Crowd, CrowdSize};
use edges::{EdgeReport, Edges};

/// Allowed ratio of the 99th percentile latency beside the crowd to the one without it.
const MAX_P99_RATIO: f64 = 2.0;

/// Options of `mesh-load hostile`.
#[derive(Clone, Debug, Args)]
pub struct Options {
    #[command(flatten)]
    pub(crate) fleet: FleetOptions,
    #[command(flatten)]
    traffic: TrafficOptions,
    /// Hostile connections that request a WebSocket byte by byte and never end; a closed one starts
    /// again
    #[arg(long, default_value_t = 5_000)]
    handshakes: u32,
    /// Hostile clients that send to themselves and never read; a closed one reconnects
    #[arg(long, default_value_t = 2_000)]
    deaf: u32,
    /// Fail when the 99th percentile latency of the good clients beside the crowd is above this and
    /// above twice the one without the crowd, in milliseconds
    #[arg(long, default_value_t = 20.0)]
    max_p99_ms: f64,
}

impl Options {
    /// Returns the number of sockets of hostile clients.
    pub(crate) fn hostile_sockets(&self) -> u32 {
        self.handshakes + self.deaf
    }

    /// Returns the allowed 99th percentile latency for the one without the crowd.
    fn allowed_p99_us(&self, before_us: u64) -> u64 {
        (before_us as f64 * MAX_P99_RATIO).max(self.max_p99_ms * 1e3) as u64
    }
}

/// Runs the scenario.
pub(crate) async fn run(options: &Options) -> Result<Report> {
    options.fleet.check_pairs(1)?;
    let mesh = options.fleet.mesh()?;
    let targets = targets(&options.fleet, mesh.as_ref())?;
    let expected = CrowdSize { handshakes: options.handshakes.into(), deaf: options.deaf.into() };
    let before = good_clients(options, "before", async { Ok(()) }).await?;

    let (mut edges, mut sizes) = (Edges::of(mesh.as_ref())?, Vec::new());
    let crowd = OnceCell::new();
    let gather = async {
        // It is set only once, so this cannot fail.
        let _ = crowd.set(Crowd::gather(expected, targets).await?);
        Ok(())
    };
    let count_crowd = || sizes.extend(crowd.get().map(Crowd::size));
    let meanwhile = tokio::select! {
        meanwhile = good_clients(options, "meanwhile", gather) => meanwhile?,
        never = edges.observe(count_crowd) => match never {},
    };
    crowd.into_inner().map_or(Ok(()), Crowd::disperse)?;

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
    let (size, edges) = (CrowdSize::mean(&sizes), edges.reports());
    report.set("allowed_p99_us", allowed_p99_us);
    report.set("crowd", size);
    report.set("edges", &edges);
    report.fail_above("latency", &meanwhile.times.latency, Some(allowed_p99_us as f64 / 1_000.0));
    size.failures(expected).chain(edges.iter().filter_map(EdgeReport::failure)).for_each(|text| report.fail(text));
    Ok(report)
}

/// Returns the addresses of all edges that the good clients connect to.
fn targets(fleet: &FleetOptions, mesh: Option<&MeshFile>) -> Result<Vec<SocketAddr>> {
    let urls = match mesh {
        Some(mesh) if fleet.urls.is_empty() => mesh.balancers.iter().map(|balancer| balancer.url.clone()).collect(),
        _ => fleet.urls.clone(),
    };
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
    play(&fleet, Settings::new(&traffic.run, traffic.rate), Pairs::new(fleet.clients, traffic), gather).await
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::testing::options;

    #[test]
    fn larger_latency_limit_counts() {
        let options: Options = options(&[]).unwrap();

        assert_eq!([3_000, 15_000].map(|before_us| options.allowed_p99_us(before_us)), [20_000, 30_000]);
    }
}
