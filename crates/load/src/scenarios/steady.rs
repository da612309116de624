//! Pairs of clients exchange numbered messages at a fixed rate.

use anyhow::Result;
use clap::Args;

use crate::exchange::{Settings, TrafficOptions, play};
use crate::fleet::FleetOptions;
use crate::report::Report;
use crate::workers::{Gate, Share, WorkerOptions};

/// Options of `mesh-load steady`.
#[derive(Clone, Debug, Args)]
pub struct Options {
    #[command(flatten)]
    pub(super) fleet: FleetOptions,
    #[command(flatten)]
    traffic: TrafficOptions,
    #[command(flatten)]
    pub(super) workers: WorkerOptions,
    /// Resume each session whose socket ends, as when balancers are replaced. Every message then
    /// requests an ack and is sent again without one. Breaks and closes with 1001 are no failures
    /// then; without this flag each ended socket is one
    #[arg(long)]
    resume: bool,
    /// Fail when the 99th percentile latency is above this, in milliseconds
    #[arg(long)]
    max_p99_ms: Option<f64>,
}

/// Returns `None` in a worker, a process of `--processes`. Fails if `--clients` is odd, a process
/// gets no pair or no rate, there is no server, a client cannot connect, or a worker fails.
pub(super) async fn run(options: &Options) -> Result<Option<Report>> {
    let Options { fleet, traffic: TrafficOptions { rate, size, run }, workers, resume, max_p99_ms } = options;
    fleet.check_pairs(workers.processes)?;
    let part = async |share: Share, gate: Gate| {
        let fleet_part = FleetOptions { reconnect: *resume, ..fleet.of_share(share) };
        let settings = Settings { ack_interval: (*resume).into(), ..Settings::new(run, share.of_rate(*rate)?) };
        play(&fleet_part, settings, *size, fleet_part.plan()?, gate.pass()).await
    };
    let Some(record) = workers.work(part).await? else { return Ok(None) };
    let mut report = Report::new("steady");
    report.set("processes", workers.processes);
    run.describe(&mut report, fleet.clients, *rate, &record);
    record.judge(&mut report, *resume);
    report.fail_above("latency", &record.times.latency, *max_p99_ms);
    Ok(Some(report))
}
