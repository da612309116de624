//! Tests of rooms at nodes without a network: messages to clients, their order, and seats. `stage`
//! has the nodes, the store and the clients. Each other file has test cases.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod broadcasts;
mod commands;
mod delayed_broadcasts;
mod dialect_rooms;
mod ends_with_socket;
mod grants;
mod handoff;
mod mesh_rooms;
mod outages;
mod reserved;
mod stage;
mod waiting;
