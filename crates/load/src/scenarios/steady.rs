//! Pairs of clients exchange numbered messages at a fixed rate: what arrived, how late, and what it cost.

use std::rc::Rc;

use anyhow::Result;
use clap::Args;
use serde::Serialize;

use crate::fleet::{Fleet, FleetOptions};
use crate::outcome::Outcome;
use crate::traffic::{Books, Findings, Sender, TrafficOptions, Wanted};

/// What `mesh-load steady` takes.
#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Where the clients connect.
    #[command(flatten)]
    pub fleet: FleetOptions,
    /// What they send.
    #[command(flatten)]
    pub traffic: TrafficOptions,
    /// Fail when the 99th percentile of latency is above this.
    #[arg(long)]
    pub max_p99_ms: Option<f64>,
}

#[derive(Serialize)]
struct Report {
    scenario: &'static str,
    #[serde(flatten)]
    findings: Findings,
}

/// Runs the scenario.
///
/// # Errors
/// When the clients cannot connect.
pub async fn run(options: &Options) -> Result<Outcome> {
    options.traffic.check(&options.fleet)?;
    let (plan, watched) = options.fleet.plan()?;
    let books = Rc::new(Books::new(&options.fleet, &options.traffic, Wanted::default())?);
    let fleet = Fleet::connect(plan, &books).await?;
    let sending = Sender::new(&books, &fleet, &options.traffic)?.run(&watched).await?;
    books.settle(options.traffic.settle()).await;
    let findings = Findings::new(&options.traffic, &fleet, &books, sending);
    books.expect_endings();
    fleet.close();
    let failures = failures(options, &findings);
    Outcome::new(findings.table(), &Report { scenario: "steady", findings }, failures)
}

fn failures(options: &Options, findings: &Findings) -> Vec<String> {
    let mut failures = findings.failures(&options.traffic);
    failures.extend(findings.closed_failures());
    let p99 = findings.latency().p99 as f64 / 1_000.0;
    if let Some(limit) = options.max_p99_ms.filter(|limit| p99 > *limit) {
        failures.push(format!("p99 is {p99:.1} ms, above {limit} ms"));
    }
    failures
}
