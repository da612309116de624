//! The WebSocket edge: admission, limits, heartbeat, slow clients, and the client side of custody.

pub mod handshake;
pub mod identity;
pub mod shell;
