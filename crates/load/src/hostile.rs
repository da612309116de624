//! Good clients alone, and then beside a crowd of hostile clients: latency, losses and memory.
//! `crowd` has the hostile clients, which need servers on this machine.

mod bursts;
mod crowd;
mod makers;
mod watch;

use std::cell::OnceCell;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, Result};
use clap::Args;
use signaling_devmesh::MeshFile;
use tokio::sync::Barrier;

use crate::exchange::{Settings, TrafficOptions, play};
use crate::fleet::FleetOptions;
use crate::latency::Percentiles;
use crate::record::Record;
use crate::report::Report;
use crate::rooms::{self, set_capacity};
use crate::token::TokenKey;
use bursts::queue_room;
use crowd::{Crowd, CrowdSize};
use makers::Makers;
use watch::{Kind, ServerReport, observe};

/// Allowed ratio of the 99th percentile latency beside the crowd to the one without it.
const MAX_P99_RATIO: f64 = 2.0;
/// Intended ratio.
const TARGET_P99_RATIO: f64 = 1.2;
/// Intended 99th percentile of the good clients' joins beside the crowd.
const TARGET_JOIN_P99_US: u64 = 10_000;
/// Maximum number of further good clients, which enter and leave rooms.
const MAX_VISITORS: u32 = 200;

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
    /// Hostile clients that make rooms as fast as they can (0 to 10,000): rooms with 4 KB of data,
    /// rooms left at once, a waiting queue, lists of members, 60 KB of data. With `mesh-dev up
    /// --tokens` the first 12 share one token by y-webrtc, and all others have their own; else each
    /// connection has a new client id. They run at the lowest priority, nice 19, and stop after
    /// 2,000,000 requests
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=10_000))]
    room_makers: u32,
    /// Fail when the good clients' 99th percentile latency beside the crowd is above this and above
    /// twice the one without the crowd, in milliseconds. Fail too when their median join takes more
    /// than half of it, a server ends, or a node grows by more than its limit of rooms plus 20%.
    /// The report also has PASS or FAIL for two targets that fail no run: joins within 10 ms (99th
    /// percentile), and latency within 1.2 times the one without the crowd
    #[arg(long, default_value_t = 20.0)]
    max_p99_ms: f64,
}

impl Options {
    /// Returns the number of sockets of hostile clients and of good clients in rooms.
    pub(crate) fn further_sockets(&self) -> u32 {
        self.handshakes + self.deaf + self.room_makers + self.visitors()
    }

    fn visitors(&self) -> u32 {
        self.fleet.clients.min(MAX_VISITORS)
    }

    fn allowed_p99_us(&self, before_us: u64) -> u64 {
        (before_us as f64 * MAX_P99_RATIO).max(self.max_p99_ms * 1e3) as u64
    }

    fn join_failure(&self, joins: &Percentiles) -> Option<String> {
        let (median_ms, limit_ms) = (joins.p50 as f64 / 1e3, self.max_p99_ms / 2.0);
        let is_slow = joins.count == 0 || median_ms > limit_ms;
        is_slow.then(|| format!("median of {} joins is {median_ms:.1} ms, above {limit_ms} ms", joins.count))
    }

    fn makers(&self, mesh: Option<&MeshFile>) -> Result<Makers> {
        Ok(Makers {
            bases: self.fleet.bases(mesh),
            clients: self.room_makers,
            prefix: format!("{}-maker", self.fleet.prefix),
            tokens: TokenKey::of(mesh)?,
            tally: Arc::default(),
        })
    }
}

