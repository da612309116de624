//! Rooms at nodes, without a network: what clients are told, in which order, and what becomes of their seats. `stage` has the nodes,
//! the store and the clients; all other files are stories.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod broadcasts;
mod commands;
mod grants;
mod line;
mod moves;
mod outages;
mod stage;
