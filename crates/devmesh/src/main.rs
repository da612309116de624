//! `mesh-dev`: runs a local mesh of the real binaries, and acts on a running one.

mod cli;
mod up;

use std::io::IsTerminal as _;
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser as _;
use signaling_devmesh::Control;
use tracing_subscriber::EnvFilter;

use crate::cli::{Act, Cli, Command};

#[tokio::main]
async fn main() -> ExitCode {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false)
        .init();
    match run(Cli::parse().command).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("mesh-dev: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(command: Command) -> Result<()> {
    match command {
        Command::Up(options) => up::run(options.into_mesh_options()?).await,
        Command::Act(act) => {
            let control = Control::connect(act.dir()).await?;
            match act {
                Act::Scale { nodes, .. } => control.scale(nodes).await,
                Act::Kill { id, .. } => control.kill(&id).await,
                Act::Drain { id, .. } => control.drain(&id).await,
                Act::Restart { id, .. } => control.restart(&id).await,
                Act::Replace { id, .. } => control.replace(&id).await,
                Act::Pause { id, .. } => control.pause(&id).await,
                Act::Resume { id, .. } => control.resume(&id).await,
                Act::Down { .. } => control.down().await,
                Act::Status { .. } => {
                    print!("{}", cli::status_table(&control.status().await?));
                    Ok(())
                }
            }
        }
    }
}
