//! Calls at a fixed rate: their set-up time.

use anyhow::Result;
use clap::Args;

use crate::exchange::{Calls, RunOptions, Settings, play};
use crate::fleet::FleetOptions;
use crate::report::Report;
use crate::workers::{Gate, Share, WorkerOptions};

/// Options of `mesh-load calls`.
#[derive(Clone, Debug, Args)]
pub struct Options {
    #[command(flatten)]
    pub(super) fleet: FleetOptions,
    /// Calls started per second, by all clients together (1 to 100,000)
    #[arg(long, help_heading = "Load", default_value_t = 50,
          value_parser = clap::value_parser!(u64).range(1..=100_000))]
    rate: u64,
    #[command(flatten)]
    run: RunOptions,
    /// Time over which each side spreads its ICE candidates, in milliseconds (0 to 10,000; 0 sends
    /// all at once). The set-up time of a call does not include it
    #[arg(long, help_heading = "Load", default_value_t = 100,
          value_parser = clap::value_parser!(u64).range(..=10_000))]
    gather_ms: u64,
    /// Fail when the 99th percentile of the set-up time is above this, in milliseconds. The set-up
    /// time ends when both sides have all messages of the call
    #[arg(long, help_heading = "Load")]
    max_setup_p99_ms: Option<f64>,
    #[command(flatten)]
    pub(super) workers: WorkerOptions,
}

/// Returns `None` in a worker, a process of `--processes`. Fails as
/// [`steady::run`](super::steady::run).
pub(super) async fn run(options: &Options) -> Result<Option<Report>> {
    let Options { fleet, rate, run, gather_ms, max_setup_p99_ms, workers } = options;
    fleet.check_pairs(workers.processes)?;
    let part = async |share: Share, gate: Gate| {
        let fleet_part = fleet.of_share(share);
        let settings = Settings::new(run, share.of_rate(*rate)?);
        play(&fleet_part, settings, Calls::new(run.seed, *gather_ms), fleet_part.plan()?, gate.pass()).await
    };
    let Some(record) = workers.work(part).await? else { return Ok(None) };
    let mut report = Report::new("calls");
    report.set("processes", workers.processes);
    report.set("gather_ms", gather_ms);
    run.describe(&mut report, fleet.clients, *rate, &record);
    record.judge(&mut report, false);
    report.fail_if(record.calls.begun.saturating_sub(record.calls.set_up), "calls never set up");
    report.fail_above("set-up time", &record.times.set_up, *max_setup_p99_ms);
    Ok(Some(report))
}
