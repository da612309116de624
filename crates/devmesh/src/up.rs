use std::sync::Arc;

use anyhow::{Context, Result};
use signaling_devmesh::{Mesh, MeshOptions, control_socket, serve_control};
use tokio::signal::unix::{SignalKind, signal};

/// Runs a mesh until `mesh-dev down` or a signal.
pub(crate) async fn run(mut options: MeshOptions) -> Result<()> {
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for signals")?;
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for signals")?;
    let (dir, has_page) = (options.dir.display().to_string(), options.balancer_args.iter().any(|arg| arg == "--demo"));
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
        lines.push(format!("  {act:<8}  mesh-dev {command} --dir {dir}"));
    }
    lines.push(format!("  stop      mesh-dev down --dir {dir}, or Ctrl-C\n\n"));
    lines.join("\n")
}
