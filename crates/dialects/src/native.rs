//! Native messages of a translator: requests to the mesh as JSON texts of one uplink frame each,
//! and parsed messages from it. `room_requests` sends the room requests, each dialect its signals.
//! Ids of requests come from the translator. Names in requests need no escapes.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use signaling_protocol::rooms::{Former, Member};

/// A message from the mesh, as far as translators use it.
#[derive(Debug)]
pub(crate) enum FromMesh<'a> {
    /// The session is open. `ice_servers`: a JSON array. `None`: the message has none.
    Welcome { ice_servers: Option<&'a RawValue> },
    /// A message of another client.
    Signal { from: Cow<'a, str>, data: &'a RawValue },
    /// A message of another client to a room.
    Broadcast { room: Cow<'a, str>, from: Cow<'a, str>, data: &'a RawValue },
    /// A request succeeded.
    Ack { id: u64 },
    /// A request failed with this code. `retry_after`: a retry can succeed then; `None`: final, as
    /// if an operator keeps the client out of a room for a while.
    Error { id: u64, code: Cow<'a, str>, retry_after: Option<Duration> },
    /// The state of a room with one page of its members. `more`: further pages follow. `after`:
    /// last member of the page before; `None`: this is the first page.
    Joined { room: Cow<'a, str>, members: Vec<Member<'a>>, more: bool, after: Option<Cow<'a, str>> },
    /// A list of a room's members failed. `retry_after`: as in `Error`.
    ListFailed { room: Cow<'a, str>, retry_after: Option<Duration> },
    /// Changes of a room.
    MembersChanged { room: Cow<'a, str>, joined: Vec<Member<'a>>, left: Vec<Former<'a>> },
    /// The session's seat in the room has expired, or an operator ended it.
    SeatLost { room: Cow<'a, str> },
    /// A message without effect on translators.
    Other,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Fields<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    from: Cow<'a, str>,
    #[serde(borrow)]
    room: Cow<'a, str>,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
    id: Option<u64>,
    #[serde(borrow)]
    code: Cow<'a, str>,
    retry_after_ms: Option<u64>,
    #[serde(borrow)]
    members: Vec<Member<'a>>,
    more: bool,
    #[serde(borrow)]
    after: Option<Cow<'a, str>>,
    #[serde(borrow)]
    joined: Vec<Member<'a>>,
    #[serde(borrow)]
    left: Vec<Former<'a>>,
    #[serde(borrow)]
    reason: Cow<'a, str>,
    #[serde(borrow)]
    ice_servers: Option<&'a RawValue>,
}

impl<'a> FromMesh<'a> {
    /// Parses a message. Unknown, invalid and incomplete ones are `Other`.
    pub(crate) fn parse(text: &'a [u8]) -> Self {
        // Checked as a whole, since serde's check of each string in bytes costs more.
        let Ok(text) = std::str::from_utf8(text) else { return Self::Other };
        if !text.trim_ascii_start().starts_with('{') {
            return Self::Other;
        }
        let Ok(fields) = serde_json::from_str::<Fields<'a>>(text) else { return Self::Other };
        let Fields { kind, from, room, data, id, code, retry_after_ms, members, joined, left, reason, .. } = fields;
        let retry_after = retry_after_ms.filter(|_| code != "forbidden").map(Duration::from_millis);
        match (&*kind, id, data) {
            ("welcome", ..) => Self::Welcome { ice_servers: fields.ice_servers },
            ("signal", _, Some(data)) => Self::Signal { from, data },
            ("broadcast", _, Some(data)) => Self::Broadcast { room, from, data },
            ("ack", Some(id), _) => Self::Ack { id },
            ("error", Some(id), _) => Self::Error { id, code, retry_after },
            ("error", None, _) if !room.is_empty() => Self::ListFailed { room, retry_after },
            ("joined", ..) => Self::Joined { room, members, more: fields.more, after: fields.after },
            ("members_changed", ..) => Self::MembersChanged { room, joined, left },
            ("left", ..) if matches!(&*reason, "expired" | "removed" | "closed") => Self::SeatLost { room },
            _ => Self::Other,
        }
    }
}

/// Returns a `signal` of this JSON. The mesh holds it at most `ttl_ms` for an absent recipient.
pub(crate) fn signal(id: u64, to: &str, data: &str, ttl_ms: u64) -> String {
    let mut text = String::with_capacity(to.len() + data.len() + 96);
    let _ = write!(text, r#"{{"type":"signal","to":"{to}","data":{data},"id":{id},"ttl_ms":{ttl_ms}}}"#);
    text
}

/// Returns a `join`, `leave` or `broadcast`. `data`: JSON. `None`: it has none.
pub(crate) fn room_request(kind: &str, id: u64, room: &str, data: Option<&str>) -> String {
    let (field, data) = data.map_or(("", ""), |data| (r#","data":"#, data));
    let mut text = String::with_capacity(room.len() + data.len() + 96);
    let _ = write!(text, r#"{{"type":"{kind}","room":"{room}"{field}{data},"id":{id}}}"#);
    text
}

/// Returns a `members`: a room's first page, or the one behind a client. Its answer has no id.
pub(crate) fn members(room: &str, after: Option<&str>) -> String {
    match after {
        None => format!(r#"{{"type":"members","room":"{room}"}}"#),
        Some(after) => format!(r#"{{"type":"members","room":"{room}","after":"{after}"}}"#),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_and_incomplete_messages_are_other() {
        for text in ["", "[]", "null", "{}", r#"{"type":"x"}"#, r#"{"type":"ack"}"#, r#"{"type":"signal","from":"a"}"#]
        {
            assert!(matches!(FromMesh::parse(text.as_bytes()), FromMesh::Other), "{text}");
        }
    }
}
