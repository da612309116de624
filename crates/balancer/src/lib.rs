//! The balancer: trunks, placement and handoff.
//!
//! | module | responsibility |
//! |---|---|
//! | [`backend`] | assigns clients to trunks, by `signaling_core::balancer` |
//! | [`trunk_manager`] | opens and closes trunks to the nodes of the view |
//! | `operator` | answers under `/admin` |
//! | `pages` | files of the public listener |
//! | [`metrics`] | metrics beyond those of the edge |
//! | [`config`] | flags |
//! | [`run`](run()) | starts all of them on one thread, and drains |
//!
//! The edge crate holds the clients' sockets.

pub mod backend;
pub mod config;
pub mod metrics;
mod operator;
mod pages;
mod run;
pub mod trunk_manager;

pub use run::run;
