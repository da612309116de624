//! What broke simpler rules of custody, each as the shortest story that shows it: several real cores, moved by hand.
//!
//! Nothing is random and nothing takes time: whatever can happen at once has happened when a step returns, but for what
//! the story holds back, cuts or pauses, and the clock stands until it says `pass`. Servers are `a`, `b`, `c` (nodes)
//! and `e`, `f` (edges). `mesh`, `wires`, `sockets` and `clients` are the stage; all other files are stories.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod bounds;
mod clients;
mod cuts;
mod expiry;
mod handoff;
mod locations;
mod mesh;
mod order;
mod outbox;
mod pauses;
mod reliable;
mod resume;
mod sockets;
mod stores;
mod takeover;
mod views;
mod wires;
