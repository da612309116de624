//! What broke simpler rules of custody, each as the shortest story that shows it: several real cores, moved by hand.
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
mod stores;
mod takeover;
mod wires;
