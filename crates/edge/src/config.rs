//! Settings of an edge.

use std::io;
use std::net::SocketAddr;

use signaling_core::edge::Settings;
use signaling_server::coalescer::Coalescer;
use signaling_server::http::HttpLimits;
use signaling_server::{Listener, SharedPort};
use tracing::warn;

use crate::identity::IdentityConfig;
use crate::{AdmissionLimits, ClientAddresses, ClientPort, DialectConfig, Tls};

/// Descriptors that public connections leave free for trunks, connections to peer nodes, discovery,
/// secrets and the internal listener; less if few are available, see [`EdgeConfig::within`].
pub const RESERVED_DESCRIPTORS: usize = 1_024;
/// Divisor of the reserved part where descriptors are few.
const RESERVED_PART: usize = 4;
/// Divisor of the public connections that clients cannot take, so that new requests are answered.
const NEWCOMERS_PART: usize = 16;

/// Settings of an edge.
#[derive(Debug, Clone)]
pub struct EdgeConfig {
    /// Limits of client sockets and of their arrival rate.
    pub admission: AdmissionLimits,
    /// Maximum size of a client's message, in bytes; more than 1 MiB counts as 1 MiB. A larger
    /// message closes the socket with code 1009. The limits of dialects are at least 1 KiB lower.
    pub max_message_bytes: usize,
    /// Maximum connections that are not clients: before their upgrade, refused, or loading pages.
    /// One more closes the oldest.
    pub handshakes: usize,
    /// Maximum public connections, clients' and others; lowered by [`EdgeConfig::within`]. One more
    /// closes the oldest that is not a client. The new one is accepted even if all are clients.
    pub connections: usize,
    /// Limits of a request before its answer. The head timeout also limits the PROXY header and the
    /// TLS handshake, each on its own.
    pub http: HttpLimits,
    /// Source of clients' addresses.
    pub addresses: ClientAddresses,
    /// `true` if other processes may listen on the address for clients too.
    pub reuse_port: bool,
    /// TLS of the public listener; `None`: clients connect without TLS.
    pub tls: Option<Tls>,
    /// Settings of the core. `max_memory_bytes` also limits partial messages, counted separately.
    pub core: Settings,
    /// Rules for tokens and origins of clients.
    pub identity: IdentityConfig,
    /// Dialects of existing clients beside the native protocol.
    pub dialects: DialectConfig,
    /// Delay of reads while the server is busy. Unused while the edge has no trunk.
    pub coalescer: Coalescer,
}

impl EdgeConfig {
    /// Binds the address for clients.
    ///
    /// # Errors
    /// As for [`Listener::bind`].
    pub fn bind(&self, address: SocketAddr) -> io::Result<ClientPort> {
        if !self.reuse_port {
            return Listener::bind(address).map(ClientPort::Own);
        }
        warn!(listen = %address, "other processes of this user may listen on the address for clients too (--reuse-port)");
        SharedPort::bind(address).map(ClientPort::Shared)
    }

    /// Lowers the limits so that public connections leave descriptors of `open_files` free: 1,024,
    /// or a quarter if that is less. Client sockets take at most 15/16 of the rest, so that
    /// requests are still answered.
    #[must_use]
    pub fn within(mut self, open_files: u64) -> Self {
        let open_files = usize::try_from(open_files).unwrap_or(usize::MAX);
        let public = open_files - RESERVED_DESCRIPTORS.min(open_files / RESERVED_PART);
        self.connections = self.connections.min(public);
        self.admission.sockets = self.admission.sockets.min(public - public / NEWCOMERS_PART);
        self
    }
}
