//! Files that are reloaded without a restart: keys, secrets and lists.
//! An unreadable or invalid change has no effect and is logged once. Modules with such a setting
//! open the file at the start and then follow it.

use std::fmt::{self, Display};
use std::io;
use std::path::{Path, PathBuf};

use signaling_discovery::read_bounded;
use tokio::task::spawn_blocking;
use tracing::{info, warn};

use crate::clock::ticks;
use crate::config::ConfigError;
use crate::file_watcher::CHECK_INTERVAL;
use crate::metrics::{METRICS, Reload};

/// Maximum size of a file that a flag names, in bytes. It fits some hundred keys.
pub(crate) const MAX_FILE_BYTES: u64 = 256 * 1024;

/// A file named by a flag, and its content at the last read.
#[derive(Clone)]
pub struct ReloadableFile {
    flag: &'static str,
    path: PathBuf,
    /// `None` if the last read failed.
    content: Option<Vec<u8>>,
}

impl ReloadableFile {
    /// Reads the file at `path`, which `flag` names with its `--`. Blocks the thread.
    ///
    /// # Errors
    /// If it cannot be read, or is longer than 256 KiB.
    pub fn open(flag: &'static str, path: &Path) -> Result<Self, ConfigError> {
        let why = |error| format!("cannot read {}: {error}", path.display());
        let content = read_bounded(path, MAX_FILE_BYTES).map_err(|error| ConfigError { flag, why: why(error) })?;
        Ok(Self { flag, path: path.into(), content: Some(content) })
    }

    /// Parses the content of the last read with `parse`; an empty content if that read failed.
    ///
    /// # Errors
    /// If `parse` fails. The error names the flag and the file.
    pub fn parsed<T, E: Display>(&self, parse: impl Fn(&[u8]) -> Result<T, E>) -> Result<T, ConfigError> {
        parse(self.content.as_deref().unwrap_or_default()).map_err(|error| {
            let why = format!("{} {error}", self.path.display());
            ConfigError { flag: self.flag, why }
        })
    }

    /// Checks the file every 1 s, and passes the parsed content to `put` after each valid change,
    /// also one since [`ReloadableFile::open`]. Runs until dropped. Errors are logged and counted;
    /// those of `parse` must not quote the content.
    pub async fn follow<T, E: Display>(mut self, parse: impl Fn(&[u8]) -> Result<T, E>, put: impl Fn(T)) {
        loop {
            let result = match self.changed(&parse).await {
                Some(value) => {
                    put(value);
                    Reload::Used
                }
                None => Reload::Unusable,
            };
            METRICS.file_reloads.of(result).inc();
        }
    }

    /// Waits for a change and logs it. Reads and parses the content; `None` if that fails.
    pub(crate) async fn changed<T, E: Display>(&mut self, parse: impl Fn(&[u8]) -> Result<T, E>) -> Option<T> {
        // The file may have changed since it was opened, so the first check is due at once.
        let read = loop {
            let path = self.path.clone();
            let read = spawn_blocking(move || read_bounded(&path, MAX_FILE_BYTES)).await;
            let read = read.unwrap_or_else(|error| Err(io::Error::other(error)));
            if read.as_ref().ok() != self.content.as_ref() {
                break read;
            }
            ticks(CHECK_INTERVAL).tick().await;
        };
        let parsed = read
            .as_deref()
            .map_err(ToString::to_string)
            .and_then(|content| parse(content).map_err(|error| error.to_string()));
        self.content = read.ok();
        let (flag, path) = (self.flag, self.path.display());
        match parsed {
            Ok(value) => {
                info!(flag, %path, "file reloaded");
                Some(value)
            }
            Err(error) => {
                warn!(flag, %path, %error, "cannot use the changed file, its former content stays in effect");
                None
            }
        }
    }
}

impl fmt::Debug for ReloadableFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReloadableFile").field("path", &self.path).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;
    use std::time::Duration;

    use tokio::task::LocalSet;
    use tokio::time::sleep;

    use super::*;

    fn number(content: &[u8]) -> Result<u32, &'static str> {
        std::str::from_utf8(content).ok().and_then(|text| text.trim().parse().ok()).ok_or("is no number")
    }

    #[tokio::test(start_paused = true)]
    async fn valid_file_changes_are_published_and_invalid_ones_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("number");
        std::fs::write(&path, "1").unwrap();
        let file = ReloadableFile::open("--number", &path).unwrap();
        assert_eq!(file.parsed(number).unwrap(), 1);
        let seen = Rc::new(RefCell::new(Vec::new()));
        let put = Rc::clone(&seen);
        let watched = LocalSet::new();
        watched.spawn_local(file.follow(number, move |value| put.borrow_mut().push(value)));
        let stages = [(Some("2"), vec![2]), (Some("none"), vec![2]), (None, vec![2]), (Some("3"), vec![2, 3])];
        for (content, expected) in stages {
            match content {
                Some(content) => {
                    // Careful writers replace a file by a rename.
                    std::fs::write(dir.path().join("new"), content).unwrap();
                    std::fs::rename(dir.path().join("new"), &path).unwrap();
                }
                None => std::fs::remove_file(&path).unwrap(),
            }
            watched.run_until(sleep(Duration::from_secs(3))).await;
            assert_eq!(*seen.borrow(), expected, "{content:?}");
        }
    }
}
