//! The signaling node: sessions, router, hold queue and forwarder.

pub mod core;
