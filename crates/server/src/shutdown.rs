//! Stop signals and the phases of a server.

use std::io;
use std::sync::Arc;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;
use tracing::{info, warn};

/// Phase of a server. Phases only advance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Takes work.
    Running,
    /// Takes no work, and hands over its clients.
    Draining,
    /// Has ended its work or its time. Tasks end now.
    Stopped,
}

/// The phase of this server. Clones share it.
#[derive(Clone)]
pub struct Shutdown {
    phase: watch::Sender<Phase>,
    _signals: Option<Arc<AbortOnDropHandle<()>>>,
}

impl Shutdown {
    /// Creates a running server that ignores signals, for tests and servers inside another process.
    #[must_use]
    pub fn new() -> Self {
        Self { phase: watch::Sender::new(Phase::Running), _signals: None }
    }

    /// Creates a running server that drains on SIGTERM or SIGINT.
    ///
    /// A second signal exits the process at once, with 128 plus the signal's number. It also works
    /// as process 1, and needs a Tokio runtime with I/O.
    ///
    /// # Errors
    /// If the handlers cannot be installed.
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

    /// Returns the current phase.
    #[must_use]
    pub fn phase(&self) -> Phase {
        *self.phase.borrow()
    }

    /// Starts to drain, like a first signal.
    pub fn drain(&self) {
        self.advance(Phase::Draining);
    }

    /// Ends the drain.
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
