use anyhow::{Context, Result, bail};
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;

/// What a process says once its clients are connected.
pub(super) const READY: &str = "ready";
/// What it hears when all are.
pub(super) const GO: &str = "go\n";

/// Where a process waits until the whole crew is ready.
pub(crate) struct Gate(Kind);

enum Kind {
    /// There is nobody to wait for; the first process hears that its load begins.
    Own(oneshot::Sender<()>),
    /// The first process says when.
    Told,
}

impl Gate {
    /// A gate, and what fires when it has been passed.
    pub(super) fn own() -> (Self, oneshot::Receiver<()>) {
        let (passed, hears) = oneshot::channel();
        (Self(Kind::Own(passed)), hears)
    }

    pub(super) fn told_by_the_first() -> Self {
        Self(Kind::Told)
    }

    /// Says that this process is ready, and returns once all are.
    pub(crate) async fn pass(self) -> Result<()> {
        match self.0 {
            Kind::Own(passed) => {
                // Nobody listens when what runs beside the load has failed already.
                let _ = passed.send(());
                Ok(())
            }
            Kind::Told => {
                println!("{READY}");
                let read = spawn_blocking(|| std::io::stdin().read_line(&mut String::new()));
                match read.await.context("the wait for the others was stopped")?.context("cannot hear the others")? {
                    0 => bail!("the process that started this one has gone"),
                    _ => Ok(()),
                }
            }
        }
    }
}
