//! The bundled harness against a mesh, as people run it: its own program, its exit code, its report.

use std::process::Output;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use signaling_devmesh::{Binaries, Mesh, MeshOptions, serve_control};
use tempfile::TempDir;
use tokio::process::Command;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::eventually;
use crate::mesh::binaries;

/// For a run of seconds on a slow machine.
const PATIENCE: Duration = Duration::from_secs(90);
/// Until the control socket is there.
const CONTROL_WITHIN: Duration = Duration::from_secs(5);

/// A mesh that listens to what other programs ask of it, as that of `mesh-dev up` does.
pub struct ControlledMesh {
    /// Its folder.
    pub dir: TempDir,
    serving: JoinHandle<()>,
}

/// What a run of the harness came to.
pub struct Run {
    /// Whether nothing spoke against the mesh.
    pub is_success: bool,
    /// The report.
    pub report: Value,
    /// What it had to complain of.
    pub complaints: String,
}

impl ControlledMesh {
    /// Three nodes and a balancer.
    pub async fn start() -> Self {
        Self::with(|_| {}).await
    }

    /// The same with other options.
    pub async fn with(change: impl FnOnce(&mut MeshOptions)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let binaries = Binaries::locate(Some(&binaries())).expect("run `cargo build --workspace --bins` first");
        let mut options = MeshOptions { notice: Duration::from_millis(200), ..MeshOptions::new(dir.path(), binaries) };
        change(&mut options);
        let mesh = Arc::new(Mesh::start(options).await.unwrap());
        let serving = tokio::spawn(async move { serve_control(mesh).await.unwrap() });
        let socket = dir.path().join("control.sock");
        eventually("the control socket", CONTROL_WITHIN, || async { socket.exists().then_some(()) }).await;
        Self { dir, serving }
    }
}

impl Drop for ControlledMesh {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// Runs `mesh-load` with these arguments against the mesh in a folder.
pub async fn mesh_load(dir: &TempDir, arguments: &[&str]) -> Run {
    mesh_load_within(PATIENCE, dir, arguments).await
}

/// The same with a run that may take so long.
pub async fn mesh_load_within(patience: Duration, dir: &TempDir, arguments: &[&str]) -> Run {
    let program = binaries().join("mesh-load");
    assert!(program.is_file(), "no {}: run `cargo build --workspace --bins` first", program.display());
    let mut harness = Command::new(program);
    harness.args(arguments).arg("--json=-").arg("--dir").arg(dir.path()).kill_on_drop(true);
    let run = timeout(patience, harness.output()).await.expect("mesh-load has not ended in time").unwrap();
    let Output { status, stdout, stderr } = run;
    let complaints = String::from_utf8_lossy(&stderr).into_owned();
    let report = serde_json::from_slice(&stdout)
        .unwrap_or_else(|error| panic!("no report ({error}): {complaints}{}", String::from_utf8_lossy(&stdout)));
    Run { is_success: status.success(), report, complaints }
}
