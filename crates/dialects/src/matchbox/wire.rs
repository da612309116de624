//! Messages of matchbox's wire protocol, as `serde` reads them upstream: unknown fields of a signal
//! are ignored, and a repeated `receiver` or `data` is an error.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::event::IgnoredReason;
use crate::json::Object;
use uuid::Uuid;

#[derive(Debug, Deserialize)]
enum Message<'a> {
    Signal(#[serde(borrow)] Signal<'a>),
    KeepAlive,
}

#[derive(Debug, Deserialize)]
struct Signal<'a> {
    #[serde(borrow)]
    receiver: Cow<'a, str>,
    #[serde(borrow)]
    data: &'a RawValue,
}

/// Reads the recipient and content of a signal. `None`: the keep-alive, which needs no reaction.
/// Fails with the reason if the text is no message of a client.
pub(super) fn parse(text: &[u8]) -> Result<Option<(Uuid, &RawValue)>, IgnoredReason> {
    match serde_json::from_slice(text) {
        Ok(Message::KeepAlive) => Ok(None),
        Ok(Message::Signal(Signal { receiver, data })) => {
            Ok(Some((Uuid::parse_str(&receiver).ok().ok_or(IgnoredReason::Field)?, data)))
        }
        Err(_) => Err(match Object::parse(text) {
            Some(object) if object.get("Signal").is_some() => IgnoredReason::Field,
            Some(_) => IgnoredReason::Type,
            None => IgnoredReason::Json,
        }),
    }
}

/// Returns a signal to a client.
pub(super) fn signal(sender: Uuid, data: &RawValue) -> String {
    format!(r#"{{"Signal":{{"sender":"{sender}","data":{data}}}}}"#)
}
