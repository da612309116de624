//! Upper bound of an edge's memory by its settings.

use std::fmt;

use signaling_metrics::Publish;
use tracing::info;

use super::EdgeConfig;
use super::metrics::METRICS;

/// The process before the first client, with the buffers that all clients share.
const FIXED: usize = 32 * MIB;
/// An idle client: its session, its table entries, and the few senders that are remembered even
/// while memory is scarce.
const SOCKET: usize = 4 * 1024;
/// TLS per connection: the session, and its buffers while a record is sent or received.
const TLS: usize = 40 * 1024;
/// A connection that is not a client: HTTP buffers beside those of its head.
const HANDSHAKE: usize = 12 * 1024;
/// Factor for client data: it is copied while it is sent to a node, and buffers grow by doubling.
const COPIES: usize = 2;
const MIB: usize = 1024 * 1024;

/// Maximum memory of a server's clients, in bytes of the process, without the kernel's socket
/// buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryBound {
    /// Memory before the first client.
    pub fixed: usize,
    /// Counted client sockets: the limit, or less if there are fewer descriptors.
    pub sockets: usize,
    /// Memory for all client sockets.
    pub for_sockets: usize,
    /// Memory for connections that are not clients.
    pub for_handshakes: usize,
    /// Memory for data that is kept for clients, including the state of remembered senders.
    pub for_buffers: usize,
}

impl MemoryBound {
    /// Computes the bound of these settings.
    #[must_use]
    pub fn of(config: &EdgeConfig) -> Self {
        let (sockets, handshakes) = (config.admission.sockets, config.handshakes.min(config.connections));
        let tls = if config.tls.is_some() { TLS } else { 0 };
        Self {
            fixed: FIXED,
            sockets,
            for_sockets: sockets.saturating_mul(SOCKET + tls),
            for_handshakes: handshakes.saturating_mul(HANDSHAKE + config.http.buffer_bytes + tls),
            for_buffers: config.buffer_bytes.saturating_mul(COPIES + 1),
        }
    }

    /// Logs the bound and publishes it as a metric. `whose` names the clients in the log.
    pub fn announce(&self, whose: &str) {
        info!("memory for {whose} is at most {self}");
        METRICS.memory_bound.publish(self.total() as u64);
    }

    /// Returns the sum of all parts.
    #[must_use]
    pub fn total(&self) -> usize {
        let parts = [self.fixed, self.for_sockets, self.for_handshakes, self.for_buffers];
        parts.into_iter().fold(0, usize::saturating_add)
    }
}

impl fmt::Display for MemoryBound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = |bytes: usize| bytes.div_ceil(MIB);
        let Self { fixed, sockets, for_sockets, for_handshakes, for_buffers } = *self;
        write!(
            f,
            "{} MiB: {} itself, {} for {sockets} clients (--max-sockets, or the open files), {} for connections that are not \
             clients (--max-handshakes), {} for what is kept for clients (--max-client-buffer-bytes)",
            mib(self.total()),
            mib(fixed),
            mib(for_sockets),
            mib(for_handshakes),
            mib(for_buffers),
        )
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use signaling_server::coalescer::Coalescer;
    use signaling_server::http::HttpLimits;

    use super::super::{AdmissionLimits, ClientAddresses};
    use super::*;
    use crate::identity::IdentityConfig;
    use signaling_core::edge::PaceLimits;

    #[test]
    fn the_bound_is_the_sum_of_its_parts_and_counts_with_the_descriptors_there_are() {
        let config = EdgeConfig {
            admission: AdmissionLimits { sockets: 1_000_000, per_address: None, rate: 2_000, rate_per_address: None },
            max_message_bytes: 65_536,
            handshakes: 1_024,
            connections: usize::MAX,
            http: HttpLimits::PUBLIC,
            addresses: ClientAddresses::default(),
            tls: None,
            pace: PaceLimits::default(),
            rate_classes: BTreeMap::new(),
            identity: IdentityConfig::default(),
            coalescer: Coalescer::disabled(),
            heartbeat: Duration::from_secs(25),
            buffer_bytes: 64 * MIB,
        };
        let bound = MemoryBound::of(&config.within(20_480));
        assert_eq!((bound.sockets, bound.for_sockets / MIB, bound.for_handshakes / MIB), (18_240, 71, 28));
        assert_eq!(bound.total() / MIB, 32 + 71 + 28 + 192);
        assert!(bound.to_string().starts_with("324 MiB: 32 itself, 72 for 18240 clients"), "{bound}");
    }
}
