//! The command line.

use clap::Parser;

use crate::scenarios::Scenario;

/// Puts load on a signaling mesh and counts what becomes of every message.
#[derive(Debug, Parser)]
#[command(name = "mesh-load", version)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub scenario: Scenario,
}
