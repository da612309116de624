//! Failures of simpler custody rules, each as the shortest scenario that shows it, on several real
//! cores.
//!
//! Nothing is random and nothing takes time. A step returns when every possible event has
//! happened, except for held back, cut or paused parts. The clock stands still until `pass`.
//! Servers are `a`, `b`, `c` (nodes) and `e`, `f` (edges). `mesh`, `wires`, `sockets` and
//! `clients` are the test bed; all other files are scenarios.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod clients;
mod expiry;
mod handoff;
mod locations;
mod mesh;
mod order;
mod pauses;
mod resume;
mod retransmit_buffer;
mod sockets;
mod takeover;
mod wires;
