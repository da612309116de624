//! The journal of a node's core on a real Redis, as readers see it.

// Tests read the clock.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

mod faults;
mod node;
mod registry;
mod rooms;
mod server;
