//! Trystero over its WebSocket relay: messages of its publish-subscribe protocol.

use crate::event::IgnoredReason;
use crate::json::{Object, quote};
use crate::request::{Answer, Head, Opening};
use crate::topics::{Action, Topics, Wire};
use crate::{Dialect, name};

static WIRE: Wire = Wire { dialect: Dialect::Trystero, action, frame, paused_frame: None };

/// Returns the answer to a request: an upgrade for any path and query, 404 for a plain request.
pub(crate) fn request(head: &Head<'_>, random: &[u8; 32]) -> Answer {
    let name = name::internal(Dialect::Trystero, &[&name::random_part(random)]);
    Opening::anonymous(head, &name, Topics::new(&WIRE))
}

/// Returns the meaning of a client's message. Fails if its type is unknown or a field is missing.
fn action<'a>(message: &Object<'a>) -> Result<Action<'a>, IgnoredReason> {
    let topic = || message.string("topic").ok_or(IgnoredReason::Field);
    match &*message.string("type").unwrap_or_default() {
        "subscribe" => Ok(Action::Subscribe(vec![topic()?])),
        "unsubscribe" => Ok(Action::Unsubscribe(vec![topic()?])),
        "publish" => {
            let (topic, payload) = (topic()?, message.get("payload").ok_or(IgnoredReason::Field)?);
            let publication = format!(r#"{{"topic":{},"payload":{payload}}}"#, quote(&topic));
            Ok(Action::Publish { topic, publication })
        }
        _ => Err(IgnoredReason::Type),
    }
}

/// Returns the frame of a publication. `None`: it lacks a topic or a payload.
fn frame(publication: &Object<'_>) -> Option<String> {
    let (topic, payload) = (publication.string("topic")?, publication.get("payload")?);
    Some(format!(r#"{{"topic":{},"payload":{payload}}}"#, quote(&topic)))
}
