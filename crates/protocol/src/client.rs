//! Messages from clients: one JSON object per text message, parsed without copying its payload.
//! Edges call [`peek`], [`names`] for refused messages and [`parse`] for tokens; nodes call
//! [`parse`].

use std::borrow::Cow;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::ErrorCode;
use crate::ids::check_name;
use crate::limits::{MAX_MEMBER_DATA_BYTES, MAX_REQUEST_ID};

/// A validated request of a client.
#[derive(Debug)]
pub enum ClientMessage<'a> {
    /// Sends `data` to another client.
    Signal {
        /// Client id of the recipient.
        to: Cow<'a, str>,
        /// Any JSON, forwarded unchanged.
        data: &'a RawValue,
        /// Number of the request, 1 to 2^53 - 1, which its answer repeats. `None`: no `ack`; an
        /// `error` then has no `id`.
        id: Option<u64>,
        /// Maximum hold time for an absent recipient, in ms; 0 for none. `None`: the node's own,
        /// which is also the upper limit.
        ttl_ms: Option<u64>,
    },
    /// Joins a room, or requests its current state.
    Join {
        /// Name of the room.
        room: Cow<'a, str>,
        /// JSON of at most 4 KiB that the other members see. `None`: none, or for a client with a
        /// seat its present data.
        data: Option<&'a RawValue>,
        /// As in `Signal`.
        id: Option<u64>,
    },
    /// Leaves a room or its waiting queue.
    Leave {
        /// Name of the room.
        room: Cow<'a, str>,
        /// As in `Signal`.
        id: Option<u64>,
    },
    /// Requests one page of a room's members.
    Members {
        /// Name of the room.
        room: Cow<'a, str>,
        /// Last client of the previous page. `None`: the first page.
        after: Option<Cow<'a, str>>,
    },
    /// Sends `data` to all other members of a room.
    Broadcast {
        /// Name of the room.
        room: Cow<'a, str>,
        /// Any JSON, forwarded unchanged.
        data: &'a RawValue,
        /// As in `Signal`.
        id: Option<u64>,
        /// As in `Signal`, for absent members.
        ttl_ms: Option<u64>,
    },
    /// A reliable client has received all messages of its socket up to `n`.
    Received {
        /// The `n` of the last received message. The edge checks it.
        n: u64,
    },
    /// Replaces the token before it expires.
    Token {
        /// The new token, not verified yet.
        token: Cow<'a, str>,
    },
    /// Requests fresh ICE servers.
    IceServers,
    /// Requests a `pong`.
    Ping,
}

impl ClientMessage<'_> {
    /// Returns the request's `id`. `None`: it has none, or its type takes none.
    pub fn id(&self) -> Option<u64> {
        match self {
            Self::Signal { id, .. } | Self::Join { id, .. } | Self::Leave { id, .. } | Self::Broadcast { id, .. } => {
                *id
            }
            _ => None,
        }
    }

    /// Returns `true` if the request may have an `id`. Reliable clients must give one.
    pub fn takes_id(&self) -> bool {
        matches!(self, Self::Signal { .. } | Self::Join { .. } | Self::Leave { .. } | Self::Broadcast { .. })
    }
}

/// Error of an invalid message, for the answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadMessage {
    /// `bad_message` or `too_large`.
    pub code: ErrorCode,
    /// Human-readable description of the error.
    pub message: String,
    /// The request's `id`. `None`: it is absent, invalid, or not readable.
    pub id: Option<u64>,
}

/// Maximum characters of a JSON parser error in an answer. Such an error may quote a whole field.
const MAX_QUOTED: usize = 160;

/// Borrows text without escapes. serde borrows for a `Cow` here, but not for one in an `Option`.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

#[derive(Deserialize)]
struct Fields<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    to: Option<Text<'a>>,
    #[serde(borrow)]
    room: Option<Text<'a>>,
    #[serde(borrow)]
    after: Option<Text<'a>>,
    #[serde(borrow)]
    token: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "present")]
    data: Option<&'a RawValue>,
    id: Option<u64>,
    ttl_ms: Option<u64>,
    n: Option<u64>,
}

