//! Room messages from nodes to clients. `type` always comes first.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::server::write_number;

/// A member of a room as the other members see it.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Member<'a> {
    /// The member's client id.
    pub client_id: &'a str,
    /// JSON of the member's last `join` with data. `None`: it sent none.
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub data: Option<&'a RawValue>,
}

/// A former member.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Former<'a> {
    /// The former member's client id.
    pub client_id: &'a str,
    /// Reason for leaving.
    pub reason: LeftReason,
}

/// Reason why a client left a room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LeftReason {
    /// The client left on request.
    Left,
    /// Its seat was not refreshed in time, or a `leave` that had failed was carried out late.
    Expired,
}

/// A message about a room, which nodes encode.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum RoomMessage<'a> {
    /// State of a room, for a member.
    Joined {
        /// The room.
        room: &'a str,
        /// The room's version; each change raises it by one.
        version: u64,
        /// Maximum members; `None`: no limit.
        capacity: Option<u32>,
        /// Number of members.
        count: u64,
        /// One page of members, oldest first.
        members: &'a [Member<'a>],
        /// `true` if there are further pages.
        more: bool,
        /// Last member of the page before. `None`: this is the first page.
        #[serde(skip_serializing_if = "Option::is_none")]
        after: Option<&'a str>,
    },
    /// The room is full, and the client is in the waiting queue.
    Waiting {
        /// The room.
        room: &'a str,
        /// Number of waiting clients ahead.
        ahead: u64,
        /// Number of all waiting clients.
        queue_length: u64,
    },
    /// Members joined or left.
    MembersChanged {
        /// The room.
        room: &'a str,
        /// The room's version after the changes.
        version: u64,
        /// Members that joined or have new data.
        joined: &'a [Member<'a>],
        /// Former members, with their reasons.
        left: &'a [Former<'a>],
    },
    /// The receiving client is no longer in the room.
    Left {
        /// The room.
        room: &'a str,
        /// Reason for leaving.
        reason: LeftReason,
    },
}

impl RoomMessage<'_> {
    /// Returns the message as JSON text.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        // Strings, numbers and valid JSON only: serialization to memory cannot fail.
        serde_json::to_vec(self).unwrap_or_default()
    }
}

/// Appends the `broadcast` for another member to `out`. `room` and `from` need no JSON escapes.
/// `id` is the sender's; `None` leaves it out.
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
