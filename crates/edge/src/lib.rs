//! The I/O of an edge: TLS, upgrades, tokens, admission, and the event loop of client sockets and
//! links. `signaling_core::edge` decides. Balancers run it, and nodes with direct clients.

pub mod handshake;
pub mod identity;
pub mod shell;
