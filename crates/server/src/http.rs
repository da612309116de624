//! HTTP/1 connections within limits, refusals, built-in files, host names of pages, and the socket
//! after an upgrade.

pub mod files;
pub mod hosts;
mod refuse;
mod serve;
mod upgrade;

pub use refuse::{Refused, not_found, refusal, refusal_summary};
pub use serve::{BadHead, HttpLimits, from_router, serve_connection, serve_router};
pub use upgrade::{UpgradeError, upgraded_from, upgraded_tcp};
