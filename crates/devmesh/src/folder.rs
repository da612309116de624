//! The folder of a mesh: its lock, secrets, files and logs. `mesh` opens it and writes into it.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::num::NonZeroU64;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::Serialize;

use crate::id::ServerId;

/// Name of the file with the running servers, [`crate::MeshFile`].
pub(crate) const MESH_FILE: &str = "mesh.json";
/// Name of the file with the nodes, each a [`crate::DiscoveredNode`].
pub(crate) const DISCOVERY_FILE: &str = "nodes.json";
pub(crate) const SECRET_FILE: &str = "mesh.secret";
pub(crate) const ADMIN_TOKEN_FILE: &str = "admin.secret";
/// Name of the file with the seed of the rendezvous hash.
pub(crate) const HASH_SEED_FILE: &str = "hash.seed";
/// Name of the file with the secret that signs client tokens.
pub(crate) const TOKEN_KEY_FILE: &str = "tokens.secret";

/// The folder of one mesh, locked while this value lives.
pub(crate) struct Folder {
    /// Absolute path, without symbolic links.
    pub(crate) root: PathBuf,
    _lock: File,
}

impl Folder {
    /// Creates the folder if it is missing, and locks it. Fails if another mesh has it locked.
    pub(crate) fn open(root: &Path) -> Result<Self> {
        fs::create_dir_all(root.join("logs")).with_context(|| format!("cannot create {}", root.display()))?;
        let root = root.canonicalize().with_context(|| format!("cannot open {}", root.display()))?;
        let path = root.join("mesh.lock");
        let lock = File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
        if lock.try_lock().is_err() {
            bail!(
                "a mesh already runs in {}; stop it by `mesh-dev down --dir {0}`, or use another folder",
                root.display()
            );
        }
        Ok(Self { root, _lock: lock })
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Returns the path of a server's log, to which all its processes append.
    pub(crate) fn log_file(&self, id: ServerId) -> PathBuf {
        self.root.join("logs").join(format!("{id}.log"))
    }

    /// Writes a new random mesh secret, admin token and secret of client tokens, and the hash seed.
    /// Only their owner can read them.
    pub(crate) fn write_secrets(&self, hash_seed: NonZeroU64) -> Result<()> {
        for name in [SECRET_FILE, ADMIN_TOKEN_FILE, TOKEN_KEY_FILE] {
            let hex: String = random::<32>()?.iter().map(|byte| format!("{byte:02x}")).collect();
            self.write_secret(name, &hex)?;
        }
        self.write_secret(HASH_SEED_FILE, &format!("{hash_seed:#x}"))
    }

    fn write_secret(&self, name: &str, text: &str) -> Result<()> {
        self.remove(name)?;
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(self.file(name));
        file.and_then(|mut file| file.write_all(text.as_bytes()))
            .with_context(|| format!("cannot write {}", self.file(name).display()))
    }

    /// Replaces a whole file, so that a reader sees the old content or the new.
    pub(crate) fn write_json(&self, name: &str, value: &impl Serialize) -> Result<()> {
        let path = self.file(name);
        let mut text = serde_json::to_vec(value)?;
        text.push(b'\n');
        let unfinished = path.with_extension("json.tmp");
        fs::write(&unfinished, text)
            .and_then(|()| fs::rename(&unfinished, &path))
            .with_context(|| format!("cannot write {}", path.display()))
    }

    /// Removes a file if it exists.
    pub(crate) fn remove(&self, name: &str) -> Result<()> {
        match fs::remove_file(self.file(name)) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(error).with_context(|| format!("cannot remove {}", self.file(name).display()))
            }
            _ => Ok(()),
        }
    }
}

pub(crate) fn random_seed() -> Result<NonZeroU64> {
    let seed = u64::from_ne_bytes(random()?);
    Ok(NonZeroU64::new(seed).unwrap_or(NonZeroU64::MAX))
}

fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).context("the system provides no random bytes")?;
    Ok(bytes)
}

/// Returns the last 8 lines of a log, to show with an error; empty without a log. All but the first
/// are indented by two spaces.
pub(crate) fn log_tail(log: &Path) -> String {
    const LINES: usize = 8;
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n  ")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn second_mesh_is_refused_while_the_folder_is_locked() {
        let dir = tempfile::tempdir().unwrap();
        let first = Folder::open(dir.path()).unwrap();

        let refusal = Folder::open(dir.path()).err().unwrap().to_string();
        drop(first);

        assert!(refusal.contains("already runs"), "{refusal}");
        assert!(Folder::open(dir.path()).is_ok());
    }

    #[test]
    fn secrets_are_random_and_private() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::open(dir.path()).unwrap();
        let files = [SECRET_FILE, ADMIN_TOKEN_FILE, TOKEN_KEY_FILE, HASH_SEED_FILE].map(|name| folder.file(name));
        let write = || {
            folder.write_secrets(random_seed().unwrap()).unwrap();
            files.each_ref().map(|file| fs::read_to_string(file).unwrap())
        };

        let all = [write(), write()].concat();

        let is_hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
        assert!(all.iter().all(|it| it.strip_prefix("0x").map_or(it.len() == 64 && is_hex(it), is_hex)), "{all:?}");
        assert!((1..all.len()).all(|n| !all[..n].contains(&all[n])), "{all:?}");
        for file in files {
            assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
        }
    }
}
