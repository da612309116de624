//! Programs beside a mesh: tools that not every machine has, and clients that read and write lines.

use std::env;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use signaling_devmesh::find_in_path;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

/// Debian's Python, for which Debian packages its modules.
const SYSTEM_PYTHON: &str = "/usr/bin/python3";
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// Returns the path of the first of several programs that is installed. Returns `None` without one,
/// and reports it as [`missing`] does. `package` is the Debian package that has it.
pub fn program(names: &[&str], package: &str) -> Option<PathBuf> {
    let found = names.iter().find_map(|name| find_in_path(name));
    if found.is_none() {
        missing(names[0], package);
    }
    found
}

/// Returns the path of a Python 3 with this module, Debian's first. Returns `None` without one, and
/// reports it as [`missing`] does. `package` is the Debian package that has the module.
pub async fn python(module: &str, package: &str) -> Option<PathBuf> {
    for python in [Some(PathBuf::from(SYSTEM_PYTHON)), find_in_path("python3")].into_iter().flatten() {
        let mut import = Command::new(&python);
        let import = import.args(["-c", &format!("import {module}")]).stderr(Stdio::null()).status().await;
        if import.is_ok_and(|status| status.success()) {
            return Some(python);
        }
    }
    missing(&format!("python3 with its module {module}"), package);
    None
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
