//! Files that are reloaded without a restart: keys, secrets and lists.
//!
//! An unreadable or invalid change has no effect and is logged once.

use std::fmt::Display;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use tracing::{info, warn};

use crate::FileWatcher;
use crate::config::ConfigError;
use crate::metrics::{FileReload, METRICS};

/// Maximum file size in bytes. It fits some hundred keys.
const MAX_FILE: u64 = 256 * 1024;

/// A file named by a flag, and its content at the last read.
#[derive(Clone)]
pub struct ReloadableFile {
    flag: &'static str,
    path: PathBuf,
    content: Vec<u8>,
}

impl ReloadableFile {
    /// Reads the file that `flag` names.
    ///
    /// # Errors
    /// If it cannot be read, or is longer than 256 KiB.
    pub fn open(flag: &'static str, path: &Path) -> Result<Self, ConfigError> {
        let content = read(path).map_err(|error| ConfigError::Unreadable { flag, path: path.into(), error })?;
        Ok(Self { flag, path: path.into(), content })
    }

    /// Parses the content with `parse`.
    ///
    /// # Errors
    /// If the content is invalid. The error names the flag and the file.
    pub fn parsed<T, E: Display>(&self, parse: impl Fn(&[u8]) -> Result<T, E>) -> Result<T, ConfigError> {
        parse(&self.content).map_err(|error| {
            let why = format!("{} {error}", self.path.display());
            ConfigError::Invalid { flag: self.flag, why }
        })
    }

    /// Passes the parsed content to `put` after each change. Ends when dropped.
    ///
    /// The log and errors of `parse` must not quote the content.
    pub async fn follow<T, E: Display>(mut self, parse: impl Fn(&[u8]) -> Result<T, E>, put: impl Fn(T)) {
        let mut watched = FileWatcher::new([self.path.clone()]).await;
        loop {
            // The file may have changed since it was opened.
            self.look(&parse, &put);
            watched.changed().await;
        }
    }

    fn look<T, E: Display>(&mut self, parse: impl Fn(&[u8]) -> Result<T, E>, put: impl Fn(T)) {
        let (flag, path) = (self.flag, self.path.display());
        let content = match read(&self.path) {
            Ok(content) if content == self.content => return,
            Ok(content) => content,
            Err(error) => {
                warn!(flag, %path, %error, "a file cannot be read any more: what it held before counts");
                METRICS.file_reloads.of(FileReload::Failed).inc();
                return;
            }
        };
        match parse(&content) {
            Ok(value) => {
                put(value);
                info!(flag, %path, "a file has changed and was read again");
                METRICS.file_reloads.of(FileReload::Ok).inc();
            }
            Err(error) => {
                warn!(flag, %path, %error, "a file has changed and makes no sense: what it held before counts");
                METRICS.file_reloads.of(FileReload::Failed).inc();
            }
        }
        self.content = content;
    }
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    // Checked before the file is opened, since opening a pipe waits for its writer.
    if !path.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a file"));
    }
    let mut content = Vec::new();
    File::open(path)?.take(MAX_FILE + 1).read_to_end(&mut content)?;
    if content.len() as u64 > MAX_FILE {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("longer than {MAX_FILE} bytes")));
    }
    Ok(content)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::cell::RefCell;
    use std::rc::Rc;
    use std::time::Duration;

    use tokio::task::LocalSet;

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
            watched.run_until(tokio::time::sleep(Duration::from_secs(3))).await;
            assert_eq!(*seen.borrow(), expected, "{content:?}");
        }
    }

    #[test]
    fn start_error_names_flag_and_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("number");
        let absent = ReloadableFile::open("--number", &path).err().unwrap().to_string();
        assert!(absent.contains("--number") && absent.contains("number: "), "{absent}");
        std::fs::write(&path, "x").unwrap();
        let wrong = ReloadableFile::open("--number", &path).unwrap().parsed(number).unwrap_err().to_string();
        assert_eq!(wrong, format!("--number: {} is no number", path.display()));
        assert!(ReloadableFile::open("--number", dir.path()).is_err(), "a folder");
    }
}
