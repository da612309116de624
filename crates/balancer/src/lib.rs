//! The balancer: trunks, placement and handoff.
//!
//! [`placement`] decides which node serves a client, [`trunks`] carries frames to the nodes and moves clients when the set
//! of nodes changes, the edge crate holds the clients' sockets, and [`run`] puts them together. One thread does it all.

pub mod config;
mod drain;
mod pages;
pub mod placement;
mod run;
pub mod trunks;

pub use run::run;
