//! Regression tests of the node's core for faults from simulations, each as its shortest course of
//! events. `node` has the harness, and each other file has test cases.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod credentials;
mod downs;
mod node;
mod operators;
mod outcomes;
mod peers;
mod reliable;
mod sessions;
mod time_of_day;
mod verified_token;
