//! Requirements on every store. Each test runs on the rules in Rust and on a Redis that it starts,
//! except those in `owned_room`: a room with claimed seats is in no store.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod contention;
mod equivalence;
mod failover;
mod outages;
mod owned_room;
mod prefixes;
mod rooms;
mod server;
mod test_room;
mod waiting;
