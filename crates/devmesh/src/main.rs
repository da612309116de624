//! `mesh-dev`: runs a local mesh of the real binaries, acts on a running one, and serves the demo
//! before a mesh elsewhere.

mod cli;
mod page;

use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result};
use clap::Parser as _;
use signaling_devmesh::{Act, Binaries, Mesh, MeshOptions, control_socket, serve_control};
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

use crate::cli::{Cli, Command, Up};

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
        Command::Up(Up { options, bin_dir }) => {
            let binaries = Binaries::locate(bin_dir.as_deref())?;
            up(MeshOptions { dir: cli.dir, binaries, ..options }).await
        }
        Command::Page(options) => page::serve(options).await,
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
    let dir = options.dir.display().to_string();
    add_page(&mut options)?;

    let mesh = tokio::select! {
        started = Mesh::start(options) => started?,
        _ = interrupt.recv() => return Ok(()),
        _ = terminate.recv() => return Ok(()),
    };
    print!("{}", greeting(&mesh, &dir));
    tokio::select! {
        served = serve_control(Arc::clone(&mesh)) => served,
        _ = interrupt.recv() => mesh.down().await,
        _ = terminate.recv() => mesh.down().await,
    }
}

/// Has the balancers serve the demo page with its buttons, all dialects, and the name of the node
/// that serves each client. Flags that the options have stay: a server refuses a repeated one.
fn add_page(options: &mut MeshOptions) -> Result<()> {
    let control = std::path::absolute(control_socket(&options.dir)).context("--dir")?;
    let control = format!("--demo-control={}", control.display());
    let (dialects, reveal) = (format!("--dialects={DIALECTS}"), "--reveal-nodes".to_owned());
    let add = |args: &mut Vec<String>, flag: String| {
        let name = flag.split('=').next().map(str::to_owned);
        if !args.iter().any(|arg| arg.split('=').next() == name.as_deref()) {
            args.push(flag);
        }
    };
    for flag in ["--demo".to_owned(), control, dialects, reveal.clone()] {
        add(&mut options.balancer_args, flag);
    }
    add(&mut options.node_args, reveal);
    Ok(())
}

fn greeting(mesh: &Mesh, dir: &str) -> String {
    let state = mesh.state();
    let program = std::env::args().next().unwrap_or_else(|| "mesh-dev".to_owned());
    let mut lines = vec![format!("\nmesh of {} nodes runs in {dir}", state.nodes.len())];
    for balancer in &state.balancers {
        lines.push(format!("  page      {}/", balancer.url.replacen("ws", "http", 1)));
        lines.push(format!("  connect   {}/v1/connect?client_id=ada", balancer.url));
    }
    for (act, command) in
        [("scale", "scale 5"), ("kill", "kill node-1"), ("restart", "restart node-0"), ("list", "status")]
    {
        lines.push(format!("  {act:<8}  {program} {command} --dir {dir}"));
    }
    lines.push(format!("  stop      {program} down --dir {dir}, or Ctrl-C\n\n"));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_is_served_and_given_flags_stay() {
        let mut options = MeshOptions::new("/tmp/mesh", Binaries::default());
        options.balancer_args = vec!["--dialects=peerjs".to_owned(), "--demo".to_owned()];

        add_page(&mut options).unwrap();

        let control = "--demo-control=/tmp/mesh/control.sock";
        assert_eq!(options.balancer_args, ["--dialects=peerjs", "--demo", control, "--reveal-nodes"]);
        assert_eq!(options.node_args, ["--reveal-nodes"]);
    }
}
