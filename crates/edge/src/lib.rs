//! The I/O of an edge: TLS, upgrades, tokens, admission, and the event loop of client sockets and
//! links. `signaling_core::edge` decides. Balancers run an [`Edge`], and nodes with direct clients.
//! A link is a trunk to a node, or the local link: the in-memory path to this process's own node.
//!
//! A message from a client: `sockets` polls for readable clients. `reading` reads into a
//! buffer that all clients share, decodes it and passes each text to the core. The core appends it
//! to a link's batch. The event loop writes trunks; a node's task takes batches of the local link.
//!
//! A message to a client: the event loop reads a trunk, or the task of the local link calls
//! [`Edge::with_core`]. After that call, or after the ready sockets of one poll, `state` writes to
//! the clients with output.

mod address;
mod admission;
mod args;
mod bound;
mod client_socket;
mod closing;
mod config;
mod connect;
mod connection;
mod cors;
pub mod dialect_metrics;
mod dialects;
mod drain;
mod edge;
pub mod handshake;
mod handshakes;
pub mod identity;
mod intake;
mod links;
pub mod metrics;
mod query;
mod reading;
mod refusal_log;
mod sockets;
mod state;
mod tls;
mod token_checks;

pub use self::address::ClientAddresses;
pub use self::admission::AdmissionLimits;
pub use self::args::EdgeArgs;
pub use self::bound::MemoryBound;
pub use self::config::{EdgeConfig, RESERVED_DESCRIPTORS};
pub use self::connect::unavailable;
pub use self::dialects::DialectConfig;
pub use self::drain::{drain_clients, send_goodbye};
pub use self::edge::{Backend, Edge};
pub use self::intake::ClientPort;
pub use self::links::LinkEvent;
pub use self::tls::{Tls, TlsError, TlsFiles};
