//! `mesh-dev`: runs a local mesh of the real binaries, and acts on a running one.

mod cli;

use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result};
use clap::Parser as _;
use signaling_devmesh::{Act, Mesh, MeshOptions, control_socket, serve_control};
use tokio::signal::unix::{SignalKind, signal};
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
    match cli.command {
        Command::Up(options) => up(options.into_mesh_options(cli.dir)?).await,
        Command::Act(act) => {
            let servers = act.request(&cli.dir).await?;
            if act == Act::Status {
                print!("{}", cli::status_table(&servers));
            }
            Ok(())
        }
    }
}

/// The dialects that a local mesh serves: all.
const DIALECTS: &str = "peerjs,y-webrtc,trystero,rxdb,pixelstreaming,matchbox,gstreamer";

/// Runs a mesh until `mesh-dev down` or a signal.
async fn up(mut options: MeshOptions) -> Result<()> {
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for signals")?;
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for signals")?;
    let (dir, has_page) = (options.dir.display().to_string(), options.balancer_args.iter().any(|arg| arg == "--demo"));
    options.balancer_args.push(format!("--dialects={DIALECTS}"));
    if has_page {
        let control = std::path::absolute(control_socket(&options.dir)).context("--dir")?;
        options.balancer_args.push(format!("--demo-control={}", control.display()));
    }

    let mesh = tokio::select! {
        started = Mesh::start(options) => started?,
        _ = interrupt.recv() => return Ok(()),
        _ = terminate.recv() => return Ok(()),
    };
    print!("{}", greeting(&mesh, &dir, has_page));
    tokio::select! {
        served = serve_control(Arc::clone(&mesh)) => served,
        _ = interrupt.recv() => mesh.down().await,
        _ = terminate.recv() => mesh.down().await,
    }
}

fn greeting(mesh: &Mesh, dir: &str, has_page: bool) -> String {
    let state = mesh.state();
    let program = std::env::args().next().unwrap_or_else(|| "mesh-dev".to_owned());
    let mut lines = vec![format!("\nmesh of {} nodes runs in {dir}", state.nodes.len())];
    for balancer in &state.balancers {
        if has_page {
            lines.push(format!("  page      {}/", balancer.url.replacen("ws", "http", 1)));
        }
        lines.push(format!("  connect   {}/v1/connect?client_id=ada", balancer.url));
    }
    lines.extend(state.redis.map(|url| format!("  rooms     {url}")));
    for (act, command) in
        [("scale", "scale 5"), ("kill", "kill node-1"), ("restart", "restart node-0"), ("list", "status")]
    {
        lines.push(format!("  {act:<8}  {program} {command} --dir {dir}"));
    }
    lines.push(format!("  stop      {program} down --dir {dir}, or Ctrl-C\n\n"));
    lines.join("\n")
}
