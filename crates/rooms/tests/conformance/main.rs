//! Requirements on every store. Each test runs on the memory store and on a Redis that it starts.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod alike;
mod contention;
mod failover;
mod line;
mod outages;
mod people;
mod prefixes;
mod registry;
mod rooms;
mod sentinel;
mod server;
