//! Tools for tests that not every machine has.

use std::path::PathBuf;

/// Prints that a test is skipped because `what` is missing.
pub fn missing(what: &str, package: &str) {
    assert!(
        std::env::var("CI").as_deref() != Ok("true"),
        "no {what}: with CI=true it must be there (package {package})"
    );
    eprintln!("skipped: no {what}");
}

/// Finds the first of several programs in `PATH`.
pub fn in_path(names: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    names.iter().find_map(|name| std::env::split_paths(&path).map(|dir| dir.join(name)).find(|file| file.is_file()))
}
