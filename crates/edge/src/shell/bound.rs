//! How much memory an edge's settings come to at most.

use std::fmt;

use signaling_metrics::Publish;
use tracing::info;

use super::EdgeConfig;
use super::metrics::METRICS;

/// The process before the first client, with buffers that all clients share.
const FIXED: usize = 32 * MIB;
/// A client that is in and says nothing: its session, its task, its places in tables, and the few
/// senders to it that are remembered even while memory is scarce.
const SOCKET: usize = 4 * 1024;
/// What TLS adds: the session, and its buffers while a record comes or goes.
const TLS: usize = 40 * 1024;
/// A connection that is not a client: buffers of HTTP beside those of its head.
const HANDSHAKE: usize = 12 * 1024;
/// What is kept of clients is copied while it is on its way to a node, and buffers grow by doubling.
const COPIES: usize = 2;
const MIB: usize = 1024 * 1024;

/// The most that a server's clients can make it use, in bytes of its own memory; the kernel's buffers for sockets are not in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryBound {
    /// Before the first client.
    pub fixed: usize,
    /// Sockets that are counted with: as many as are allowed, or as there are descriptors.
    pub sockets: usize,
    /// For all of these.
    pub for_sockets: usize,
    /// For connections that are not clients.
    pub for_handshakes: usize,
    /// For what clients have it keep, what is remembered of senders included.
    pub for_buffers: usize,
}

impl MemoryBound {
    /// What these settings come to.
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

    /// Says it in the log, and shows it among the metrics, beside what the process has. `whose`: which clients they are.
    pub fn announce(&self, whose: &str) {
        info!("memory for {whose} is at most {self}");
        METRICS.memory_bound.publish(self.total() as u64);
    }

    /// All of it.
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
