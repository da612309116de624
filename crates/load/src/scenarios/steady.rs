//! Pairs of clients exchange numbered messages at a fixed rate: what arrived, how late, and what it cost.
//!
//! The way of a message: the schedule says when, the clients take turns, the ledger of the pair numbers it, the socket
//! takes it. The receiver's reading task finds the numbers again, enters them in the ledger and takes the time.

mod report;
mod run;

use std::rc::Rc;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;

use crate::fleet::Fleet;
use crate::options::{FleetOptions, Pairing, Size};
use crate::scenarios::Outcome;
use run::Run;

/// What `mesh-load steady` takes.
#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Where the clients connect.
    #[command(flatten)]
    pub fleet: FleetOptions,
    /// Messages a second, of all clients together.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub rate: u64,
    /// How long to measure.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub seconds: u64,
    /// How long to send before measuring; what gets lost then counts all the same.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(..=3_600))]
    pub warmup: u64,
    /// ice (200 bytes), sdp (3,000), mixed (ten to one), or a number of bytes.
    #[arg(long, default_value = "ice")]
    pub size: Size,
    /// Who writes to whom.
    #[arg(long, value_enum, default_value_t = Pairing::Neighbours)]
    pub pairs: Pairing,
    /// Decides all that is drawn.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// The grain of the schedule: what is due leaves together.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(50..=100_000))]
    pub tick_us: u64,
    /// How long to wait for stragglers at the end.
    #[arg(long, default_value_t = 25_000)]
    pub settle_ms: u64,
    /// Fail when the 99th percentile of latency is above this.
    #[arg(long)]
    pub max_p99_ms: Option<f64>,
    /// Fail when less than this share of the schedule was sent.
    #[arg(long, default_value_t = 0.99)]
    pub min_sent: f64,
}

/// Runs the scenario.
///
/// # Errors
/// When the clients cannot connect.
pub async fn run(options: &Options) -> Result<Outcome> {
    if !options.fleet.clients.is_multiple_of(2) {
        bail!("--clients is odd: clients come in pairs");
    }
    let (plan, watched) = options.fleet.plan()?;
    let run = Rc::new(Run::new(options)?);
    let fleet = Fleet::connect(plan, &run).await?;
    let sending = run.send(options, &fleet, &watched).await?;
    run.settle(Duration::from_millis(options.settle_ms)).await;
    let report = report::Report::new(options, &fleet, &run, sending);
    run.expect_endings();
    fleet.close();
    Outcome::new(report.table(), &report, report.failures(options))
}