/// Accepts `null` as a value. serde would treat it as an absent field.
fn present<'de: 'a, 'a, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'a RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// Reads an object. Rejects arrays, because serde would accept an array of the fields' values.
/// Checks the encoding of the whole text at once, which is cheaper than serde's check per string.
fn read<'a, T: Deserialize<'a>>(text: &'a [u8]) -> Result<T, String> {
    let text = std::str::from_utf8(text).map_err(|error| error.to_string())?;
    if !text.trim_ascii_start().starts_with('{') {
        return Err("no JSON object".to_owned());
    }
    serde_json::from_str(text).map_err(|error| error.to_string())
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

    fn name<'a>(&self, field: Option<Text<'a>>, name: &str) -> Result<Cow<'a, str>, BadMessage> {
        let Text(text) = self.need(field, name)?;
        check_name(&text).map_err(|error| self.bad(ErrorCode::BadMessage, format!("`{name}` {error}")))?;
        Ok(text)
    }
}

/// Parses one client message. Unknown fields are ignored.
///
/// # Errors
/// `too_large` if the `data` of a `join` is over 4 KiB. `bad_message` if the text is no JSON
/// object, its `type` is unknown, or a known field is missing, invalid or duplicate.
pub fn parse(text: &[u8]) -> Result<ClientMessage<'_>, BadMessage> {
    let Fields { kind, to, room, after, token, data, id, ttl_ms, n } = read(text).map_err(|why| BadMessage {
        code: ErrorCode::BadMessage,
        message: format!("not a message: {}", why.chars().take(MAX_QUOTED).collect::<String>()),
        id: None,
    })?;
    let valid_id = id.filter(|id| (1..=MAX_REQUEST_ID).contains(id));
    let reader = Reader { kind: &kind, id: valid_id };
    if id.is_some() && valid_id.is_none() {
        return Err(reader.bad(ErrorCode::BadMessage, format!("`id` must be from 1 to {MAX_REQUEST_ID}")));
    }
    let message = match &*kind {
        "signal" => ClientMessage::Signal { to: reader.name(to, "to")?, data: reader.need(data, "data")?, id, ttl_ms },
        "join" => {
            if data.is_some_and(|data| data.get().len() > MAX_MEMBER_DATA_BYTES) {
                let message = format!("`data` of `join` may have {MAX_MEMBER_DATA_BYTES} bytes");
                return Err(reader.bad(ErrorCode::TooLarge, message));
            }
            ClientMessage::Join { room: reader.name(room, "room")?, data, id }
        }
        "leave" => ClientMessage::Leave { room: reader.name(room, "room")?, id },
        "members" => {
            let after = after.map(|after| reader.name(Some(after), "after")).transpose()?;
            ClientMessage::Members { room: reader.name(room, "room")?, after }
        }
        "broadcast" => {
            let (room, data) = (reader.name(room, "room")?, reader.need(data, "data")?);
            ClientMessage::Broadcast { room, data, id, ttl_ms }
        }
        "received" => ClientMessage::Received { n: reader.need(n, "n")? },
        "token" => ClientMessage::Token { token: reader.need(token, "token")?.0 },
        "ice_servers" => ClientMessage::IceServers,
        "ping" => ClientMessage::Ping,
        other => {
            let shown: String = other.chars().take(32).collect();
            return Err(reader.bad(ErrorCode::BadMessage, format!("unknown `type` {shown:?}")));
        }
    };
    Ok(message)
}

/// Fields of a message that an edge refuses by its rate; the `error` repeats them. `None`: absent
/// or invalid.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names<'a> {
    /// The request's `id`, from 1 to 2^53 - 1.
    pub id: Option<u64>,
    /// Client id of the recipient.
    pub to: Option<Cow<'a, str>>,
    /// Name of the room.
    pub room: Option<Cow<'a, str>>,
}

