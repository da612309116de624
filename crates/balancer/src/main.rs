//! The `signaling-balancer` binary.

use std::process::ExitCode;

use clap::Parser as _;
use signaling_balancer::config::Args;
use signaling_balancer::run;
use signaling_server::{Shutdown, telemetry};

fn main() -> ExitCode {
    match start() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("signaling-balancer: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn start() -> anyhow::Result<()> {
    let config = Args::parse().check()?;
    let telemetry = telemetry::start(&config.common.log)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async { run(config, telemetry, Shutdown::install()?).await })
}
