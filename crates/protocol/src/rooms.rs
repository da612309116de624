//! What servers tell clients of rooms. `type` always comes first.

use serde::Serialize;
use serde_json::value::RawValue;

use crate::server::write_number;

/// A member of a room as the others see it.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Member<'a> {
    /// Who.
    pub client_id: &'a str,
    /// What it gave when it joined.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<&'a RawValue>,
}

/// One that is a member no more.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Former<'a> {
    /// Who.
    pub client_id: &'a str,
    /// Why.
    pub reason: LeftReason,
}

/// Why somebody is no longer in a room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LeftReason {
    /// It asked to.
    Left,
    /// An operator put it out.
    Kicked,
    /// Nothing was heard of it any more.
    Expired,
}

/// A message about a room.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum RoomMessage<'a> {
    /// The state of a room, to one that is in it.
    Joined {
        /// The room.
        room: &'a str,
        /// Grows by one with every change.
        version: u64,
        /// Most members; none: no limit.
        capacity: Option<u32>,
        /// How many there are.
        count: u64,
        /// A page of them, the oldest first.
        members: &'a [Member<'a>],
        /// Whether there are further pages.
        more: bool,
    },
    /// The room is full: the client stands in line.
    Waiting {
        /// The room.
        room: &'a str,
        /// How many stand in front.
        ahead: u64,
        /// How many stand in line.
        queue_length: u64,
    },
    /// Who came and who left.
    MembersChanged {
        /// The room.
        room: &'a str,
        /// The room's version after that.
        version: u64,
        /// Who came, or shows something else now.
        joined: &'a [Member<'a>],
        /// Who left.
        left: &'a [Former<'a>],
    },
    /// The client itself is out.
    Left {
        /// The room.
        room: &'a str,
        /// Why.
        reason: LeftReason,
    },
}

impl RoomMessage<'_> {
    /// The message as JSON text.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        // Strings, numbers and JSON that was read as such: serialisation into memory cannot fail.
        serde_json::to_vec(self).unwrap_or_default()
    }
}

/// Writes the `broadcast` that the others in the room get. Names have only characters that JSON takes as they are.
pub fn write_broadcast(out: &mut Vec<u8>, room: &str, from: &str, data: &RawValue, id: Option<u64>) {
    out.reserve(room.len() + from.len() + data.get().len() + 80);
    let fields: [&[u8]; 6] = [
        b"{\"type\":\"broadcast\",\"room\":\"",
        room.as_bytes(),
        b"\",\"from\":\"",
        from.as_bytes(),
        b"\",\"data\":",
        data.get().as_bytes(),
    ];
    fields.iter().for_each(|field| out.extend_from_slice(field));
    if let Some(id) = id {
        out.extend_from_slice(b",\"id\":");
        write_number(out, id);
    }
    out.push(b'}');
}