/// Returns the fields that an `error` repeats. All are `None` if [`parse`] cannot read the text: no
/// JSON object with a `type`, or a known field is duplicate or of a wrong type.
pub fn names(text: &[u8]) -> Names<'_> {
    let Ok(Fields { id, to, room, .. }) = read(text) else { return Names::default() };
    Names { id: id.filter(|id| (1..=MAX_REQUEST_ID).contains(id)), to: valid_name(to), room: valid_name(room) }
}

fn valid_name(field: Option<Text<'_>>) -> Option<Cow<'_, str>> {
    field.map(|Text(text)| text).filter(|text| check_name(text).is_ok())
}

/// Kind of a client message for an edge, which answers `Ping` and handles `Received` itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EdgeMessage {
    /// The edge answers with `pong`.
    Ping,
    /// As [`ClientMessage::Received`].
    Received {
        /// As in [`ClientMessage::Received`].
        n: u64,
    },
    /// A new token. An edge that verifies tokens parses the full message. Other edges forward it,
    /// and so does each edge if it is invalid.
    Token,
    /// A message for the node.
    Other,
}

#[derive(Deserialize)]
struct TypeAndNumber<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    n: Option<u64>,
}

/// Parses only the parts that concern the edge. A `signal`, `broadcast` or `join` whose `type`
/// comes first takes the fast path. An unreadable text is `Other`, so that the node reports the
/// error.
pub fn peek(text: &[u8]) -> EdgeMessage {
    const FRONT: &[u8] = b"{\"type\":\"";
    const OTHERS: [&[u8]; 3] = [b"signal\"", b"broadcast\"", b"join\""];
    if let Some(rest) = text.strip_prefix(FRONT)
        && OTHERS.iter().any(|other| rest.starts_with(other))
    {
        return EdgeMessage::Other;
    }
    match read(text) {
        Ok(TypeAndNumber { kind, .. }) if kind == "ping" => EdgeMessage::Ping,
        Ok(TypeAndNumber { kind, n: Some(n) }) if kind == "received" => EdgeMessage::Received { n },
        Ok(TypeAndNumber { kind, .. }) if kind == "token" => EdgeMessage::Token,
        _ => EdgeMessage::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_is_borrowed_unless_it_has_escapes() {
        for (text, borrowed) in [
            (r#"{"type":"signal","to":"bob","data":1}"#, true),
            (r#"{"type":"signal","to":"\u0062ob","data":1}"#, false),
        ] {
            let ClientMessage::Signal { to, .. } = parse(text.as_bytes()).unwrap() else { panic!() };
            assert_eq!((&*to, matches!(to, Cow::Borrowed(_))), ("bob", borrowed));
        }
    }

    #[test]
    fn array_of_fields_is_rejected() {
        let text = br#"["ping",null,null,null,null,null,null,null,null]"#;
        assert_eq!(parse(text).unwrap_err().message, "not a message: no JSON object");
        assert_eq!(peek(br#"["ping",null]"#), EdgeMessage::Other);
    }

    #[test]
    fn names_are_the_valid_fields_of_an_invalid_message() {
        let all = names(br#"{"type":"signal","to":"bob","room":"r","id":7,"data":[1]}"#);
        assert_eq!(all, Names { id: Some(7), to: Some("bob".into()), room: Some("r".into()) });
        assert_eq!(names(br#"{"type":"nonsense","to":"not a name","id":0}"#), Names::default());
        assert_eq!(names(b"nonsense"), Names::default());
    }

    #[test]
    fn error_quotes_little_of_an_invalid_message() {
        let text = format!(r#"{{"type":"ping","id":"{}"}}"#, r#"\""#.repeat(10_000));
        assert!(parse(text.as_bytes()).unwrap_err().message.len() < 1_000);
    }

    #[test]
    fn data_of_a_join_has_a_limit() {
        let join = |bytes: usize| format!(r#"{{"type":"join","room":"r","data":"{}"}}"#, "x".repeat(bytes - 2));
        assert!(parse(join(MAX_MEMBER_DATA_BYTES).as_bytes()).is_ok());
        assert_eq!(parse(join(MAX_MEMBER_DATA_BYTES + 1).as_bytes()).unwrap_err().code, ErrorCode::TooLarge);
    }
}
