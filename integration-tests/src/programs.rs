//! Programs beside a mesh: tools that not every machine has, clients that read and write lines, and
//! the bundled load generator.

use std::env;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{ExitStatus, Output, Stdio};
use std::time::Duration;

use serde_json::Value;
use signaling_devmesh::find_in_path;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

use crate::upstream::upstream_program_dir;
use crate::{TestMesh, binaries};

const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
const RUN_TIMEOUT: Duration = Duration::from_secs(600);

/// Returns the path of the first of several programs that is installed. Returns `None` without one,
/// and reports it as [`missing`] does. `package` is the Debian package that has it.
pub fn program(names: &[&str], package: &str) -> Option<PathBuf> {
    let found = names.iter().find_map(|name| find_in_path(name));
    if found.is_none() {
        missing(names[0], package);
    }
    found
}

/// Prints that a test is skipped because `what` is missing. Panics with `CI=true`, and names
/// `package`.
pub fn missing(what: &str, package: &str) {
    assert!(env::var("CI").as_deref() != Ok("true"), "no {what}: with CI=true it must be there (package {package})");
    eprintln!("skipped: no {what}");
}

/// A running program. It ends when dropped.
pub struct LineProgram {
    process: Child,
    printed: Lines<BufReader<ChildStdout>>,
}

impl LineProgram {
    /// Starts a program. Panics if it cannot start.
    pub fn start(command: &mut Command) -> Self {
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
        let printed = BufReader::new(process.stdout.take().unwrap()).lines();
        Self { process, printed }
    }

    /// Writes a line to its standard input. Panics if it has ended.
    pub async fn write(&mut self, line: &str) {
        self.process.stdin.as_mut().unwrap().write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    /// Returns the next line of its standard output. Panics without one for 30 s, or at its end.
    pub async fn line(&mut self) -> String {
        let line = timeout(ANSWER_TIMEOUT, self.printed.next_line()).await.expect("no line in time");
        line.unwrap().expect("the program has ended")
    }

    /// Closes its standard input and returns its exit status. Panics if it runs on for 30 s.
    pub async fn finish(mut self) -> ExitStatus {
        timeout(ANSWER_TIMEOUT, self.process.wait()).await.expect("it has not ended in time").unwrap()
    }
}

/// Result of a run of the load generator.
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
