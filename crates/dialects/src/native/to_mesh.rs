//! Requests to the mesh, as a native client would send them: JSON texts of one uplink frame each.

use std::fmt::Write as _;

/// Returns a `signal`. The mesh holds it at most `ttl_ms` milliseconds.
pub(crate) fn signal(id: u64, to: &str, data: &str, ttl_ms: u64) -> String {
    let mut text = String::with_capacity(to.len() + data.len() + 96);
    let _ = write!(text, r#"{{"type":"signal","to":"{to}","data":{data},"id":{id},"ttl_ms":{ttl_ms}}}"#);
    text
}

/// Returns a `join`. `data`: JSON that the other members see.
pub(crate) fn join(id: u64, room: &str, data: Option<&str>) -> String {
    match data {
        None => format!(r#"{{"type":"join","room":"{room}","id":{id}}}"#),
        Some(data) => format!(r#"{{"type":"join","room":"{room}","data":{data},"id":{id}}}"#),
    }
}

/// Returns a `leave`.
pub(crate) fn leave(id: u64, room: &str) -> String {
    format!(r#"{{"type":"leave","room":"{room}","id":{id}}}"#)
}

/// Returns a `members`: the first page of a room's members, or the one behind a client. Its answer
/// has no id.
pub(crate) fn members(room: &str, after: Option<&str>) -> String {
    match after {
        None => format!(r#"{{"type":"members","room":"{room}"}}"#),
        Some(after) => format!(r#"{{"type":"members","room":"{room}","after":"{after}"}}"#),
    }
}

/// Returns a `broadcast`, which the mesh holds for its hold time: no client announces itself again,
/// so it must reach a member whose node has just crashed.
pub(crate) fn broadcast(id: u64, room: &str, data: &str) -> String {
    let mut text = String::with_capacity(room.len() + data.len() + 96);
    let _ = write!(text, r#"{{"type":"broadcast","room":"{room}","data":{data},"id":{id}}}"#);
    text
}
