//! The `signaling-node` binary.

use std::process::ExitCode;

use signaling_node::config::{Args, Config};
use signaling_node::run;
use signaling_server::runtime::runtime;
use signaling_server::{Shutdown, config_file, telemetry};

fn main() -> ExitCode {
    let config = match config_file::load(Args::check, Config::check_sources) {
        Ok(config) => config,
        Err(code) => return code,
    };
    match start(config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("signaling-node: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn start(config: Config) -> anyhow::Result<()> {
    telemetry::start(&config.common.log)?;
    let runtime = runtime(&config.edge.coalescer)?;
    runtime.block_on(async { run(config, Shutdown::install()?).await })
}
