//! Tools for tests that not every machine has.

use std::path::PathBuf;

use signaling_devmesh::find_in_path;

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
    assert!(
        std::env::var("CI").as_deref() != Ok("true"),
        "no {what}: with CI=true it must be there (package {package})"
    );
    eprintln!("skipped: no {what}");
}
