//! Visitors connect, say something and leave; then every process is to have what it had before.

use std::time::Duration;

use anyhow::Result;
use clap::Args;

use crate::churn::{ChurnOptions, ChurnPart, Report, Stock, receive, settle};
use crate::crew::{CrewOptions, Work};
use crate::fleet::FleetOptions;
use crate::outcome::Outcome;
use crate::watch::{Usages, Watch};

/// What `mesh-load churn` takes.
#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Where the clients connect; these are those who stay meanwhile, and hear the visitors.
    #[command(flatten)]
    pub fleet: FleetOptions,
    /// The visitors.
    #[command(flatten)]
    pub churn: ChurnOptions,
    /// How many processes they are in.
    #[command(flatten)]
    pub crew: CrewOptions,
}

/// Runs the scenario.
///
/// # Errors
/// When those who stay cannot connect.
pub async fn run(options: &Options) -> Result<Outcome> {
    let Options { fleet, churn, crew } = options;
    let watch = Watch::new(fleet);
    let settling = Duration::from_millis(churn.settle_ms);
    let mut early = None;
    if churn.warmup > 0 && crew.share.is_none() {
        early = visits(options, &churn.warming_up(), &watch).await?.map(|work| work.part);
        settle(&watch, settling, None).await;
    }
    let before = Stock::take(&watch);
    let Some(Work { part, beside: usages }) = visits(options, churn, &watch).await? else {
        return Ok(Outcome::silent());
    };
    let after = settle(&watch, settling, Some((&before, churn.max_growth))).await;
    let leftovers = after.compared_with(&before);
    let report = Report::new(churn, crew.processes, early, &part, leftovers, usages.lines());
    Outcome::new(report.table(), &report, report.failures(churn))
}

/// `None` in a process that has told another one what it found.
async fn visits(options: &Options, churn: &ChurnOptions, watch: &Watch) -> Result<Option<Work<ChurnPart, Usages>>> {
    let part = async |share, gate| receive(&options.fleet, churn, share, gate).await;
    let more = [format!("--visits={}", churn.visits), format!("--wave={}", churn.wave)];
    options.crew.work(&more, part, |over| watch.run(over)).await
}
