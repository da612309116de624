//! What simulated faults showed about the node's core, each as the shortest story that shows it. `node` is the stage; all
//! other files are stories.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod downs;
mod fates;
mod node;
mod operators;
mod peers;
mod proven;
mod reliable;
mod sessions;
mod time_of_day;
