//! Messages from edges and nodes to clients. `type` always comes first.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::ErrorCode;
use crate::rooms::{Former, LeftReason, Member};

/// One entry of `ice_servers`, in the form of `RTCPeerConnection`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IceServer {
    /// STUN and TURN addresses.
    pub urls: Vec<String>,
    /// TURN user name. `None`: the server needs none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    /// TURN password. `None`: the server needs none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credential: Option<String>,
}

/// Rates of a client, which its edge adds to `welcome`. `None`: no such limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClientRate {
    /// Messages per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages: Option<u32>,
    /// Messages at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst: Option<u32>,
    /// Bytes per second. Each message counts 64 bytes more than its text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u32>,
    /// Bytes at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub byte_burst: Option<u32>,
    /// Messages at once at this moment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub now: Option<u32>,
    /// Bytes at once at this moment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_now: Option<u32>,
}

/// A message from a server to a client, except messages of other clients.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ServerMessage<'a> {
    /// The first message on the socket of an admitted client.
    Welcome {
        /// The client's own id.
        client_id: &'a str,
        /// Token that proves the session when the client reconnects.
        resume: &'a str,
        /// `true` if an earlier session continues.
        resumed: bool,
        /// Silence before the server pings, in milliseconds.
        heartbeat_ms: u64,
        /// Maximum size of a client message, in bytes.
        max_message_bytes: usize,
        /// ICE servers for `RTCPeerConnection`.
        ice_servers: &'a [IceServer],
        /// Time until the first TURN credential ends, in milliseconds. `None`: there is none.
        #[serde(skip_serializing_if = "Option::is_none")]
        ice_valid_ms: Option<u64>,
        /// Name of the client's node. `None`: nodes are not revealed.
        #[serde(skip_serializing_if = "Option::is_none")]
        node: Option<&'a str>,
    },
    /// The request with this `id` succeeded.
    Ack {
        /// The request's `id`.
        id: u64,
        /// Number of members that received the broadcast. `None`: the request is no broadcast.
        #[serde(skip_serializing_if = "Option::is_none")]
        delivered: Option<u64>,
    },
    /// A request failed, or a message is invalid.
    Error {
        /// Error code for programs.
        code: ErrorCode,
        /// Human-readable description.
        message: &'a str,
        /// The request's `id`. `None`: it has none, or it is not readable.
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<u64>,
        /// Client id of the request's recipient. `None`: it has none, or the message is invalid.
        #[serde(skip_serializing_if = "Option::is_none")]
        to: Option<&'a str>,
        /// Name of the request's room. `None`: it has none, or the message is invalid.
        #[serde(skip_serializing_if = "Option::is_none")]
        room: Option<&'a str>,
        /// Wait before a retry, in milliseconds. `None`: no wait is known to help.
        #[serde(skip_serializing_if = "Option::is_none")]
        retry_after_ms: Option<u64>,
    },
    /// Fresh ICE servers.
    IceServers {
        /// ICE servers for `RTCPeerConnection`.
        ice_servers: &'a [IceServer],
        /// As in `Welcome`.
        #[serde(skip_serializing_if = "Option::is_none")]
        ice_valid_ms: Option<u64>,
    },
    /// An admitted client was attached to a node again: after a handoff to another one, or after
    /// the loss of a trunk perhaps to the same. Sent only if nodes are revealed.
    Moved {
        /// Name of the node.
        node: &'a str,
    },
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
        /// The request's `after`: the last member of the page before. `None`: the first page.
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
    /// Members joined, have new data, or left.
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
    /// The receiving client is no longer in the room or its waiting queue.
    Left {
        /// The room.
        room: &'a str,
        /// Reason for leaving.
        reason: LeftReason,
    },
    /// Answer to `ping`. Also sent every 5 s while the edge does not read the client.
    Pong,
    /// The server will close the socket.
    Goodbye {
        /// Human-readable description.
        reason: &'a str,
        /// Wait before the reconnect, in milliseconds. `None`: the client's own backoff.
        #[serde(skip_serializing_if = "Option::is_none")]
        retry_after_ms: Option<u64>,
    },
}

impl ServerMessage<'_> {
    /// Returns the message as JSON text.
    pub fn to_json(&self) -> Vec<u8> {
        // Strings, numbers and valid JSON only: serialization to memory cannot fail.
        serde_json::to_vec(self).unwrap_or_default()
    }
}

/// Appends the `signal` for the recipient to `out`. `from` must need no JSON escapes, as a valid
/// name. `id` is the sender's; `None` leaves it out.
pub fn write_signal(out: &mut Vec<u8>, from: &str, data: &RawValue, id: Option<u64>) {
    out.reserve(from.len() + data.get().len() + 64);
    out.extend_from_slice(b"{\"type\":\"signal\",\"from\":\"");
    write_sender_and_data(out, from, data, id);
}

/// Appends the `broadcast` for another member to `out`. `room` and `from` must need no JSON
/// escapes, as valid names. `id` is the sender's; `None` leaves it out.
pub fn write_broadcast(out: &mut Vec<u8>, room: &str, from: &str, data: &RawValue, id: Option<u64>) {
    out.reserve(room.len() + from.len() + data.get().len() + 80);
    out.extend_from_slice(b"{\"type\":\"broadcast\",\"room\":\"");
    out.extend_from_slice(room.as_bytes());
    out.extend_from_slice(b"\",\"from\":\"");
    write_sender_and_data(out, from, data, id);
}

fn write_sender_and_data(out: &mut Vec<u8>, from: &str, data: &RawValue, id: Option<u64>) {
    out.extend_from_slice(from.as_bytes());
    out.extend_from_slice(b"\",\"data\":");
    out.extend_from_slice(data.get().as_bytes());
    if let Some(id) = id {
        out.extend_from_slice(b",\"id\":");
        write_number(out, id);
    }
    out.push(b'}');
}

/// Appends the `ack` of the request `id` to `out`.
pub fn write_ack(out: &mut Vec<u8>, id: u64) {
    out.extend_from_slice(b"{\"type\":\"ack\",\"id\":");
    write_number(out, id);
    out.push(b'}');
}

/// Appends the fields for a reliable client to `out`: the message's number `n` on its socket, its
/// unique name `m`, and the closing brace. The caller has removed the payload's own brace.
pub fn write_receipt_tail(out: &mut Vec<u8>, n: u64, m: &str) {
    out.extend_from_slice(b",\"n\":");
    write_number(out, n);
    out.extend_from_slice(b",\"m\":\"");
    out.extend_from_slice(m.as_bytes());
    out.extend_from_slice(b"\"}");
}

/// Appends the end of a `welcome` with the client's rates. The text so far lacks its final brace.
pub fn write_rate_tail(out: &mut Vec<u8>, rate: &ClientRate) {
    out.extend_from_slice(b",\"rate\":");
    out.extend_from_slice(&serde_json::to_vec(rate).unwrap_or_default());
    out.push(b'}');
}

/// Appends `number` in decimal digits.
fn write_number(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}
