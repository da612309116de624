//! Noticing that files have changed: a certificate, a secret.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::PathBuf;
use std::time::Duration;

use tokio::time::sleep;

/// How often files are looked at. They are short, and whoever changes them waits for it.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Files whose content is looked at again and again, so that a rewrite, a rename and a symbolic link that comes to lead
/// elsewhere (as a mounted Kubernetes secret's does) all show.
#[derive(Debug)]
pub struct FileWatcher {
    paths: Vec<PathBuf>,
    seen: u64,
}

impl FileWatcher {
    /// Remembers how they are now.
    pub async fn new(paths: impl IntoIterator<Item = PathBuf>) -> Self {
        let mut watched = Self { paths: paths.into_iter().collect(), seen: 0 };
        watched.seen = watched.look().await;
        watched
    }

    /// Returns when any of them is no longer as it was the last time that this returned. One that cannot be read is different
    /// from any that can. Safe to cancel.
    pub async fn changed(&mut self) {
        loop {
            sleep(LOOK_EVERY).await;
            let seen = self.look().await;
            if std::mem::replace(&mut self.seen, seen) != seen {
                return;
            }
        }
    }

    /// Nothing of a secret's content is kept but this.
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
    async fn a_rewrite_and_a_link_that_leads_elsewhere_show_once_each() {
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
