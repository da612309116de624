//! The mesh's secrets: the one that a server sends, and a second one that it accepts too.
//! A change takes three steps, each on all servers before the next. First, add the new secret as
//! the second line of the file. Then swap the lines. Then remove the old one. At each moment every
//! server accepts the secret of any other. `config` reads the file; the servers' `run` follows it.

use std::path::Path;
use std::sync::Arc;

use signaling_metrics::Publish as _;
use tokio::sync::watch;
use tracing::info;

use crate::config::ConfigError;
use crate::metrics::{METRICS, Reload};
use crate::{MeshSecret, ReloadableFile};

const FLAG: &str = "--mesh-secret-file";
/// Maximum secrets in the file: an old one and a new one.
const MAX_SECRETS: usize = 2;

/// The secrets that all servers of a mesh share. Clones share them, also after a change. A change
/// of the file counts only while [`Secrets::follow`] runs on one of the clones.
#[derive(Debug, Clone)]
pub struct Secrets {
    file: ReloadableFile,
    current: watch::Sender<Arc<[MeshSecret]>>,
}

impl Secrets {
    /// Reads the secrets from the file of `--mesh-secret-file`, one per line.
    ///
    /// # Errors
    /// If the file cannot be read, a line is no valid [`MeshSecret`], or there are none or over 2.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let file = ReloadableFile::open(FLAG, path)?;
        let secrets = file.parsed(parse)?;
        Ok(Self { file, current: watch::Sender::new(secrets) })
    }

    /// Returns the first secret of the file, which this server sends to others and signs with.
    pub fn primary(&self) -> MeshSecret {
        self.current.borrow()[0].clone()
    }

    /// Returns the one or two accepted secrets, the primary one first.
    pub fn accepted(&self) -> Arc<[MeshSecret]> {
        self.current.borrow().clone()
    }

    /// Returns a receiver of the accepted secrets. It sees a change while [`Secrets::follow`] runs.
    pub fn subscribe(&self) -> watch::Receiver<Arc<[MeshSecret]>> {
        self.current.subscribe()
    }

    /// Passes the accepted secrets to `changed`, now and up to 1 s after each change of the file,
    /// when all clones have them. Unusable content is logged and counted only. Runs until dropped.
    pub async fn follow(mut self, changed: impl Fn(&[MeshSecret])) {
        loop {
            let secrets = self.accepted();
            METRICS.mesh_secrets.publish(secrets.len() as u64);
            changed(&secrets);
            let secrets = loop {
                match self.file.changed(parse).await {
                    Some(secrets) => break secrets,
                    None => METRICS.mesh_secret_loads.of(Reload::Unusable).inc(),
                };
            };
            let is_another = secrets[0] != self.primary();
            info!(accepted = secrets.len(), is_another, "mesh secret replaced");
            self.current.send_replace(secrets);
            METRICS.mesh_secret_loads.of(Reload::Used).inc();
        }
    }
}

fn parse(content: &[u8]) -> Result<Arc<[MeshSecret]>, String> {
    let lines = (1..).zip(content.split(|byte| *byte == b'\n')).filter(|(_, line)| !line.trim_ascii().is_empty());
    let in_line = |(number, line)| MeshSecret::new(line).map_err(|why| format!("line {number} {why}"));
    let secrets: Arc<[MeshSecret]> = lines.map(in_line).collect::<Result<_, _>>()?;
    match secrets.len() {
        0 => Err("must have a secret".to_owned()),
        1..=MAX_SECRETS => Ok(secrets),
        count => Err(format!("must have at most {MAX_SECRETS} secrets, one per line, has {count}")),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    const OLD: &str = "01d001d001d001d001d001d001d001d001d001d001d001d001d001d001d001d0";
    const NEW: &str = "4e774e774e774e774e774e774e774e774e774e774e774e774e774e774e774e77";

    #[tokio::test(start_paused = true)]
    async fn secret_changes_in_three_steps_and_ignores_invalid_files() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        let write = |lines: &[&str]| std::fs::write(&path, lines.join("\n")).unwrap();
        write(&[OLD, ""]);
        let secrets = Secrets::read(&path).unwrap();
        let (sender, mut lengths) = tokio::sync::mpsc::channel(8);
        let following = secrets.clone().follow(move |secrets| sender.try_send(secrets.len()).unwrap());
        let mut tasks = tokio::task::JoinSet::new();
        tasks.spawn(following);
        assert_eq!(lengths.recv().await, Some(1), "it reports the present secrets");
        let shows = |text: &str| secrets.accepted().contains(&MeshSecret::new(text).unwrap());
        assert_eq!((secrets.primary(), shows(OLD), shows(NEW)), (MeshSecret::new(OLD).unwrap(), true, false));

        write(&[OLD, "short"]);
        assert!(timeout(Duration::from_secs(3), lengths.recv()).await.is_err());
        assert!(shows(OLD));
        for (lines, shown, old, new) in
            [(&[OLD, NEW][..], OLD, true, true), (&[NEW, OLD], NEW, true, true), (&[NEW], NEW, false, true)]
        {
            write(lines);
            assert_eq!(lengths.recv().await, Some(lines.len()));
            tokio::task::yield_now().await;
            assert_eq!(secrets.primary(), MeshSecret::new(shown).unwrap(), "{lines:?}");
            assert_eq!((shows(OLD), shows(NEW)), (old, new), "{lines:?}");
        }
    }

    #[test]
    fn secret_file_holds_one_or_two_secrets() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        for (text, part) in [
            ("\n \n", "must have a secret"),
            (&format!("{OLD}\n0a"), "line 2 must have at least 32"),
            (&[OLD; 3].join("\n"), "at most 2"),
        ] {
            std::fs::write(&path, text).unwrap();
            let message = Secrets::read(&path).unwrap_err().to_string();
            assert!(message.contains(FLAG) && message.contains(part), "{message}");
        }
    }
}
