//! Pairs of clients exchange numbered messages at a fixed rate: what arrived, how late, and what it cost.

use std::rc::Rc;

use anyhow::Result;
use clap::Args;
use serde::Serialize;

use crate::crew::{CrewOptions, Gate, Share, Work};
use crate::fleet::{Fleet, FleetOptions};
use crate::outcome::Outcome;
use crate::traffic::{Books, Findings, Sender, TrafficOptions, TrafficPart, Wanted};
use crate::watch::{UsageLine, Watch};

/// What `mesh-load steady` takes.
#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Where the clients connect.
    #[command(flatten)]
    pub fleet: FleetOptions,
    /// What they send.
    #[command(flatten)]
    pub traffic: TrafficOptions,
    /// How many processes they are in.
    #[command(flatten)]
    pub crew: CrewOptions,
    /// Resume each session whose socket breaks or is closed with 1001, as when balancers are
    /// replaced. Every message then asks for an ack and is sent again without one. Without this
    /// flag each closed socket is a failure.
    #[arg(long)]
    pub resume: bool,
    /// Fail when the 99th percentile of latency is above this.
    #[arg(long)]
    pub max_p99_ms: Option<f64>,
}

#[derive(Serialize)]
struct Report {
    scenario: &'static str,
    processes: u32,
    #[serde(flatten)]
    findings: Findings,
    usage: Vec<UsageLine>,
}

/// Runs the scenario.
///
/// # Errors
/// When the clients cannot connect.
pub async fn run(options: &Options) -> Result<Outcome> {
    options.fleet.check_pairs(options.crew.processes)?;
    let watch = Watch::new(&options.fleet);
    let work = options.crew.work(&[], |share, gate| part(options, share, gate), |over| watch.run(over)).await?;
    Work::report(work, |work| {
        let findings = Findings::of(&options.traffic, work.part);
        let failures = failures(options, &findings);
        let report =
            Report { scenario: "steady", processes: options.crew.processes, findings, usage: work.beside.lines() };
        Outcome::new(report.findings.table(), &report, failures)
    })
}

async fn part(options: &Options, share: Share, gate: Gate) -> Result<TrafficPart> {
    let (mut fleet, traffic) = (options.fleet.of_share(share), options.traffic.of_share(share)?);
    fleet.come_back = options.resume;
    let (plan, mut watched) = fleet.plan()?;
    if !share.is_first() {
        watched.clear();
    }
    let wanted = Wanted { ack_share: if options.resume { 1.0 } else { 0.0 }, recording: false };
    let books = Rc::new(Books::new(&fleet, &traffic, wanted)?);
    let fleet = Fleet::connect(plan, &books).await?;
    gate.pass().await?;
    let sending = Sender::new(&books, &fleet, &traffic)?.run(&watched).await?;
    books.settle(traffic.settle()).await;
    let part = TrafficPart::new(&fleet, &books, sending);
    books.expect_endings();
    fleet.close();
    Ok(part)
}

fn failures(options: &Options, findings: &Findings) -> Vec<String> {
    let mut failures = findings.failures(&options.traffic);
    if options.resume {
        failures.extend(findings.return_failures());
    } else {
        failures.extend(findings.closed_failures());
    }
    let p99 = findings.latency().p99 as f64 / 1_000.0;
    if let Some(limit) = options.max_p99_ms.filter(|limit| p99 > *limit) {
        failures.push(format!("p99 is {p99:.1} ms, above {limit} ms"));
    }
    failures
}
