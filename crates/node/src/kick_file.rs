//! The file in which a node keeps kicks over a restart of all servers. `config` opens it, `run`
//! restores and follows it.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use signaling_admin::clients::Kicks;
use signaling_core::edge::KickName;
use signaling_discovery::read_bounded;
use signaling_server::ConfigError;
use signaling_server::clock::ticks;
use tokio::task::spawn_blocking;
use tracing::{info, warn};

use crate::{Node, operator};

const FLAG: &str = "--state-dir";
/// Interval of checks for new kicks, and so the age of one that a crash can lose.
const INTERVAL: Duration = Duration::from_secs(1);
/// More than 10,000 kicks of 255 characters, each escaped.
const MAX_BYTES: u64 = 16 * 1024 * 1024;

/// Kicks in `kicks.json` in the folder of `--state-dir`, which is of one node alone.
#[derive(Debug, Clone)]
pub struct KickFile {
    folder: PathBuf,
    kicks: Kicks,
}

impl KickFile {
    /// Reads the kicks in a folder; without the file there are none. Blocks the thread.
    ///
    /// # Errors
    /// Names the flag if the folder is none, or the file is unreadable or damaged.
    pub fn open(folder: &Path) -> Result<Self, ConfigError> {
        let error = |why: String| ConfigError { flag: FLAG, why };
        if !folder.is_dir() {
            return Err(error(format!("{} is no folder: create it", folder.display())));
        }
        let path = folder.join("kicks.json");
        let kicks = match read_bounded(&path, MAX_BYTES) {
            Ok(content) => serde_json::from_slice(&content).map_err(|why| {
                let path = path.display();
                error(format!("{path} is damaged ({why}): restore it, or remove it to forget the kicks"))
            })?,
            Err(why) if why.kind() == io::ErrorKind::NotFound => Kicks::default(),
            Err(why) => return Err(error(format!("cannot read {}: {why}", path.display()))),
        };
        Ok(Self { folder: folder.to_owned(), kicks })
    }

    /// Adds the kicks of the file to a node, and writes the file anew.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn restore(&mut self, node: &Node) -> io::Result<()> {
        let kicks = std::mem::take(&mut self.kicks).kicks;
        info!(kicks = kicks.len(), folder = %self.folder.display(), "kicks restored");
        let kicks = node.with_core(|core| {
            kicks.iter().for_each(|kick| core.restore_kick(&KickName::new(&kick.client_id), kick.at));
            operator::kicks(core)
        });
        write(&self.folder, &kicks)
    }

    /// Writes the file within 1 s of each new kick. Never returns. A failure is logged once, and
    /// repeated until it is over.
    pub async fn follow(self, node: Node) {
        let mut written = None;
        let mut has_failed = false;
        let mut interval = ticks(INTERVAL);
        loop {
            interval.tick().await;
            let (changes, kicks) = node.with_core(|core| {
                let changes = core.kicks().changes();
                (changes, (written != Some(changes)).then(|| operator::kicks(core)))
            });
            let Some(kicks) = kicks else { continue };
            let folder = self.folder.clone();
            let result = spawn_blocking(move || write(&folder, &kicks)).await;
            match result.unwrap_or_else(|error| Err(io::Error::other(error))) {
                Ok(()) => (written, has_failed) = (Some(changes), false),
                Err(error) if !std::mem::replace(&mut has_failed, true) => {
                    warn!(folder = %self.folder.display(), %error, "cannot keep kicks, a restart of all servers ends them");
                }
                Err(_) => {}
            }
        }
    }
}

/// Replaces the file in one step, once its content is on the disk.
fn write(folder: &Path, kicks: &Kicks) -> io::Result<()> {
    let new = folder.join("kicks.json.new");
    let mut file = File::create(&new)?;
    file.write_all(&serde_json::to_vec(kicks)?)?;
    file.sync_all()?;
    fs::rename(&new, folder.join("kicks.json"))?;
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_file_is_refused_and_a_missing_one_is_empty() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(KickFile::open(folder.path()).unwrap().kicks, Kicks::default());
        fs::write(folder.path().join("kicks.json"), r#"{"kicks":["#).unwrap();
        let why = KickFile::open(folder.path()).unwrap_err().to_string();
        assert!(why.starts_with("--state-dir:") && why.contains("remove it"), "{why}");
        let why = KickFile::open(&folder.path().join("none")).unwrap_err().to_string();
        assert!(why.contains("create it"), "{why}");
    }
}
