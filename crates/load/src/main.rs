//! `mesh-load`: the load harness.

use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser as _;
use signaling_load::options::Cli;
use signaling_load::outcome::Outcome;
use signaling_load::scenarios::Scenario;
use tokio::task::LocalSet;

fn main() -> ExitCode {
    match run(&Cli::parse().scenario) {
        Ok(outcome) if outcome.failures.is_empty() => ExitCode::SUCCESS,
        Ok(outcome) => {
            for failure in &outcome.failures {
                eprintln!("FAILED: {failure}");
            }
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("mesh-load: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(scenario: &Scenario) -> Result<Outcome> {
    let clients = scenario.clients();
    let limit = signaling_load::raise_descriptor_limit().context("cannot raise the limit of open files")?;
    if u64::from(clients) + 50 > limit {
        anyhow::bail!("{clients} clients need more than the {limit} open files that a process may have here");
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let outcome = LocalSet::new().block_on(&runtime, scenario.run())?;
    outcome.publish(scenario.json())?;
    Ok(outcome)
}
