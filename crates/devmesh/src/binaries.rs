//! Searches for programs on this machine: the servers in a folder, other tools in `PATH`.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// Paths of the programs of a mesh.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Binaries {
    /// `signaling-node`.
    pub node: PathBuf,
    /// `signaling-balancer`.
    pub balancer: PathBuf,
}

impl Binaries {
    /// Searches `dir`, or with `None` the folder of the running program. The returned paths are
    /// absolute.
    ///
    /// # Errors
    /// If a program is missing, or its path or that of the running program cannot be resolved.
    pub fn locate(dir: Option<&Path>) -> Result<Self> {
        let own = std::env::current_exe().context("cannot locate this program")?;
        let dir = dir.or(own.parent()).unwrap_or(Path::new("."));
        let find = |name: &str| {
            let path = dir.join(name);
            if !path.is_file() {
                bail!(
                    "no {name} in {}; build it with `cargo build -p {name}`, or pass its folder to --bin-dir",
                    dir.display()
                );
            }
            path.canonicalize().with_context(|| format!("cannot open {}", path.display()))
        };
        Ok(Self { node: find("signaling-node")?, balancer: find("signaling-balancer")? })
    }
}

/// System directories outside the usual `PATH`.
const SYSTEM_DIRS: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// Returns the path of the first file of this name in `PATH`, or else in a system directory, even
/// if it is not executable. `None`: there is none, or the variable `PATH` is not set.
pub fn find_in_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let dirs = std::env::split_paths(&path).chain(SYSTEM_DIRS.map(PathBuf::from));
    dirs.map(|dir| dir.join(name)).find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_program_is_named_with_its_folder_and_flag() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("signaling-node"), "").unwrap();

        let error = Binaries::locate(Some(dir.path())).unwrap_err().to_string();

        assert!(error.contains("no signaling-balancer in"), "{error}");
        assert!(error.contains("--bin-dir"), "{error}");
    }
}
