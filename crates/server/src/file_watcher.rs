//! Detection of changed files, for certificates and secrets.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::PathBuf;
use std::time::Duration;

use tokio::time::sleep;

/// Interval of checks. The files are short, and an operator waits for the effect of a change.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Files whose content is polled. This detects a rewrite, a rename and a changed symbolic link, as
/// in a mounted Kubernetes secret.
#[derive(Debug)]
pub struct FileWatcher {
    paths: Vec<PathBuf>,
    seen: u64,
}

impl FileWatcher {
    /// Creates a watcher with the current content as reference.
    pub async fn new(paths: impl IntoIterator<Item = PathBuf>) -> Self {
        let mut watched = Self { paths: paths.into_iter().collect(), seen: 0 };
        watched.seen = watched.look().await;
        watched
    }

    /// Returns when a file differs from the last check. An unreadable file differs from any
    /// readable one. Cancel-safe.
    pub async fn changed(&mut self) {
        loop {
            sleep(LOOK_EVERY).await;
            let seen = self.look().await;
            if std::mem::replace(&mut self.seen, seen) != seen {
                return;
            }
        }
    }

    /// Returns a hash of all contents, so that no content of a secret is kept.
    async fn look(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        for path in &self.paths {
            tokio::fs::read(path).await.ok().hash(&mut hasher);
        }
        hasher.finish()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    const SOON: Duration = Duration::from_secs(3);

    #[tokio::test(start_paused = true)]
    async fn rewrite_and_changed_link_are_reported_once_each() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("one"), "1").unwrap();
        std::fs::write(at("two"), "2").unwrap();
        std::os::unix::fs::symlink(at("one"), at("link")).unwrap();
        let mut watched = FileWatcher::new([at("link")]).await;

        std::fs::write(at("one"), "other").unwrap();
        timeout(SOON, watched.changed()).await.unwrap();
        std::os::unix::fs::symlink(at("two"), at("next")).unwrap();
        std::fs::rename(at("next"), at("link")).unwrap();
        timeout(SOON, watched.changed()).await.unwrap();
        assert!(timeout(SOON, watched.changed()).await.is_err(), "nothing has changed since");
    }
}
