//! `mesh-dev`: runs a local mesh of the real binaries, and acts on a running one.

mod cli;
mod up;

use std::io::IsTerminal as _;
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser as _;
use signaling_devmesh::{Act, Control};
use tracing_subscriber::EnvFilter;

use crate::cli::{Cli, Command};

// Servers end with the thread that started them, so one thread runs all.
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false)
        .init();
    match run(Cli::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("mesh-dev: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(cli: Cli) -> Result<()> {
    let dir = cli.dir()?.to_owned();
    match cli.command {
        Command::Up(options) => up::run(options.into_mesh_options(&dir)?).await,
        Command::Act(act) => {
            let servers = Control::connect(&dir).await?.act(&act).await?;
            if act == Act::Status {
                print!("{}", cli::status_table(&servers));
            }
            Ok(())
        }
    }
}
