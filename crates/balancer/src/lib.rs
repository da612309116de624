//! The balancer: trunks, placement and handoff.
//!
//! [`placement`] decides which node serves a client and [`moves`] in what order clients move when that changes; [`follower`]
//! keeps the trunks to the nodes, [`trunks`] puts clients on them, the edge crate holds the clients' sockets, and [`run`](run())
//! puts them together. [`flows`] counts who went where, and `metrics` names what its metrics
//! page says beyond the edge's own; `drain` sends the clients away, each at its own moment, before the process ends; `operator`
//! answers under `/admin`; `pages` and `buttons` are what the public listener serves beside sockets. One thread does it all.

mod buttons;
mod carrier;
pub mod config;
mod drain;
pub mod flows;
pub mod follower;
pub mod metrics;
pub mod moves;
mod operator;
mod pages;
pub mod placement;
mod run;
pub mod trunks;

pub use run::run;
