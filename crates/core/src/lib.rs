//! Decisions of the signaling servers, as state machines without I/O.
//!
//! | module | decides |
//! |---|---|
//! | [`edge`] | sessions behind client sockets: numbers, deduplication, acks, limits |
//! | [`node`] | sessions that a node owns: routes, custody, lanes to peer nodes, rooms |
//! | [`balancer`] | which node serves a client, and when its session is handed off |
//! | [`rate_class`] | valid rates of flags and tokens |
//! | [`ice`] | STUN and TURN servers, with credentials, that clients receive |
//! | [`ws`] | WebSocket frames of client sockets, as bytes |
//!
//! No code here awaits, sleeps, or reads a clock or a random source. Inputs and the time go in,
//! frames and effects come out. The servers' shells call these modules from their event loops, and
//! the simulation runs whole meshes of them from a seed.

// The ban on clocks is for decisions; tests choose a start.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod balancer;
pub mod edge;
#[cfg(test)]
mod fixtures;
pub mod ice;
mod lateness;
pub mod node;
pub mod rate_class;
pub mod ws;

pub use lateness::TooLate;
