//! The WebSocket edge: accept, limits, heartbeat, slow clients, and the client's half of custody.

pub mod core;
pub mod handshake;
pub mod identity;
pub mod rate_class;
pub mod shell;
pub mod ws;
