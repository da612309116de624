//! The `signaling-balancer` binary.

use std::process::ExitCode;
use std::time::Instant;

use mimalloc::MiMalloc;
use signaling_balancer::config::{Args, Config};
use signaling_balancer::run;
use signaling_server::gather::{BusyThresholds, Coalescer};
use signaling_server::runtime::runtime;
use signaling_server::{Shutdown, config_file, telemetry};

/// When a balancer lets input gather.
const BUSY: BusyThresholds = BusyThresholds { from: 15, until: 10, whole: 10 };

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
    let runtime = runtime(Coalescer::new(Instant::now(), config.gather, BUSY))?;
    runtime.block_on(async { run(config, Shutdown::install()?).await })
}
