//! What clients send: one JSON object per text frame, parsed without copying what it carries.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::ErrorCode;
use crate::ids::check_name;
use crate::limits::{MAX_MEMBER_DATA_BYTES, MAX_REQUEST_ID};

/// A client's request, checked.
#[derive(Debug)]
pub enum ClientMessage<'a> {
    /// Carry `data` to another client.
    Signal {
        /// The recipient.
        to: Cow<'a, str>,
        /// Any JSON, carried as it stands.
        data: &'a RawValue,
        /// Asks for an `ack`.
        id: Option<u64>,
        /// How long to hold it for an absent recipient, milliseconds.
        ttl_ms: Option<u64>,
    },
    /// Enter a room, or ask for its present state.
    Join {
        /// The room.
        room: Cow<'a, str>,
        /// Shown to the other members.
        data: Option<&'a RawValue>,
        /// Asks for an `ack`.
        id: Option<u64>,
    },
    /// Leave a room.
    Leave {
        /// The room.
        room: Cow<'a, str>,
        /// Asks for an `ack`.
        id: Option<u64>,
    },
    /// List a room's members.
    Members {
        /// The room.
        room: Cow<'a, str>,
        /// Start behind this client.
        after: Option<Cow<'a, str>>,
    },
    /// Carry `data` to all others in a room.
    Broadcast {
        /// The room.
        room: Cow<'a, str>,
        /// Any JSON, carried as it stands.
        data: &'a RawValue,
        /// Asks for an `ack`.
        id: Option<u64>,
    },
    /// A reliable client has all messages up to this `n`.
    Received {
        /// The last number.
        n: u64,
    },
    /// A new token before the old one expires.
    Token {
        /// The token.
        token: Cow<'a, str>,
    },
    /// Asks for fresh ICE servers.
    IceServers,
    /// Asks for a `pong`.
    Ping,
}

/// Why a message was not understood, with what of it could be read, so that the answer can name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadMessage {
    /// `bad_message` or `too_large`.
    pub code: ErrorCode,
    /// What is wrong, for people.
    pub message: String,
    /// The request's `id`.
    pub id: Option<u64>,
}

#[derive(Deserialize)]
struct Fields<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    to: Option<Cow<'a, str>>,
    #[serde(borrow)]
    room: Option<Cow<'a, str>>,
    #[serde(borrow)]
    after: Option<Cow<'a, str>>,
    #[serde(borrow)]
    token: Option<Cow<'a, str>>,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
    id: Option<u64>,
    ttl_ms: Option<u64>,
    n: Option<u64>,
}

struct Reader<'a> {
    kind: &'a str,
    id: Option<u64>,
}

impl Reader<'_> {
    fn bad(&self, code: ErrorCode, message: String) -> BadMessage {
        BadMessage { code, message, id: self.id }
    }

    fn need<T>(&self, field: Option<T>, name: &str) -> Result<T, BadMessage> {
        field.ok_or_else(|| self.bad(ErrorCode::BadMessage, format!("`{}` needs the field `{name}`", self.kind)))
    }

    fn name<'a>(&self, field: Option<Cow<'a, str>>, name: &str) -> Result<Cow<'a, str>, BadMessage> {
        let text = self.need(field, name)?;
        check_name(&text).map_err(|error| self.bad(ErrorCode::BadMessage, format!("`{name}` {error}")))?;
        Ok(text)
    }
}

/// Reads one client message. Unknown fields are ignored; doubled ones are refused.
///
/// # Errors
/// If it is no JSON object, has an unknown `type`, or a field that is missing, of a wrong type or over its limit.
pub fn parse(text: &[u8]) -> Result<ClientMessage<'_>, BadMessage> {
    let fields: Fields<'_> = serde_json::from_slice(text).map_err(|error| BadMessage {
        code: ErrorCode::BadMessage,
        message: format!("not a message: {error}"),
        id: None,
    })?;
    let Fields { kind, to, room, after, token, data, id, ttl_ms, n } = fields;
    let valid_id = id.filter(|id| (1..=MAX_REQUEST_ID).contains(id));
    let reader = Reader { kind: &kind, id: valid_id };
    if id.is_some() && valid_id.is_none() {
        return Err(reader.bad(ErrorCode::BadMessage, format!("`id` must be from 1 to {MAX_REQUEST_ID}")));
    }
    let message = match &*kind {
        "signal" => {
            ClientMessage::Signal { to: reader.name(to, "to")?, data: reader.need(data, "data")?, id, ttl_ms }
        }
        "join" => {
            if data.is_some_and(|data| data.get().len() > MAX_MEMBER_DATA_BYTES) {
                let message = format!("`data` of `join` may have {MAX_MEMBER_DATA_BYTES} bytes");
                return Err(reader.bad(ErrorCode::TooLarge, message));
            }
            ClientMessage::Join { room: reader.name(room, "room")?, data, id }
        }
        "leave" => ClientMessage::Leave { room: reader.name(room, "room")?, id },
        "members" => ClientMessage::Members { room: reader.name(room, "room")?, after },
        "broadcast" => {
            ClientMessage::Broadcast { room: reader.name(room, "room")?, data: reader.need(data, "data")?, id }
        }
        "received" => ClientMessage::Received { n: reader.need(n, "n")? },
        "token" => ClientMessage::Token { token: reader.need(token, "token")? },
        "ice_servers" => ClientMessage::IceServers,
        "ping" => ClientMessage::Ping,
        other => {
            let shown: String = other.chars().take(32).collect();
            return Err(reader.bad(ErrorCode::BadMessage, format!("unknown `type` {shown:?}")));
        }
    };
    Ok(message)
}

/// What an edge reads of a payload: whether it is one of the two messages that the edge answers itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EdgeMessage {
    /// Answered by `pong` at the edge.
    Ping,
    /// Everything up to `n` has arrived.
    Received {
        /// The last number.
        n: u64,
    },
    /// For the node to read.
    Other,
}

#[derive(Deserialize)]
struct TypeAndNumber<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    n: Option<u64>,
}

/// Reads of a payload only what concerns the edge. `{"type":"` in front is the fast path; what cannot be read is
/// `Other`, and the node then says what is wrong with it.
#[must_use]
pub fn peek(text: &[u8]) -> EdgeMessage {
    const FRONT: &[u8] = b"{\"type\":\"";
    const OTHERS: [&[u8]; 3] = [b"signal\"", b"broadcast\"", b"join\""];
    if let Some(rest) = text.strip_prefix(FRONT)
        && OTHERS.iter().any(|other| rest.starts_with(other))
    {
        return EdgeMessage::Other;
    }
    match serde_json::from_slice(text) {
        Ok(TypeAndNumber { kind, .. }) if kind == "ping" => EdgeMessage::Ping,
        Ok(TypeAndNumber { kind, n: Some(n) }) if kind == "received" => EdgeMessage::Received { n },
        _ => EdgeMessage::Other,
    }
}
