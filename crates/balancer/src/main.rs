//! The `signaling-balancer` binary.

use std::process::ExitCode;

use mimalloc::MiMalloc;
use signaling_balancer::config::{Args, Config};
use signaling_balancer::run;
use signaling_server::runtime::runtime;
use signaling_server::{Shutdown, config_file, telemetry};

/// It keeps a copy of each message that is on its way, from one client after another: the system's allocator costs it a tenth
/// of its own time. Without huge pages: they would make resident what nobody has used yet.
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
