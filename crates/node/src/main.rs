//! The `signaling-node` binary.

use std::process::ExitCode;

use signaling_node::config::Args;
use signaling_node::run;
use signaling_server::runtime::serve_main;

fn main() -> ExitCode {
    serve_main(Args::check, |config| (&config.common, &config.edge.coalescer), run)
}
