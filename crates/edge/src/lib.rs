//! The WebSocket edge: accept, limits, heartbeat, slow clients, and the client's half of custody.

pub mod handshake;
pub mod identity;
pub mod shell;
