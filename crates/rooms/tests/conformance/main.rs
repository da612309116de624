//! Requirements on every store of rooms. Each test runs on the rules in Rust, on a Redis that it
//! starts, and on one and three nodes that own the room. Tests of refreshes and of a store's server
//! process run on the first two: nodes have neither. Tests of claimed seats (`owned_room`) run on
//! the rules.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod contention;
mod equivalence;
mod failover;
mod mesh;
mod outages;
mod owned_room;
mod rooms;
mod server;
mod test_room;
mod waiting;
