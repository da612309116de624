//! Dialects: wire protocols of existing signaling clients, which use the mesh unmodified.
//!
//! An edge (`edge/dialects.rs`) passes each request below a dialect's mount to
//! [`Dialect::request`]. An upgrade yields an [`Opening`] with a [`Translator`]. `EdgeCore`
//! (`core/edge/dialects.rs`) passes it frames of the client, messages of the mesh and the time, and
//! carries out its [`Out`]. Nodes see native requests only.
//!
//! No I/O, no clock and no randomness: time and random bytes are arguments. All state is bounded.
//!
//! | module | content |
//! |---|---|
//! | [`dialect`] | the dialects, their mounts and limits |
//! | `name` | client ids and rooms of the dialects in the mesh |
//! | [`request`] | HTTP requests, their answers, and what an edge needs to open a session |
//! | [`translator`] | inputs and outputs of a translator |
//! | [`event`] | countable events for the edge's metrics |
//! | [`peerjs`] | PeerJS |
//! | `topics` | topics of `y_webrtc` and `trystero` |
//! | `rxdb`, `matchbox`, `gstreamer`, `pixel_streaming` | the other dialects |
//! | `native` | messages from and to the mesh |
//! | `room_requests`, `held` | room requests without an outcome, messages that wait |
//! | `json`, `query` | readers of objects and queries |

// Tests may read the clock.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod dialect;
pub mod event;
mod gstreamer;
mod held;
mod json;
mod matchbox;
mod name;
mod native;
pub mod peerjs;
mod pixel_streaming;
mod query;
pub mod request;
mod room_requests;
mod rxdb;
mod topics;
pub mod translator;
mod trystero;
mod y_webrtc;

pub use dialect::{Dialect, Settings};
pub use request::{Answer, Head, Opening};
pub use translator::{Close, Input, Out, Translator};
