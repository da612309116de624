//! Pairs of clients exchange numbered messages at a fixed rate.

use anyhow::Result;
use clap::Args;

use crate::exchange::{Exchange, Pairs, Settings, TrafficOptions};
use crate::fleet::FleetOptions;
use crate::record::Record;
use crate::report::Report;
use crate::workers::{Gate, Share, WorkerOptions};

/// Options of `mesh-load steady`.
#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Clients and servers.
    #[command(flatten)]
    pub fleet: FleetOptions,
    /// Messages.
    #[command(flatten)]
    pub traffic: TrafficOptions,
    /// Processes.
    #[command(flatten)]
    pub workers: WorkerOptions,
    /// Resume each session whose socket breaks or is closed with 1001, as when balancers are
    /// replaced. Every message then asks for an ack and is sent again without one. Without this
    /// flag each closed socket is a failure.
    #[arg(long)]
    pub resume: bool,
    /// Fail when the 99th percentile of latency is above this, in milliseconds.
    #[arg(long)]
    pub max_p99_ms: Option<f64>,
}

/// Runs the scenario.
///
/// # Errors
/// When the clients cannot connect.
pub async fn run(options: &Options) -> Result<Option<Report>> {
    let Options { fleet, traffic, workers, resume, max_p99_ms } = options;
    fleet.check_pairs(workers.processes)?;
    let Some(record) = workers.work(&[], |share, gate| part(options, share, gate)).await? else { return Ok(None) };
    let mut report = Report::new("steady");
    report.set("processes", workers.processes);
    describe(&mut report, fleet, traffic, &record);
    record.judge(&mut report, *resume);
    report.fail_above("latency", record.percentiles("latency"), *max_p99_ms);
    Ok(Some(report))
}

pub(super) fn describe(report: &mut Report, fleet: &FleetOptions, traffic: &TrafficOptions, record: &Record) {
    report.set("clients", fleet.clients);
    traffic.run.describe(report, traffic.rate);
    report.set("sent_share", record.sent_share());
    record.describe(report);
}

async fn part(options: &Options, share: Share, gate: Gate) -> Result<Record> {
    let (mut fleet, traffic) = (options.fleet.of_share(share), options.traffic.of_share(share)?);
    fleet.come_back = options.resume;
    let (plan, watched) = fleet.plan()?;
    let ack_share = if options.resume { 1.0 } else { 0.0 };
    let settings = Settings { ack_share, ..Settings::new(&traffic.run, traffic.rate) };
    let exchange = Exchange::new(&fleet, settings, Pairs::new(fleet.clients, &traffic))?;
    exchange.play(plan, &watched, gate.pass()).await
}
