use std::io::{self, BufRead as _};
use std::process;
use std::thread;

use anyhow::{Context, Result};
use tokio::sync::oneshot;

/// Line that a worker prints once its clients are connected.
pub(super) const READY: &str = "ready";
/// Line that a worker receives once all are ready.
pub(super) const GO: &str = "go\n";

/// Holds a worker until all are ready. `None` without other processes.
pub(crate) struct Gate(Option<oneshot::Receiver<()>>);

impl Gate {
    pub(super) fn open() -> Self {
        Self(None)
    }

    /// Returns a gate that the first process opens. This process ends with the first one.
    pub(super) fn of_worker() -> Result<Self> {
        let (open, opened) = oneshot::channel();
        let thread = thread::Builder::new().name("first-process".to_owned());
        thread.spawn(|| follow_first_process(open)).context("cannot start a thread")?;
        Ok(Self(Some(opened)))
    }

    /// Reports that this process is ready and returns once all are.
    pub(crate) async fn pass(self) -> Result<()> {
        let Some(opened) = self.0 else { return Ok(()) };
        println!("{READY}");
        opened.await.context("the process that started this one has ended")
    }
}

/// The first process holds the other end of standard input open for as long as it lives.
fn follow_first_process(open: oneshot::Sender<()>) {
    let mut input = io::stdin().lock();
    if input.read_line(&mut String::new()).is_ok_and(|bytes| bytes > 0) {
        // Sending fails when the load has failed meanwhile; then the process ends by itself.
        let _ = open.send(());
        let _ = io::copy(&mut input, &mut io::sink());
    }
    // The reader of standard error has gone, and printing would panic.
    process::exit(1);
}
