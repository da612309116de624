//! Requests to the mesh, as a native client would send them.

use std::fmt::Write as _;

/// A native request: one uplink frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The message as JSON text.
    pub text: String,
    /// Options of a room that this `join` may create. `None`: no `join`.
    pub room: Option<RoomOptions>,
}

/// Options of a room. The `join` that creates the room fixes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoomOptions {
    /// Changes that members receive.
    pub events: RoomEvents,
    /// `true` if other clients may broadcast and list members.
    pub open: bool,
}

/// Changes of a room that its members receive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RoomEvents {
    /// No `joined` and no `members_changed`.
    None,
    /// All changes at once, not combined over 0.2 s.
    Prompt,
}

impl Request {
    /// Creates a `signal`. The mesh holds it at most `ttl_ms` milliseconds.
    pub(crate) fn signal(id: u64, to: &str, data: &str, ttl_ms: u64) -> Self {
        let mut text = String::with_capacity(to.len() + data.len() + 96);
        let _ = write!(text, r#"{{"type":"signal","to":"{to}","data":{data},"id":{id},"ttl_ms":{ttl_ms}}}"#);
        Self { text, room: None }
    }

    /// Creates a `join`.
    pub(crate) fn join(id: u64, room: &str, options: RoomOptions) -> Self {
        Self { text: format!(r#"{{"type":"join","room":"{room}","id":{id}}}"#), room: Some(options) }
    }

    /// Creates a `leave`.
    pub(crate) fn leave(id: u64, room: &str) -> Self {
        Self { text: format!(r#"{{"type":"leave","room":"{room}","id":{id}}}"#), room: None }
    }

    /// Creates a `broadcast` to the members that are present.
    pub(crate) fn broadcast(id: u64, room: &str, data: &str) -> Self {
        let mut text = String::with_capacity(room.len() + data.len() + 96);
        let _ = write!(text, r#"{{"type":"broadcast","room":"{room}","data":{data},"id":{id},"ttl_ms":0}}"#);
        Self { text, room: None }
    }
}
