//! Signals, and the phases they lead to.

use std::io;
use std::sync::Arc;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;
use tracing::{info, warn};

/// How far a server's life has come. Phases only go forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Takes work.
    Running,
    /// Takes none, and hands over what it has.
    Draining,
    /// Has nothing left, or no time: tasks end now.
    Stopped,
}

/// The phase of this server. A cheap clone shares it.
#[derive(Clone)]
pub struct Shutdown {
    phase: watch::Sender<Phase>,
    _signals: Option<Arc<AbortOnDropHandle<()>>>,
}

impl Shutdown {
    /// Running, and deaf to signals: for tests, and servers inside another process.
    #[must_use]
    pub fn new() -> Self {
        Self { phase: watch::Sender::new(Phase::Running), _signals: None }
    }

    /// Running, until SIGTERM or SIGINT says to drain; a second one exits the process at once, with 128 and the signal's
    /// number. Works as process 1, too. Needs a Tokio runtime with I/O.
    ///
    /// # Errors
    /// If the signals cannot be caught.
    pub fn install() -> io::Result<Self> {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let shutdown = Self::new();
        let heard = shutdown.clone();
        let signals = tokio::spawn(async move {
            loop {
                let kind = tokio::select! {
                    Some(()) = terminate.recv() => SignalKind::terminate(),
                    Some(()) = interrupt.recv() => SignalKind::interrupt(),
                    else => return,
                };
                if heard.phase() > Phase::Running {
                    warn!(signal = kind.as_raw_value(), "exiting at once");
                    std::process::exit(128 + kind.as_raw_value());
                }
                info!(signal = kind.as_raw_value(), "draining; a second signal exits at once");
                heard.drain();
            }
        });
        Ok(Self { _signals: Some(Arc::new(AbortOnDropHandle::new(signals))), ..shutdown })
    }

    /// The phase now.
    #[must_use]
    pub fn phase(&self) -> Phase {
        *self.phase.borrow()
    }

    /// Begins to drain, as a first signal does.
    pub fn drain(&self) {
        self.advance(Phase::Draining);
    }

    /// Says that draining is over.
    pub fn stop(&self) {
        self.advance(Phase::Stopped);
    }

    /// Waits until the server drains or has stopped.
    pub async fn draining(&self) {
        self.reached(Phase::Draining).await;
    }

    /// Waits until the server has stopped.
    pub async fn stopped(&self) {
        self.reached(Phase::Stopped).await;
    }

    fn advance(&self, to: Phase) {
        self.phase.send_if_modified(|phase| {
            let forward = *phase < to;
            *phase = to.max(*phase);
            forward
        });
    }

    async fn reached(&self, wanted: Phase) {
        // The sender lives in `self`, so waiting cannot fail.
        let _ = self.phase.subscribe().wait_for(|phase| *phase >= wanted).await;
    }
}

impl Default for Shutdown {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn phases_only_go_forward() {
        let shutdown = Shutdown::new();
        assert_eq!(shutdown.phase(), Phase::Running);
        shutdown.stop();
        shutdown.drain();
        assert_eq!(shutdown.phase(), Phase::Stopped);
        shutdown.draining().await;
        shutdown.stopped().await;
    }
}
