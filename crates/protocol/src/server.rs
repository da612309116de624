//! What servers send to clients. `type` always comes first.

use serde::Serialize;
use serde_json::value::RawValue;

use crate::ErrorCode;

/// One entry of `ice_servers`, as `RTCPeerConnection` takes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct IceServer {
    /// STUN and TURN addresses.
    pub urls: Vec<String>,
    /// TURN user name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    /// TURN password.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credential: Option<String>,
}

/// A message to a client, other than what it is sent by peers.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ServerMessage<'a> {
    /// The first message on every socket.
    Welcome {
        /// The client's own id.
        client_id: &'a str,
        /// Proves the session when the client comes back.
        resume: &'a str,
        /// Whether an earlier session goes on.
        resumed: bool,
        /// After this silence the server pings.
        heartbeat_ms: u64,
        /// Largest message it may send.
        max_message_bytes: usize,
        /// For `RTCPeerConnection`.
        ice_servers: &'a [IceServer],
        /// The node that serves it, if nodes are revealed.
        #[serde(skip_serializing_if = "Option::is_none")]
        node: Option<&'a str>,
    },
    /// A request with this `id` was carried out.
    Ack {
        /// The request's.
        id: u64,
        /// For broadcasts: how many got it.
        #[serde(skip_serializing_if = "Option::is_none")]
        delivered: Option<u64>,
    },
    /// A request was not carried out.
    Error {
        /// For programs.
        code: ErrorCode,
        /// For people.
        message: &'a str,
        /// Of the request.
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<u64>,
        /// Of the request.
        #[serde(skip_serializing_if = "Option::is_none")]
        to: Option<&'a str>,
        /// Of the request.
        #[serde(skip_serializing_if = "Option::is_none")]
        room: Option<&'a str>,
        /// Where waiting helps: for how long.
        #[serde(skip_serializing_if = "Option::is_none")]
        retry_after_ms: Option<u64>,
    },
    /// Fresh ICE servers.
    IceServers {
        /// For `RTCPeerConnection`.
        ice_servers: &'a [IceServer],
    },
    /// Another node serves the client now, if nodes are revealed.
    Moved {
        /// That node.
        node: &'a str,
    },
    /// Answers `ping`.
    Pong,
    /// The server will close the socket.
    Goodbye {
        /// For people.
        reason: &'a str,
        /// When to come back.
        #[serde(skip_serializing_if = "Option::is_none")]
        retry_after_ms: Option<u64>,
    },
}

impl ServerMessage<'_> {
    /// The message as JSON text.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        // Strings and numbers alone: serialisation into memory cannot fail.
        serde_json::to_vec(self).unwrap_or_default()
    }
}

/// Writes the `signal` that the recipient gets. `from` has only characters that JSON takes as they are.
pub fn write_signal(out: &mut Vec<u8>, from: &str, data: &RawValue, id: Option<u64>) {
    out.reserve(from.len() + data.get().len() + 64);
    out.extend_from_slice(b"{\"type\":\"signal\",\"from\":\"");
    out.extend_from_slice(from.as_bytes());
    out.extend_from_slice(b"\",\"data\":");
    out.extend_from_slice(data.get().as_bytes());
    if let Some(id) = id {
        out.extend_from_slice(b",\"id\":");
        write_number(out, id);
    }
    out.push(b'}');
}

/// Writes the `ack` of the request `id`.
pub fn write_ack(out: &mut Vec<u8>, id: u64) {
    out.extend_from_slice(b"{\"type\":\"ack\",\"id\":");
    write_number(out, id);
    out.push(b'}');
}

/// What a reliable client gets in addition: the tail that replaces the payload's closing brace.
pub fn write_receipt_tail(out: &mut Vec<u8>, n: u64, m: &str) {
    out.extend_from_slice(b",\"n\":");
    write_number(out, n);
    out.extend_from_slice(b",\"m\":\"");
    out.extend_from_slice(m.as_bytes());
    out.extend_from_slice(b"\"}");
}

pub(crate) fn write_number(out: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0_u8; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}