/// Runs the scenario. Fails if the options do not fit, clients of either kind cannot connect, or a
/// URL is not of the form `ws://ADDRESS:PORT`.
pub(crate) async fn run(options: &Options) -> Result<Report> {
    options.fleet.check_pairs(1)?;
    let mesh = options.fleet.mesh()?;
    let targets = targets(&options.fleet.bases(mesh.as_ref()))?;
    let makers = options.makers(mesh.as_ref())?;
    let expected = CrowdSize { handshakes: options.handshakes.into(), deaf: options.deaf.into() };
    let before = good_clients(options, "before", async { Ok(()) }).await?;

    let reports = |kind, servers: fn(&MeshFile) -> &[_]| {
        mesh.iter().flat_map(servers).map(move |server| ServerReport::new(kind, server)).collect::<Vec<_>>()
    };
    let mut servers = reports(Kind::Edge, |mesh| &mesh.balancers);
    servers.extend(reports(Kind::Node, |mesh| &mesh.nodes));
    let mut sizes = Vec::new();
    let crowd = OnceCell::new();
    let gather = async {
        if makers.clients > 0 && mesh.is_some() {
            set_capacity(mesh.as_ref(), &queue_room(&makers.prefix), 1).await?;
        }
        // It is set only once, so this cannot fail.
        let _ = crowd.set(Crowd::gather(expected, targets, makers.clone()).await?);
        Ok(())
    };
    let count_crowd = || sizes.extend(crowd.get().map(Crowd::size));
    let meanwhile = tokio::select! {
        meanwhile = good_clients(options, "meanwhile", gather) => meanwhile?,
        never = observe(&mut servers, count_crowd) => match never? {},
    };
    drop(crowd);

    let p99_before_us = before.messages.times.latency.percentiles().p99;
    let allowed_p99_us = options.allowed_p99_us(p99_before_us);
    let mut report = Report::new("hostile");
    for (when, good) in [("before", &before), ("meanwhile", &meanwhile)] {
        let mut phase = Report::default();
        options.traffic.run.describe(&mut phase, options.fleet.clients, options.traffic.rate, &good.messages);
        good.messages.judge(&mut phase, false);
        phase.fail_if(good.messages.errors, "errors");
        report.set(when, &phase);
        let mut rooms = Report::default();
        good.visits.describe(&mut rooms);
        report.set(&format!("rooms_{when}"), &rooms);
        let failures = phase.failures.iter().chain(&good.room_failures);
        failures.for_each(|failure| report.fail(format!("{when}: {failure}")));
    }
    let (size, tally) = (CrowdSize::mean(&sizes), makers.counts());
    let (joins, latency) = (meanwhile.visits.times.join.percentiles(), &meanwhile.messages.times.latency);
    report.set("allowed_p99_us", allowed_p99_us);
    report.set("crowd", size);
    report.set("room_makers", &tally);
    for (name, kind) in [("edges", Kind::Edge), ("nodes", Kind::Node)] {
        report.set(name, servers.iter().filter(|server| server.kind == kind).collect::<Vec<_>>());
    }
    let target_us = (p99_before_us as f64 * TARGET_P99_RATIO) as u64;
    report.set("target_join_p99", target(&joins, TARGET_JOIN_P99_US));
    report.set("target_latency_p99", target(&latency.percentiles(), target_us));
    report.fail_above("latency", latency, Some(allowed_p99_us as f64 / 1_000.0));
    let failures = size.failures(expected).chain(servers.iter().filter_map(ServerReport::failure));
    failures
        .chain(tally.failures(makers.clients))
        .chain(options.join_failure(&joins))
        .for_each(|text| report.fail(text));
    Ok(report)
}

/// Returns a line that begins with `PASS` if there are times and their 99th percentile is at most
/// the target.
fn target(times: &Percentiles, at_most_us: u64) -> String {
    let verdict = if times.count > 0 && times.p99 <= at_most_us { "PASS" } else { "FAIL" };
    let [is_ms, target_ms] = [times.p99, at_most_us].map(|us| us as f64 / 1e3);
    format!("{verdict}: p99 of {} is {is_ms:.1} ms, target at most {target_ms:.1} ms", times.count)
}

fn targets(urls: &[String]) -> Result<Vec<SocketAddr>> {
    let address = |url: &String| {
        let address = url.trim_start_matches("ws://").trim_end_matches('/');
        address.parse().with_context(|| format!("`{url}`: hostile clients need a URL of the form ws://ADDRESS:PORT"))
    };
    urls.iter().map(address).collect()
}

/// Results of the good clients in one phase.
struct GoodClients {
    messages: Record,
    /// Joins and leaves, without the costs that `messages` has.
    visits: Record,
    room_failures: Vec<String>,
}

/// Runs the load of the good clients once: messages, and joins and leaves of rooms. They connect
/// before `gather` is polled.
async fn good_clients(options: &Options, name: &str, gather: impl Future<Output = Result<()>>) -> Result<GoodClients> {
    let TrafficOptions { run, rate, size } = &options.traffic;
    let fleet = FleetOptions { prefix: format!("{}-{name}", options.fleet.prefix), ..options.fleet.clone() };
    let visitors = rooms::Options::beside_other_load(
        FleetOptions {
            prefix: format!("{}-{name}-visitor", options.fleet.prefix),
            clients: options.visitors(),
            connect_rate: (fleet.connect_rate / 4).max(1),
            ..options.fleet.clone()
        },
        run.clone(),
    );
    // Passed twice: once all good clients are connected, and once the crowd is.
    let barrier = Barrier::new(2);
    let gate = async {
        barrier.wait().await;
        gather.await?;
        barrier.wait().await;
        Ok(())
    };
    let visitors_gate = async {
        barrier.wait().await;
        barrier.wait().await;
        Ok(())
    };
    let messages = play(&fleet, Settings::new(run, *rate), *size, fleet.plan()?, gate);
    let (messages, (rooms, visits)) = tokio::try_join!(messages, rooms::visit(&visitors, visitors_gate))?;
    Ok(GoodClients { messages, visits: Record { costs: None, ..visits }, room_failures: rooms.failures })
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
    fn slow_or_missing_joins_fail_by_their_median() {
        let options: Options = options(&[]).unwrap();
        let is_failure =
            |count, p50| options.join_failure(&Percentiles { count, p50, ..Percentiles::default() }).is_some();

        assert_eq!([is_failure(9, 10_000), is_failure(9, 10_001), is_failure(0, 0)], [false, true, true]);
    }

    #[test]
    fn target_passes_only_with_times_within_it() {
        let line = |count, p99| target(&Percentiles { count, p99, ..Percentiles::default() }, 10_000);

        assert_eq!(line(5, 10_000), "PASS: p99 of 5 is 10.0 ms, target at most 10.0 ms");
        assert!(line(5, 10_001).starts_with("FAIL"));
        assert!(line(0, 0).starts_with("FAIL"));
    }
}
