//! Shared code of the tests in `tests/promises`: a mesh of real processes, clients and tools. Each
//! file there tests one promise.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "test code")]

pub mod babbler;
pub mod chatter;
pub mod chromium;
pub mod crowd;
pub mod cut;
pub mod description;
pub mod drill;
pub mod guest;
pub mod http;
pub mod kubernetes;
pub mod load;
pub mod mesh;
pub mod metrics;
#[path = "../../crates/edge/tests/mint/mod.rs"]
pub mod mint;
pub mod optional;
pub mod peer;
pub mod prometheus;
pub mod python;
pub mod raw_socket;
pub mod rendered;
pub mod room_times;
pub mod runbook;
pub mod store;
pub mod tls;
pub mod token_mesh;
pub mod wait;

pub use babbler::PacedSenders;
pub use chatter::Chatter;
pub use chromium::{Chromium, Page};
pub use crowd::Crowd;
pub use cut::Relay;
pub use drill::Drill;
pub use guest::Guest;
pub use mesh::TestMesh;
pub use peer::Peer;
pub use python::PythonClient;
pub use raw_socket::RawSocket;
pub use room_times::RoomTimes;
pub use store::Store;
pub use wait::{eventually, stays};
