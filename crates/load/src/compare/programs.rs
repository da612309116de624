use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use signaling_devmesh::{Binaries, find_in_path};
use tokio::process::Command;

use super::contestant::Contestant;

/// Programs of the contestants, found before anything is started.
pub(super) struct Programs {
    /// Programs of the mesh; `None` if no contestant needs them.
    pub(super) mesh: Option<Binaries>,
    by_contestant: BTreeMap<Contestant, PathBuf>,
}

/// System directories outside the usual PATH.
const SYSTEM_DIRS: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

impl Programs {
    /// Finds the project's programs in `bin_dir` or beside this program, others in the system.
    pub(super) fn find(contestants: &[Contestant], bin_dir: Option<&Path>) -> Result<Self> {
        let has_nodes = contestants.iter().any(|contestant| contestant.has_nodes());
        let mut by_contestant = BTreeMap::new();
        for contestant in contestants {
            let program = match contestant {
                Contestant::Balancer => continue,
                Contestant::Nginx => installed("nginx")?,
                Contestant::Haproxy => installed("haproxy")?,
                Contestant::Echo => our_own("mesh-echo", bin_dir)?,
            };
            by_contestant.insert(*contestant, program);
        }
        Ok(Self { mesh: has_nodes.then(|| Binaries::locate(bin_dir)).transpose()?, by_contestant })
    }

    pub(super) fn of(&self, contestant: Contestant) -> Result<&Path> {
        let program = self.by_contestant.get(&contestant);
        Ok(program.with_context(|| format!("{} has no program of its own here", contestant.name()))?)
    }

    /// Returns the version lines of the other projects' programs.
    pub(super) async fn versions(&self) -> Result<BTreeMap<Contestant, String>> {
        let mut versions = BTreeMap::new();
        for (contestant, program) in self.by_contestant.iter().filter(|(contestant, _)| contestant.has_nodes()) {
            let said = Command::new(program).arg("-v").output().await;
            let said = said.with_context(|| format!("cannot start {}", program.display()))?;
            let text = String::from_utf8_lossy(&[said.stdout, said.stderr].concat()).into_owned();
            let line = text.lines().next().unwrap_or_default();
            versions.insert(*contestant, line.split(" - ").next().unwrap_or(line).trim().to_owned());
        }
        Ok(versions)
    }
}

fn installed(name: &str) -> Result<PathBuf> {
    let beyond = || SYSTEM_DIRS.iter().map(|dir| Path::new(dir).join(name)).find(|file| file.is_file());
    let found = find_in_path(name).or_else(beyond);
    found.with_context(|| format!("there is no {name}: install it (`make deps-bench`), or name the others with --only"))
}

fn our_own(name: &str, bin_dir: Option<&Path>) -> Result<PathBuf> {
    let own = std::env::current_exe().context("cannot tell where this program lies")?;
    let dir = bin_dir.or(own.parent()).unwrap_or(Path::new("."));
    let program = dir.join(name);
    if !program.is_file() {
        bail!("there is no {name} in {}: build it with `cargo build -p signaling-load --bins`", dir.display());
    }
    Ok(program)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn missing_program_error_names_it_and_the_remedy() {
        let error = installed("no-such-proxy").unwrap_err().to_string();

        assert!(error.contains("no-such-proxy") && error.contains("make deps-bench"), "{error}");
        assert!(installed("sh").is_ok());
    }

    #[test]
    fn echo_is_looked_for_in_the_bin_dir_only() {
        let dir = tempfile::tempdir().unwrap();

        let error = Programs::find(&[Contestant::Echo], Some(dir.path())).err().unwrap().to_string();
        std::fs::write(dir.path().join("mesh-echo"), "").unwrap();
        let found = Programs::find(&[Contestant::Echo], Some(dir.path())).unwrap();

        assert!(error.contains("no mesh-echo in"), "{error}");
        assert_eq!(found.of(Contestant::Echo).unwrap(), dir.path().join("mesh-echo"));
        assert!(found.mesh.is_none() && found.of(Contestant::Nginx).is_err());
    }
}
