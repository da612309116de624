//! `mesh-load`: the load generator.

use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser as _;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
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

fn run(scenario: &Scenario) -> Result<Vec<String>> {
    let (_, limit) = getrlimit(Resource::RLIMIT_NOFILE).context("cannot read the limit of open files")?;
    setrlimit(Resource::RLIMIT_NOFILE, limit, limit).context("cannot raise the limit of open files")?;
    let (json, sockets) = scenario.json_and_sockets();
    if sockets + 50 > limit {
        anyhow::bail!(
            "{sockets} sockets exceed the limit of {limit} open files per process: raise `ulimit -n`, use fewer clients, \
             or with steady, calls and idle more --processes"
        );
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let report = LocalSet::new().block_on(&runtime, scenario.run())?;
    // A worker leaves the report to the first process.
    let Some(report) = report else { return Ok(Vec::new()) };
    report.publish(json)?;
    Ok(report.failures)
}
