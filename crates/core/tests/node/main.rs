//! Tests of the node's core without a network. `node` has a node that is driven by hand, for faults
//! from simulations, each as its shortest course of events. `stage` has nodes with rooms
//! and clients. Each other file has test cases.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod broadcasts;
mod clocks;
mod commands;
mod credentials;
mod delayed_broadcasts;
mod dialect_rooms;
mod ends_with_socket;
mod grants;
mod handoff;
mod lateness;
mod mesh_rooms;
mod node;
mod operators;
mod outages;
mod outcomes;
mod pauses;
mod peers;
mod proofs;
mod reliable;
mod removals;
mod reserved;
mod room_rates;
mod sessions;
mod stage;
mod time_of_day;
mod waiting;
