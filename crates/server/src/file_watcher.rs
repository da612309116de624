//! Detection of changed files, without their content. The edge uses it to reload certificates.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use signaling_discovery::read_bounded;
use tokio::task::spawn_blocking;

use crate::clock::ticks;
use crate::reloadable_file::MAX_FILE_BYTES;

/// Interval of checks for changes of files. It is short, since an operator waits for the effect.
pub(crate) const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Files whose content is polled: detects rewrites, renames and changed links (Kubernetes secrets).
#[derive(Debug)]
pub struct FileWatcher {
    paths: Arc<[PathBuf]>,
    /// Hash of all contents, so that no content of a secret is kept.
    seen: u64,
}

impl FileWatcher {
    /// Creates a watcher once the files are read, as its reference. Panics outside a Tokio runtime.
    pub async fn new(paths: impl IntoIterator<Item = PathBuf>) -> Self {
        let paths: Arc<[PathBuf]> = paths.into_iter().collect();
        Self { seen: hash_contents(&paths).await, paths }
    }

    /// Waits until a file differs from its content at the last check, up to 1 s after the change.
    /// A file above 256 KiB counts as unreadable, which differs from any content. Cancel-safe.
    pub async fn changed(&mut self) {
        loop {
            ticks(CHECK_INTERVAL).tick().await;
            let seen = hash_contents(&self.paths).await;
            if std::mem::replace(&mut self.seen, seen) != seen {
                return;
            }
        }
    }
}

async fn hash_contents(paths: &Arc<[PathBuf]>) -> u64 {
    let paths = Arc::clone(paths);
    let hash = move || {
        let mut hasher = DefaultHasher::new();
        paths.iter().for_each(|path| read_bounded(path, MAX_FILE_BYTES).ok().hash(&mut hasher));
        hasher.finish()
    };
    spawn_blocking(hash).await.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(3);

    #[tokio::test(start_paused = true)]
    async fn rewrite_and_changed_link_are_reported_once_each() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("one"), "1").unwrap();
        std::fs::write(at("two"), "2").unwrap();
        std::os::unix::fs::symlink(at("one"), at("link")).unwrap();
        let mut watched = FileWatcher::new([at("link")]).await;

        std::fs::write(at("one"), "other").unwrap();
        timeout(TIMEOUT, watched.changed()).await.unwrap();
        std::os::unix::fs::symlink(at("two"), at("next")).unwrap();
        std::fs::rename(at("next"), at("link")).unwrap();
        timeout(TIMEOUT, watched.changed()).await.unwrap();
        assert!(timeout(TIMEOUT, watched.changed()).await.is_err(), "nothing has changed since");
    }
}
