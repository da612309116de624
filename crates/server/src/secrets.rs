//! The mesh's secrets: the one that is sent, and a second one that is accepted during a change.
//!
//! A change takes three steps, each on all servers before the next. First, add the new secret as
//! the second line of the file. Then swap the lines. Then remove the old one. At each moment every
//! server accepts the secret of any other.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::http::HeaderMap;
use tokio::sync::watch;
use tracing::{info, warn};

use crate::config::{self, ConfigError};
use crate::metrics::SecretLoad;
use crate::secret::SecretError;
use crate::{FileWatcher, Secret, auth, metrics};

const FLAG: &str = "--mesh-secret-file";
/// Maximum secrets: an old one and a new one.
const MOST: usize = 2;

/// The secrets that all servers of a mesh share. Clones share the content of the file.
#[derive(Debug, Clone)]
pub struct Secrets {
    path: Arc<Path>,
    current: watch::Sender<Arc<[Secret]>>,
}

impl Secrets {
    /// Reads the secrets from a file, one per line.
    ///
    /// # Errors
    /// Names the flag if the file cannot be read, or holds none or more than two.
    pub(crate) fn read(flag: &'static str, path: &Path) -> Result<Self, ConfigError> {
        let secrets = parse(flag, path)?;
        Ok(Self { path: path.into(), current: watch::Sender::new(secrets) })
    }

    /// Returns the secret to send to other servers and to sign with.
    #[must_use]
    pub fn shown(&self) -> Secret {
        self.current.borrow()[0].clone()
    }

    /// Returns all accepted secrets. The sent one comes first.
    #[must_use]
    pub fn accepted(&self) -> Arc<[Secret]> {
        self.current.borrow().clone()
    }

    /// Returns `true` if the headers hold an accepted secret. Compares each in constant time.
    #[must_use]
    pub fn authorize(&self, headers: &HeaderMap) -> bool {
        self.current.borrow().iter().fold(false, |authorized, secret| authorized | auth::authorized(headers, secret))
    }

    /// Reloads the file when it changes, and calls `changed`. Ignores unusable content. Ends when
    /// dropped.
    pub async fn follow(self, changed: impl Fn(&[Secret])) {
        let mut watched = FileWatcher::new([PathBuf::from(&*self.path)]).await;
        // It may have changed since the first read.
        if let Ok(secrets) = parse(FLAG, &self.path) {
            changed(&secrets);
            self.current.send_replace(secrets);
        }
        metrics::mesh_secrets(self.accepted().len(), None);
        loop {
            watched.changed().await;
            match parse(FLAG, &self.path) {
                Ok(secrets) => {
                    let (accepted, is_another) = (secrets.len(), !secrets[0].matches(self.shown().as_bytes()));
                    changed(&secrets);
                    self.current.send_replace(secrets);
                    metrics::mesh_secrets(accepted, Some(SecretLoad::Used));
                    info!(accepted, is_another, "has read the mesh secret again");
                }
                Err(error) => {
                    metrics::mesh_secrets(self.accepted().len(), Some(SecretLoad::Unusable));
                    warn!(%error, "cannot use the changed mesh secret; the one before stays");
                }
            }
        }
    }
}

fn parse(flag: &'static str, path: &Path) -> Result<Arc<[Secret]>, ConfigError> {
    let bad = |error| ConfigError::Secret { flag, path: path.into(), error };
    let text = config::read(flag, path)?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let secrets: Vec<_> = lines.map(Secret::new).collect::<Result<_, _>>().map_err(bad)?;
    match secrets.len() {
        0 => Err(bad(SecretError::TooShort(0))),
        1..=MOST => Ok(secrets.into()),
        count => Err(bad(SecretError::TooMany(count))),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::time::Duration;

    use ::http::header::AUTHORIZATION;
    use tokio::time::timeout;

    use super::*;

    const OLD: &str = "the-old-secret-of-ours";
    const NEW: &str = "the-new-secret-of-ours";

    #[tokio::test(start_paused = true)]
    async fn secret_changes_in_three_steps_and_ignores_invalid_files() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        let write = |lines: &[&str]| std::fs::write(&path, lines.join("\n")).unwrap();
        write(&[OLD, ""]);
        let secrets = Secrets::read(FLAG, &path).unwrap();
        let (told, mut telling) = tokio::sync::mpsc::channel(8);
        let following = secrets.clone().follow(move |secrets| told.try_send(secrets.len()).unwrap());
        let mut tasks = tokio::task::JoinSet::new();
        tasks.spawn(following);
        assert_eq!(telling.recv().await, Some(1), "it has looked at the file");
        let shows = |text: &str| {
            let bearer = Secret::new(text).unwrap().bearer();
            secrets.authorize(&HeaderMap::from_iter([(AUTHORIZATION, bearer)]))
        };
        assert_eq!((secrets.shown().as_bytes(), shows(OLD), shows(NEW)), (OLD.as_bytes(), true, false));

        write(&[OLD, "short"]);
        assert!(timeout(Duration::from_secs(3), telling.recv()).await.is_err());
        assert!(shows(OLD));
        for (lines, shown, old, new) in
            [(&[OLD, NEW][..], OLD, true, true), (&[NEW, OLD], NEW, true, true), (&[NEW], NEW, false, true)]
        {
            write(lines);
            assert_eq!(telling.recv().await, Some(lines.len()));
            tokio::task::yield_now().await;
            assert_eq!((secrets.shown().as_bytes(), shows(OLD), shows(NEW)), (shown.as_bytes(), old, new), "{lines:?}");
        }
    }

    #[test]
    fn file_holds_one_or_two() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        for (text, part) in [("\n \n", "at least 16"), ("x", "at least 16"), (&[OLD; 3].join("\n"), "at most 2")] {
            std::fs::write(&path, text).unwrap();
            let message = Secrets::read(FLAG, &path).unwrap_err().to_string();
            assert!(message.contains(FLAG) && message.contains(part), "{message}");
        }
    }
}
