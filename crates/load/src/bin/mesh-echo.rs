//! `mesh-echo`: the floor that `mesh-load compare` measures proxies against.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use clap::Parser;
use signaling_load::compare::echo::serve;
use signaling_load::raise_descriptor_limit;
use tokio::net::TcpListener;
use tokio::task::LocalSet;

/// Writes each WebSocket message back to its sender.
#[derive(Debug, Parser)]
#[command(name = "mesh-echo", version)]
struct Cli {
    /// Where to listen.
    #[arg(long, value_name = "ADDR")]
    listen: SocketAddr,
}

fn main() -> Result<()> {
    let Cli { listen } = Cli::parse();
    raise_descriptor_limit().context("cannot raise the limit of open files")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, async {
        let listener = TcpListener::bind(listen).await.with_context(|| format!("cannot listen on {listen}"))?;
        serve(listener).await;
        Ok(())
    })
}
