//! A numbered request, and its form on the wire and in a saved session.

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// Approximate bytes of a request on the wire without its name and data.
const MAX_HEAD: usize = 48;

/// A request that gets an answer, without its number.
#[derive(Debug, Clone)]
pub(crate) enum Request {
    /// Sends `data` to a client. `ttl_ms`: maximum hold time; `None` for that of the mesh.
    Signal { to: String, data: Box<RawValue>, ttl_ms: Option<u64> },
    /// Joins a room. `None` as data shows nothing, or keeps the present data.
    Join { room: String, data: Option<Box<RawValue>> },
    /// Leaves a room or its waiting queue.
    Leave { room: String },
    /// Sends `data` to all other members of a room.
    Broadcast { room: String, data: Box<RawValue> },
}

impl Request {
    /// Returns the type, the field that names the recipient or the room, that name, and the data.
    fn parts(&self) -> (&'static str, &'static str, &str, Option<&RawValue>) {
        match self {
            Self::Signal { to, data, .. } => ("signal", "to", to, Some(data)),
            Self::Join { room, data } => ("join", "room", room, data.as_deref()),
            Self::Leave { room } => ("leave", "room", room, None),
            Self::Broadcast { room, data } => ("broadcast", "room", room, Some(data)),
        }
    }

    /// Returns the recipient or the room.
    pub(super) fn name(&self) -> &str {
        self.parts().2
    }

    /// Returns the form on the wire with its number, or the saved form with `None`. Names were
    /// validated: they need no escapes in JSON.
    pub(super) fn text(&self, id: Option<u64>) -> String {
        let (kind, field, name, data) = self.parts();
        let mut text = String::with_capacity(self.bytes());
        text.push_str(&format!(r#"{{"type":"{kind}""#));
        if let Some(id) = id {
            text.push_str(&format!(r#","id":{id}"#));
        }
        text.push_str(&format!(r#","{field}":"{name}""#));
        if let Some(data) = data {
            text.push_str(r#","data":"#);
            text.push_str(data.get());
        }
        if let Self::Signal { ttl_ms: Some(ttl_ms), .. } = self {
            text.push_str(&format!(r#","ttl_ms":{ttl_ms}"#));
        }
        text.push('}');
        text
    }

    /// Returns its approximate size in bytes, for the limits.
    pub(super) fn bytes(&self) -> usize {
        let (_, _, name, data) = self.parts();
        MAX_HEAD + name.len() + data.map_or(0, |data| data.get().len())
    }

    /// Returns the saved form, without a number; `None` if it is no JSON.
    pub(super) fn save(&self) -> Option<Box<RawValue>> {
        RawValue::from_string(self.text(None)).ok()
    }

    /// Parses the saved form; `None` if it is invalid.
    pub(super) fn restore(stored: &RawValue) -> Option<Self> {
        let Stored { kind, to, room, data, ttl_ms } = serde_json::from_str(stored.get()).ok()?;
        Some(match kind.as_str() {
            "signal" => Self::Signal { to: to?, data: data?, ttl_ms },
            "join" => Self::Join { room: room?, data },
            "leave" => Self::Leave { room: room? },
            "broadcast" => Self::Broadcast { room: room?, data: data? },
            _ => return None,
        })
    }
}

#[derive(Deserialize)]
struct Stored {
    #[serde(rename = "type")]
    kind: String,
    to: Option<String>,
    room: Option<String>,
    #[serde(default, deserialize_with = "present")]
    data: Option<Box<RawValue>>,
    ttl_ms: Option<u64>,
}

/// Accepts `null` as data. serde would treat it as an absent field.
pub(super) fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::deserialize(deserializer).map(Some)
}
