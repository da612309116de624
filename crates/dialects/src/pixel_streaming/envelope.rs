//! Messages between translators: the `data` of signals.

use std::borrow::Cow;

use crate::json::{Object, quote};

/// A message between translators. `subscription`: the player's `subscribe`, counted from 1.
#[derive(Debug)]
pub(super) enum Envelope<'a> {
    /// Requests `Alive` from the holder of a streamer's id.
    Probe,
    /// The holder's client has answered.
    Alive,
    /// The streamer accepts this subscription.
    In { subscription: u64 },
    /// The streamer refuses this subscription: it has `max` players, the maximum.
    Full { subscription: u64, max: u64 },
    /// A message of a player or streamer to the other side of the subscription: a JSON object.
    Message { subscription: u64, message: &'a str },
    /// The streamer disconnects the player. `reason` is that of the close frame.
    Close { subscription: u64, reason: Cow<'a, str> },
}

impl<'a> Envelope<'a> {
    /// Parses `data`. `None`: its kind is unknown, as of a later release, or a field is missing.
    pub(super) fn parse(data: &'a str) -> Option<Self> {
        let object = Object::parse(data.as_bytes())?;
        let subscription = number(&object, "s");
        Some(match &*object.string("k")? {
            "probe" => Self::Probe,
            "alive" => Self::Alive,
            "in" => Self::In { subscription: subscription? },
            "full" => Self::Full { subscription: subscription?, max: number(&object, "max")? },
            "m" => {
                let message = object.get("m")?.get();
                Object::parse(message.as_bytes())?;
                Self::Message { subscription: subscription?, message }
            }
            "close" => Self::Close { subscription: subscription?, reason: object.string("reason").unwrap_or_default() },
            _ => return None,
        })
    }

    pub(super) fn to_json(&self) -> String {
        match self {
            Self::Probe => r#"{"k":"probe"}"#.to_owned(),
            Self::Alive => r#"{"k":"alive"}"#.to_owned(),
            Self::In { subscription } => format!(r#"{{"k":"in","s":{subscription}}}"#),
            Self::Full { subscription, max } => format!(r#"{{"k":"full","s":{subscription},"max":{max}}}"#),
            Self::Message { subscription, message } => format!(r#"{{"k":"m","s":{subscription},"m":{message}}}"#),
            Self::Close { subscription, reason } => {
                format!(r#"{{"k":"close","s":{subscription},"reason":{}}}"#, quote(reason))
            }
        }
    }
}

/// Returns a field's number. `None`: it is absent or no integer from 0 to 2^64 - 1.
pub(super) fn number(object: &Object<'_>, field: &str) -> Option<u64> {
    object.get(field)?.get().parse().ok()
}
