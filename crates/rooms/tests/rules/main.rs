//! Rules of rooms. Tests in `members`, `waiting` and `operators` run on one room, and on one and
//! three nodes that own it. `claims` has seats and their sessions by the rules alone, `equivalence`
//! any operations.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod claims;
mod equivalence;
mod members;
mod mesh;
mod operations;
mod operators;
mod test_room;
mod waiting;
