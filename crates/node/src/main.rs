//! The `signaling-node` binary.

use std::process::ExitCode;

use clap::Parser as _;
use signaling_node::config::Args;
use signaling_node::run;
use signaling_node::runtime::runtime;
use signaling_server::{Shutdown, telemetry};

fn main() -> ExitCode {
    match start() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("signaling-node: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn start() -> anyhow::Result<()> {
    let config = Args::parse().check()?;
    let telemetry = telemetry::start(&config.common.log)?;
    let runtime = runtime(config.gather)?;
    runtime.block_on(async { run(config, telemetry, Shutdown::install()?).await })
}
