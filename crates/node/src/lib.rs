//! The signaling node: sessions, router, hold queue and forwarder.
//!
//! [`core`] decides, [`shell`] does the I/O around it, [`config`] reads the flags, [`ice`] says what ICE servers clients are told of,
//! [`room_store`] opens what keeps rooms, and [`run`] puts them together. One thread does it all; more cores are used by more
//! nodes.

pub mod config;
pub mod core;
pub mod ice;
mod reassign;
pub mod room_store;
mod run;
pub mod shell;

pub use run::run;
