//! Calls at a fixed rate: their set-up time. `scenarios` calls it.

use anyhow::Result;
use clap::Args;

use crate::exchange::{CallOptions, Calls, Settings, play};
use crate::fleet::FleetOptions;
use crate::record::Record;
use crate::report::Report;
use crate::workers::{Gate, Share, WorkerOptions};

/// Options of `mesh-load calls`.
#[derive(Clone, Debug, Args)]
pub struct Options {
    #[command(flatten)]
    pub(super) fleet: FleetOptions,
    #[command(flatten)]
    calls: CallOptions,
    #[command(flatten)]
    pub(super) workers: WorkerOptions,
}

/// Runs the scenario. Returns `None` in a worker, a process of `--processes`. Fails if `--clients`
/// is odd, a process gets no pair or no rate, there is no server, a client cannot connect, or a
/// worker fails.
pub(super) async fn run(options: &Options) -> Result<Option<Report>> {
    let Options { fleet, calls, workers } = options;
    fleet.check_pairs(workers.processes)?;
    let Some(record) = workers.work(|share, gate| part(options, share, gate)).await? else { return Ok(None) };
    let mut report = Report::new("calls");
    report.set("processes", workers.processes);
    report.set("gather_ms", calls.gather_ms);
    calls.run.describe(&mut report, fleet.clients, calls.rate, &record);
    record.judge(&mut report, false);
    report.fail_if(record.calls.begun.saturating_sub(record.calls.set_up), "calls never set up");
    report.fail_above("set-up time", &record.times.set_up, calls.max_setup_p99_ms);
    Ok(Some(report))
}

async fn part(options: &Options, share: Share, gate: Gate) -> Result<Record> {
    let Options { fleet, calls, .. } = options;
    let settings = Settings::new(&calls.run, share.of_rate(calls.rate)?);
    play(&fleet.of_share(share), settings, Calls::new(calls), gate.pass()).await
}
