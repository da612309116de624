//! Shared code of the tests in `tests/promises`: a mesh of real processes, clients and tools. Each
//! file there tests one promise.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "test code")]

pub mod chatter;
pub mod chromium;
pub mod crowd;
pub mod cut;
pub mod description;
pub mod dialect_client;
pub mod drill;
pub mod full_room;
pub mod http;
pub mod kubernetes;
pub mod load;
pub mod mesh;
pub mod metrics;
#[path = "../../crates/edge/tests/mint/mod.rs"]
pub mod mint;
pub mod npm;
pub mod other_server;
pub mod paced_senders;
pub mod peer;
pub mod programs;
pub mod prometheus;
pub mod raw_socket;
#[path = "../../crates/journal/tests/redis/server.rs"]
pub mod redis;
pub mod rendered;
pub mod room_client;
pub mod room_drill;
pub mod room_times;
pub mod tls;
pub mod upstream;
pub mod wait;

pub use chatter::Chatter;
pub use chromium::{Chromium, Page};
pub use crowd::Crowd;
pub use cut::Relay;
pub use dialect_client::DialectClient;
pub use drill::{Clients, drill, setting};
pub use full_room::FullRoom;
pub use http::{
    Answer, Head, admin, ask, ask_on, ask_to_the_end, connect, connect_from, ends, get, host, operator, refused,
};
pub use load::{mesh_load, mesh_load_alone};
pub use mesh::{TestMesh, admin_token, binaries, with_buttons};
pub use metrics::{becomes, metric, until};
pub use mint::{Signer, claims, claims_with};
pub use other_server::OtherServer;
pub use paced_senders::PacedSenders;
pub use peer::{Peer, exchange, talk};
pub use programs::{LineProgram, missing, program, python};
pub use raw_socket::RawSocket;
pub use rendered::{assert_document, repository};
pub use room_client::{RoomClient, SeatStatus};
pub use room_drill::RoomDrill;
pub use room_times::RoomTimes;
pub use tls::{Certificate, SecureMesh};
pub use upstream::UpstreamMesh;
pub use wait::{during, eventually, stays, until_some, within};
