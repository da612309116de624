//! Tools for tests that not every machine has.

use std::path::{Path, PathBuf};

use signaling_devmesh::find_in_path;

/// Finds the first of several programs in `PATH` or `/usr/sbin`. Otherwise returns `None` and
/// reports as [`missing`].
pub fn program(names: &[&str], package: &str) -> Option<PathBuf> {
    let server = |name: &&str| Some(Path::new("/usr/sbin").join(name)).filter(|file| file.is_file());
    let found = names.iter().find_map(|name| find_in_path(name).or_else(|| server(name)));
    if found.is_none() {
        missing(names[0], package);
    }
    found
}

/// Prints that a test is skipped because `what` is missing. Panics with `CI=true`.
pub fn missing(what: &str, package: &str) {
    assert!(
        std::env::var("CI").as_deref() != Ok("true"),
        "no {what}: with CI=true it must be there (package {package})"
    );
    eprintln!("skipped: no {what}");
}
