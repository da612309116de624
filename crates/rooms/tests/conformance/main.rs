//! Requirements on every store of rooms. Tests in `rooms` and `waiting` run on the rules in Rust,
//! on a Redis that they start, and on one and three nodes that own the room. Their tests of
//! refreshes and of a store's server process run on the first two: nodes have neither.
//! `contention`, `failover` and `outages` test a Redis, `owned_room` claimed seats by the rules.
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
