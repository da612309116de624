//! The `signaling-balancer` binary.

use std::process::ExitCode;

use mimalloc::MiMalloc;
use signaling_balancer::config::{Args, Config};
use signaling_balancer::run;
use signaling_server::runtime::runtime;
use signaling_server::{Shutdown, config_file, telemetry};

/// The process holds copies of messages of many clients; the system's allocator takes a tenth of
/// its time for them. Huge pages stay off: they would make unused memory resident.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    let config = match config_file::load(Args::check, Config::check_sources) {
        Ok(config) => config,
        Err(code) => return code,
    };
    match start(config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("signaling-balancer: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn start(config: Config) -> anyhow::Result<()> {
    telemetry::start(&config.common.log)?;
    let runtime = runtime(&config.edge.coalescer)?;
    runtime.block_on(async { run(config, Shutdown::install()?).await })
}
