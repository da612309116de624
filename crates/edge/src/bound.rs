//! Upper bound of an edge's memory, computed from its settings. `run` of both servers logs it.

use signaling_metrics::Publish;
use tracing::info;

use crate::EdgeConfig;
use crate::metrics::METRICS;

/// Bytes of the process before the first client, with the buffers that all clients share.
const FIXED: usize = 32 * 1024 * 1024;
/// Bytes of an idle client: session, table entries, and few senders kept while memory is scarce.
const SOCKET: usize = 4 * 1024;
/// Bytes of TLS per connection: the session, and its buffers while a record is sent or received.
const TLS: usize = 40 * 1024;
/// Bytes of a connection that is not a client: HTTP buffers beside those of its head.
const HANDSHAKE: usize = 12 * 1024;
/// Factor for client data: it is copied while it is sent to a node, and buffers grow by doubling.
const COPIES: usize = 2;

/// Maximum memory of a server with its clients, in bytes, without socket buffers of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryBound {
    /// Number of client sockets: the limit, lowered for the descriptors by [`EdgeConfig::within`].
    pub sockets: usize,
    /// Bytes for all client sockets.
    pub for_sockets: usize,
    /// Bytes for connections that are not clients.
    pub for_handshakes: usize,
    /// Bytes for data that is kept for clients, including partial messages and remembered senders:
    /// three times [`max_memory_bytes`](signaling_core::edge::Settings::max_memory_bytes).
    pub for_buffers: usize,
}

impl MemoryBound {
    /// Computes the bound of these settings.
    pub fn of(config: &EdgeConfig) -> Self {
        let (sockets, handshakes) = (config.admission.sockets, config.handshakes.min(config.connections));
        let tls = if config.tls.is_some() { TLS } else { 0 };
        Self {
            sockets,
            for_sockets: sockets.saturating_mul(SOCKET + tls),
            for_handshakes: handshakes.saturating_mul(HANDSHAKE + config.http.buffer_bytes + tls),
            for_buffers: config.core.max_memory_bytes.saturating_mul(COPIES + 1),
        }
    }

    /// Logs the bound and publishes it as a metric. `whose` names the clients in the log.
    pub fn announce(&self, whose: &str) {
        let mib = |bytes: usize| bytes.div_ceil(1024 * 1024);
        info!(
            clients = whose,
            total_mib = mib(self.total()),
            sockets = self.sockets,
            sockets_mib = mib(self.for_sockets),
            handshakes_mib = mib(self.for_handshakes),
            buffers_mib = mib(self.for_buffers),
            "memory bound, see --max-sockets, --max-handshakes and --max-client-buffer-bytes"
        );
        METRICS.memory_bound.publish(self.total() as u64);
    }

    /// Returns the sum of all parts and of the process without clients, in bytes.
    pub fn total(&self) -> usize {
        let parts = [FIXED, self.for_sockets, self.for_handshakes, self.for_buffers];
        parts.into_iter().fold(0, usize::saturating_add)
    }
}
