//! All clients are cut off at once: how long until all are back, and how even the load on the servers is then.

use anyhow::Result;
use clap::Args;

use crate::crew::{CrewOptions, Work};
use crate::fleet::FleetOptions;
use crate::herd::{HerdOptions, Report, beside, graze};
use crate::outcome::Outcome;
use crate::watch::Watch;

/// What `mesh-load herd` takes.
#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Where the clients connect.
    #[command(flatten)]
    pub fleet: FleetOptions,
    /// How they are cut off.
    #[command(flatten)]
    pub herd: HerdOptions,
    /// How many processes they are in.
    #[command(flatten)]
    pub crew: CrewOptions,
}

/// Runs the scenario.
///
/// # Errors
/// When the clients cannot connect, or the balancers cannot be stopped and started.
pub async fn run(options: &Options) -> Result<Outcome> {
    let Options { fleet, herd, crew } = options;
    herd.check(fleet)?;
    let watch = Watch::new(fleet);
    let part = async |share, gate| graze(&fleet.of_share(share), herd, gate).await;
    let work = crew.work(&[], part, |over| beside(fleet, herd, &watch, over)).await?;
    Work::report(work, |Work { part, beside }| {
        let report = Report::new(herd, crew.processes, fleet.clients, &part, beside)?;
        Outcome::new(report.table(), &report, report.failures(herd))
    })
}
