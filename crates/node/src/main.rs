//! The `signaling-node` binary.

use std::process::ExitCode;
use std::time::Instant;

use clap::Parser as _;
use signaling_node::config::Args;
use signaling_node::run;
use signaling_server::gather::{Busy, Gather};
use signaling_server::runtime::runtime;
use signaling_server::{Shutdown, telemetry};

/// When a node lets input gather.
const BUSY: Busy = Busy { from: 12, until: 5, whole: 11 };

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
    let runtime = runtime(Gather::new(Instant::now(), config.gather, BUSY))?;
    runtime.block_on(async { run(config, telemetry, Shutdown::install()?).await })
}
