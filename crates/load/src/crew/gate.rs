use std::io::{self, BufRead as _};
use std::process;
use std::thread;

use anyhow::{Context, Result};
use tokio::sync::oneshot;

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
    Told(oneshot::Receiver<()>),
}

impl Gate {
    /// A gate, and what fires when it has been passed.
    pub(super) fn own() -> (Self, oneshot::Receiver<()>) {
        let (passed, hears) = oneshot::channel();
        (Self(Kind::Own(passed)), hears)
    }

    /// A gate that the first process opens. From now on this process ends with it, however that one ends.
    pub(super) fn told_by_the_first() -> Result<Self> {
        let (open, told) = oneshot::channel();
        thread::Builder::new()
            .name("first-process".to_owned())
            .spawn(|| listen_to_the_first(open))
            .context("cannot start a thread")?;
        Ok(Self(Kind::Told(told)))
    }

    /// Says that this process is ready, and returns once all are.
    pub(crate) async fn pass(self) -> Result<()> {
        match self.0 {
            Kind::Own(passed) => {
                // Nobody listens when what runs beside the load has failed already.
                let _ = passed.send(());
                Ok(())
            }
            Kind::Told(told) => {
                println!("{READY}");
                told.await.context("cannot hear the process that started this one")
            }
        }
    }
}

/// The first process holds the other end of the standard input open for as long as it lives.
fn listen_to_the_first(open: oneshot::Sender<()>) {
    let mut input = io::stdin().lock();
    let heard = input.read_line(&mut String::new());
    if heard.is_ok_and(|bytes| bytes > 0) {
        // Nobody waits when the load has failed meanwhile: then the process ends by itself.
        let _ = open.send(());
        // Nothing more is said; what ends the copying is the end of the first process.
        let _ = io::copy(&mut input, &mut io::sink());
    }
    // Without a word: who would read it has gone, and to write it there would panic.
    process::exit(1);
}
