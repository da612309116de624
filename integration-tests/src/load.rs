//! Runs of the bundled load generator against a mesh: program, exit code and report.

use std::env;
use std::ffi::OsStr;
use std::process::Output;
use std::time::Duration;

use serde_json::Value;
use tokio::process::Command;
use tokio::time::timeout;

use crate::upstream::upstream_program_dir;
use crate::{TestMesh, binaries};

const RUN_TIMEOUT: Duration = Duration::from_secs(600);

/// Result of a run.
pub struct Run {
    /// `true` if the exit code is 0: the run found no fault of the mesh.
    pub is_success: bool,
    /// Report as JSON.
    pub report: Value,
    /// Standard error.
    pub complaints: String,
}

/// Runs `mesh-load` with these arguments against a mesh. Panics without a report, or after 600 s.
pub async fn mesh_load(mesh: &TestMesh, arguments: &[&str]) -> Run {
    mesh_load_alone(&[arguments, &["--dir", mesh.dir.path().to_str().unwrap()]].concat()).await
}

/// Runs `mesh-load` with these arguments, and with upstream's programs in its path. Panics without
/// a report, or after 600 s.
pub async fn mesh_load_alone(arguments: &[impl AsRef<OsStr>]) -> Run {
    let program = binaries().join("mesh-load");
    assert!(program.is_file(), "no {}: run `cargo build --workspace --bins` first", program.display());
    let mut harness = Command::new(program);
    let path = env::var_os("PATH").unwrap_or_default();
    let path = env::join_paths(env::split_paths(&path).chain([upstream_program_dir()])).unwrap();
    harness.args(arguments).arg("--json=-").env("PATH", path).kill_on_drop(true);
    let run = timeout(RUN_TIMEOUT, harness.output()).await.expect("mesh-load has not ended in time").unwrap();
    let Output { status, stdout, stderr } = run;
    let complaints = String::from_utf8_lossy(&stderr).into_owned();
    let report = serde_json::from_slice(&stdout)
        .unwrap_or_else(|error| panic!("no report ({error}): {complaints}{}", String::from_utf8_lossy(&stdout)));
    Run { is_success: status.success(), report, complaints }
}
