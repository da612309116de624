//! The balancer: trunks, placement and handoff.
//!
//! | module | responsibility |
//! |---|---|
//! | [`follower`] | trunks to the nodes of the view |
//! | [`trunks`] | assigns clients to trunks, by `signaling_core::balancer` |
//! | `drain` | closes the clients' sockets one by one before the process ends |
//! | `operator` | answers under `/admin` |
//! | `pages`, `buttons` | pages of the public listener |
//! | [`metrics`] | metrics beyond those of the edge |
//! | [`run`](run()) | starts all of them on one thread |
//!
//! The edge crate holds the clients' sockets.

mod buttons;
mod carrier;
pub mod config;
mod drain;
pub mod follower;
pub mod metrics;
mod operator;
mod pages;
mod run;
pub mod trunks;

pub use run::run;
