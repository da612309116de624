//! The programs of the version before this one.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use signaling_devmesh::Binaries;

use crate::mesh::binaries;
use crate::optional::missing;

/// Where they are: `DRILL_PREVIOUS_BIN`, or what `make previous` has built. `None` where there are none; it is said then
/// that the test is skipped.
///
/// # Panics
/// With `CI=true` if there are none though this clone has the commit, and if `DRILL_PREVIOUS_BIN` has none.
pub fn previous() -> Option<Binaries> {
    if let Some(dir) = std::env::var_os("DRILL_PREVIOUS_BIN") {
        return Some(Binaries::locate(Some(Path::new(&dir))).unwrap());
    }
    let target = binaries().parent().unwrap().to_owned();
    let built = Binaries::locate(Some(&target.join("previous/bin")));
    if built.is_err() && target.join("previous/unknown").exists() {
        eprintln!("skipped: this clone does not have the version before");
    } else if built.is_err() {
        missing("programs of the previous version: run `make previous`", "none");
    }
    built.ok()
}

/// Programs that can be replaced while a mesh runs them: what starts from then on is another version.
pub struct Replaceable {
    dir: PathBuf,
}

impl Replaceable {
    /// In this folder, at first those of `version`.
    pub fn new(dir: &Path, version: &Binaries) -> Self {
        let replaceable = Self { dir: dir.join("bin") };
        std::fs::create_dir_all(&replaceable.dir).unwrap();
        replaceable.become_version(version);
        replaceable
    }

    /// What a mesh is to run.
    pub fn binaries(&self) -> Binaries {
        Binaries { node: self.dir.join("signaling-node"), balancer: self.dir.join("signaling-balancer") }
    }

    /// Replaces them.
    pub fn become_version(&self, version: &Binaries) {
        let Binaries { node, balancer } = self.binaries();
        for (link, program) in [(node, &version.node), (balancer, &version.balancer)] {
            let renewed = link.with_extension("renewed");
            symlink(program, &renewed).unwrap();
            std::fs::rename(&renewed, &link).unwrap();
        }
    }
}
