//! Tests of the edge's core, each as its shortest course of events.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod custody;
mod dialects;
mod lateness;
mod limits;
mod nodes;
mod proofs;
mod slow_links;
mod stage;
mod tokens;
