//! Good clients alone, and then the same with a crowd that means harm: what they notice, and what
//! memory it takes.

use std::cell::Cell;
use std::net::SocketAddr;

use anyhow::{Context, Result};
use clap::Args;
use signaling_devmesh::MeshFile;

use super::steady::describe;
use crate::exchange::{Exchange, Pairs, Settings, TrafficOptions};
use crate::fleet::FleetOptions;
use crate::hostile::{Crowd, Edges, HostileOptions, Present, Seen};
use crate::record::Record;
use crate::report::Report;

/// Options of `mesh-load hostile`.
#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Where all connect, and the good clients.
    #[command(flatten)]
    pub fleet: FleetOptions,
    /// What the good clients send.
    #[command(flatten)]
    pub traffic: TrafficOptions,
    /// The crowd.
    #[command(flatten)]
    pub crowd: HostileOptions,
}

/// Runs the scenario.
///
/// # Errors
/// When the good clients cannot connect, or the crowd does not gather.
pub async fn run(options: &Options) -> Result<Report> {
    let Options { fleet, crowd, .. } = options;
    fleet.check_pairs(1)?;
    let mesh = fleet.mesh()?;
    let addresses = addresses(fleet, mesh.as_ref())?;
    let before = good_clients(options, "before", async { Ok(()) }).await?;

    let (mut edges, strangers) = (Edges::of(mesh.as_ref())?, Crowd::new(crowd, addresses)?);
    let (are_all_there, mut looks) = (Cell::new(false), Vec::new());
    let gather = async {
        strangers.gather().await?;
        are_all_there.set(true);
        Ok(())
    };
    let look = || {
        if are_all_there.get() {
            looks.push(strangers.present());
        }
    };
    let meanwhile = tokio::select! {
        meanwhile = good_clients(options, "meanwhile", gather) => meanwhile?,
        never = edges.look(look) => match never {},
    };
    strangers.disperse()?;
    Ok(report(options, &before, &meanwhile, &Present::mean(&looks), &edges.seen()))
}

fn report(options: &Options, before: &Record, meanwhile: &Record, present: &Present, edges: &[Seen]) -> Report {
    let Options { fleet, traffic, crowd } = options;
    let allowed_p99_us = crowd.allowed_p99_us(before.percentiles("latency").p99);
    let mut report = Report::new("hostile");
    for (when, record) in [("before", before), ("meanwhile", meanwhile)] {
        let mut phase = Report::default();
        describe(&mut phase, fleet, traffic, record);
        record.judge(&mut phase, false);
        phase.fail_if(record.count("errors", "errors"), "errors");
        report.set(when, &phase);
        phase.failures.iter().for_each(|failure| report.fail(format!("{when}: {failure}")));
    }
    report.set("allowed_p99_us", allowed_p99_us);
    report.set("crowd", present);
    report.set("edges", edges);
    report.fail_above("latency", meanwhile.percentiles("latency"), Some(allowed_p99_us as f64 / 1_000.0));
    present.failures(crowd).chain(edges.iter().filter_map(Seen::failure)).for_each(|failure| report.fail(failure));
    report
}

/// Where the crowd goes: to each edge that the good clients may be at.
fn addresses(fleet: &FleetOptions, mesh: Option<&MeshFile>) -> Result<Vec<SocketAddr>> {
    let urls = match mesh {
        Some(mesh) if fleet.urls.is_empty() => mesh.balancers.iter().map(|balancer| balancer.url.clone()).collect(),
        _ => fleet.urls.clone(),
    };
    let address = |url: &String| {
        let address = url.trim_start_matches("ws://").trim_end_matches('/');
        address.parse().with_context(|| format!("{url} is not ws://ADDRESS:PORT, where the crowd could go"))
    };
    urls.iter().map(address).collect()
}

/// The good clients' load, once. They connect before the others come.
async fn good_clients(options: &Options, name: &str, others_come: impl Future<Output = Result<()>>) -> Result<Record> {
    let traffic = &options.traffic;
    let fleet = FleetOptions { prefix: format!("{}-{name}", options.fleet.prefix), ..options.fleet.clone() };
    let (plan, watched) = fleet.plan()?;
    let settings = Settings::new(&traffic.run, traffic.rate);
    Exchange::new(&fleet, settings, Pairs::new(fleet.clients, traffic))?.play(plan, &watched, others_come).await
}
