//! Good clients alone, and then the same with a crowd that means harm: what they notice, and what memory it takes.

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;

use anyhow::{Context, Result};
use clap::Args;
use signaling_devmesh::MeshFile;

use crate::fleet::{Fleet, FleetOptions};
use crate::hostile::{Crowd, Edges, HostileOptions, Present, Report};
use crate::outcome::Outcome;
use crate::traffic::{Books, Findings, Sender, TrafficOptions, Wanted};

/// What `mesh-load hostile` takes.
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
pub async fn run(options: &Options) -> Result<Outcome> {
    let Options { fleet, traffic, crowd } = options;
    fleet.check_pairs(1)?;
    let mesh = fleet.mesh()?;
    let addresses = addresses(fleet, mesh.as_ref())?;
    let before = good_clients(options, "before", async || Ok(())).await?;

    let (mut edges, strangers) = (Edges::of(mesh.as_ref())?, Crowd::new(crowd, addresses)?);
    let (are_all_there, mut looks) = (Cell::new(false), Vec::new());
    let gather = async || {
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

    let report = Report::new(crowd, (before, meanwhile), Present::mean(&looks), edges.seen());
    Outcome::new(report.table(crowd), &report, report.failures(crowd, traffic))
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
async fn good_clients(
    options: &Options,
    name: &str,
    others_come: impl AsyncFnOnce() -> Result<()>,
) -> Result<Findings> {
    let traffic = &options.traffic;
    let fleet = FleetOptions { prefix: format!("{}-{name}", options.fleet.prefix), ..options.fleet.clone() };
    let books = Rc::new(Books::new(&fleet, traffic, Wanted::default())?);
    let (plan, watched) = fleet.plan()?;
    let fleet = Fleet::connect(plan, &books).await?;
    others_come().await?;
    let sending = Sender::new(&books, &fleet, traffic)?.run(&watched).await?;
    books.settle(traffic.settle()).await;
    let findings = Findings::new(traffic, &fleet, &books, sending);
    books.expect_endings();
    fleet.close();
    Ok(findings)
}
