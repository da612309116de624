//! Address for clients. Processes that share it listen only while they take clients: a drain closes
//! the listener, so that the kernel gives new connections to the other processes. `edge` accepts.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use signaling_protocol::Backoff;
use signaling_server::{Listener, SharedPort};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

/// Maximum time until the listener is closed. It is longer only if nothing accepts connections.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
const MIN_PAUSE: Duration = Duration::from_millis(50);
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// The address for clients.
#[derive(Debug)]
pub enum ClientPort {
    /// This process listens from its start to its end.
    Own(Listener),
    /// This process listens while it is ready and does not drain.
    Shared(SharedPort),
}

impl ClientPort {
    /// Returns the bound address, with the selected port.
    pub fn local_addr(&self) -> SocketAddr {
        match self {
            Self::Own(listener) => listener.local_addr(),
            Self::Shared(port) => port.local_addr(),
        }
    }
}

/// Wish for a listener on a shared address, and whether there is one.
#[derive(Debug)]
pub(super) struct Intake {
    is_wanted: watch::Sender<bool>,
    is_open: watch::Sender<bool>,
}

impl Default for Intake {
    fn default() -> Self {
        Self { is_wanted: watch::Sender::new(true), is_open: watch::Sender::new(false) }
    }
}

impl Intake {
    /// Has the listener closed, and waits until it is.
    pub(super) async fn close(&self) {
        self.is_wanted.send_replace(false);
        let mut is_open = self.is_open.subscribe();
        if timeout(CLOSE_TIMEOUT, is_open.wait_for(|is_open| !is_open)).await.is_err() {
            warn!("the listener for clients is not closed, newcomers are refused");
        }
    }

    /// Has the listener opened again.
    pub(super) fn open(&self) {
        self.is_wanted.send_replace(true);
    }

    /// Waits until a listener is wanted, or with `false` unwanted.
    pub(super) async fn until(&self, wanted: bool) {
        // The sender outlives this call.
        let _ = self.is_wanted.subscribe().wait_for(|is_wanted| *is_wanted == wanted).await;
    }

    /// Listens once a listener is wanted. Retries until it succeeds, and logs each failure.
    pub(super) async fn opened(&self, address: SocketAddr, mut port: io::Result<SharedPort>) -> Listener {
        let mut pause = Backoff::new(MIN_PAUSE, MAX_PAUSE);
        loop {
            self.until(true).await;
            match port.and_then(SharedPort::listen) {
                Ok(listener) => {
                    info!(listen = %address, "listens for clients on a shared address");
                    self.is_open.send_replace(true);
                    return listener;
                }
                Err(error) => warn!(%error, "no listener for clients"),
            }
            sleep(pause.next_limit()).await;
            port = SharedPort::bind(address);
        }
    }

    /// Reports that the listener is closed.
    pub(super) fn closed(&self, address: SocketAddr) {
        info!(listen = %address, "the listener for clients is closed, other processes accept them");
        self.is_open.send_replace(false);
    }
}
