//! npm packages with fixed versions, installed once beside the built programs.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{binaries, program};

/// Arguments of npm, which succeeds with them if its registry answers within 10 s.
const REGISTRY_PROBE: [&str; 5] = ["view", "npm", "version", "--fetch-retries=0", "--fetch-timeout=10000"];
const NPM_INSTALL: [&str; 5] = ["install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock"];

/// Returns the folder `name` beside the programs, with the packages of a `package.json`. If
/// necessary installs them first, and calls `prepare` with the folder. Without npm's registry
/// prints that the test is skipped and returns `None`; without Node.js or npm too, but panics with
/// `CI=true`.
pub fn install(name: &str, packages: &str, prepare: impl FnOnce(&Path)) -> Option<PathBuf> {
    program(&["node"], "nodejs")?;
    let npm = program(&["npm"], "npm")?;
    let dir = binaries().join(name);
    fs::create_dir_all(&dir).unwrap();
    // Each test is a process. The first one installs the packages, and the others wait for it.
    let lock = File::create(dir.join("lock")).unwrap();
    lock.lock().unwrap();
    let installed = dir.join("installed");
    if fs::read_to_string(&installed).is_ok_and(|installed| installed == packages) {
        return Some(dir);
    }
    if let Err(error) = run(&npm, &REGISTRY_PROBE, &dir) {
        eprintln!("skipped: npm does not reach its registry: {error}");
        return None;
    }
    fs::write(dir.join("package.json"), packages).unwrap();
    run(&npm, &NPM_INSTALL, &dir).unwrap();
    prepare(&dir);
    fs::write(installed, packages).unwrap();
    Some(dir)
}

/// Runs a program in `dir`. Panics if it does not start.
///
/// # Errors
/// If its exit status is not 0: its standard error.
pub(crate) fn run(program: &Path, arguments: &[&str], dir: &Path) -> Result<(), String> {
    let output = Command::new(program).args(arguments).current_dir(dir).output().unwrap();
    output.status.success().then_some(()).ok_or_else(|| String::from_utf8_lossy(&output.stderr).into_owned())
}
