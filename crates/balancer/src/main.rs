//! The `signaling-balancer` binary.

use std::process::ExitCode;

use mimalloc::MiMalloc;
use signaling_balancer::config::Args;
use signaling_balancer::run;
use signaling_server::runtime::serve_main;

/// The process holds copies of messages of many clients; the system's allocator takes a tenth of
/// its time for them. Huge pages stay off: they would make unused memory resident.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    serve_main(Args::check, |config| (&config.common, &config.edge.coalescer), run)
}
