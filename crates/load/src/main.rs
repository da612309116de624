//! `mesh-load`: the load generator.

use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser as _;
use signaling_load::scenarios::{Cli, Scenario};
use tokio::task::LocalSet;

fn main() -> ExitCode {
    match run(&Cli::parse().scenario) {
        Ok(failures) if failures.is_empty() => ExitCode::SUCCESS,
        Ok(failures) => {
            for failure in failures {
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

/// Returns what speaks against the mesh, or against the measurement.
fn run(scenario: &Scenario) -> Result<Vec<String>> {
    let limit = signaling_load::raise_descriptor_limit().context("cannot raise the limit of open files")?;
    if scenario.sockets() + 50 > limit {
        anyhow::bail!(
            "{} sockets are more than the {limit} open files that a process may have here: take more --processes, where the \
             scenario can",
            scenario.sockets()
        );
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let report = LocalSet::new().block_on(&runtime, scenario.run())?;
    // In a process of a crew, the first process reports.
    let Some(report) = report else { return Ok(Vec::new()) };
    report.publish(scenario.json(), scenario.html())?;
    Ok(report.failures)
}
