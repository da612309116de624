//! Changes and faults of each source of nodes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod dns;
mod file;
mod kubernetes;
mod support;
