//! The stop signal of a server. `runtime` installs it; the servers' `run` waits for it and drains.

use std::io;
use std::sync::Arc;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;
use tracing::{info, warn};

/// Flag of a server that must drain and stop. It is never cleared. Clones share it. The default one
/// installs no signal handlers: only [`Shutdown::begin`] sets it.
#[derive(Clone, Default)]
pub struct Shutdown {
    has_begun: watch::Sender<bool>,
    _signals: Option<Arc<AbortOnDropHandle<()>>>,
}

impl Shutdown {
    /// Creates a flag that SIGTERM or SIGINT sets.
    /// A signal after the flag is set exits the process at once, with 128 plus the signal's number.
    /// Also works for process 1. Panics outside a Tokio runtime with I/O.
    ///
    /// # Errors
    /// If the signal handlers cannot be installed.
    pub fn install() -> io::Result<Self> {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let shutdown = Self::default();
        let flag = shutdown.clone();
        let signals = tokio::spawn(async move {
            loop {
                let kind = tokio::select! {
                    Some(()) = terminate.recv() => SignalKind::terminate(),
                    Some(()) = interrupt.recv() => SignalKind::interrupt(),
                    else => return,
                };
                if *flag.has_begun.borrow() {
                    warn!(signal = kind.as_raw_value(), "exiting at once");
                    std::process::exit(128 + kind.as_raw_value());
                }
                info!(signal = kind.as_raw_value(), "draining; a second signal exits at once");
                flag.begin();
            }
        });
        Ok(Self { _signals: Some(Arc::new(AbortOnDropHandle::new(signals))), ..shutdown })
    }

    /// Sets the flag, like a first signal.
    pub fn begin(&self) {
        self.has_begun.send_replace(true);
    }

    /// Waits until the flag is set, also by an earlier call. Cancel-safe.
    pub async fn begun(&self) {
        // The sender lives in `self`, so waiting cannot fail.
        let _ = self.has_begun.subscribe().wait_for(|has_begun| *has_begun).await;
    }
}
