//! The signaling node: sessions, router, hold queue and forwarder.
//!
//! | module | responsibility |
//! |---|---|
//! | [`config`], `ice_args` | flags |
//! | `kick_file` | kicks that outlast a restart of all servers |
//! | [`shell`] | I/O around the decisions of `signaling_core::node` |
//! | [`run`](run()) | starts all of them on one thread |
//!
//! A machine with more cores runs more nodes.

pub mod config;
mod ice_args;
mod kick_file;
mod run;
pub mod shell;

pub use run::run;
