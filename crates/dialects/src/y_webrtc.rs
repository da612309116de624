//! y-webrtc 10: plain requests, and messages of its publish-subscribe protocol.

use std::borrow::Cow;

use crate::event::IgnoredReason;
use crate::json::{Object, array, string};
use crate::request::{Answer, Head, HttpAnswer, Opening};
use crate::topics::{Action, Topics, Wire};
use crate::{Dialect, name};

/// Answer to a client's `ping`, and sent unasked while the client is not read.
pub(crate) const PONG: &str = r#"{"type":"pong"}"#;

static WIRE: Wire = Wire {
    dialect: Dialect::YWebrtc,
    action,
    frame,
    // The client closes after 30 s without a message.
    paused_frame: Some(PONG),
};

/// Returns the answer to a request: an upgrade for any path and query, `okay` for a plain request.
pub(crate) fn request(head: &Head<'_>, random: &[u8; 32]) -> Answer {
    if !head.upgrade {
        return Answer::Http(HttpAnswer::new(200, "text/plain", "okay"));
    }
    let name = name::internal(Dialect::YWebrtc, &[&name::random_part(random)]);
    Opening::anonymous(head, &name, Topics::new(&WIRE))
}

/// Returns the meaning of a client's message.
fn action<'a>(message: &Object<'a>) -> Result<Action<'a>, IgnoredReason> {
    match &*message.string("type").unwrap_or_default() {
        "subscribe" => topics(message).map(Action::Subscribe),
        "unsubscribe" => topics(message).map(Action::Unsubscribe),
        "publish" => {
            let topic = message.string("topic").filter(|topic| !topic.is_empty()).ok_or(IgnoredReason::Field)?;
            Ok(Action::Publish { topic, publication: message.to_text("clients", None) })
        }
        "ping" => Ok(Action::Ping),
        _ => Err(IgnoredReason::Type),
    }
}

/// Returns the topics of a message. No publication can reach the empty one.
fn topics<'a>(message: &Object<'a>) -> Result<Vec<Cow<'a, str>>, IgnoredReason> {
    let Some(topics) = message.get("topics") else { return Ok(Vec::new()) };
    let topics = array(topics).ok_or(IgnoredReason::Field)?;
    Ok(topics.into_iter().filter_map(string).filter(|topic| !topic.is_empty()).collect())
}

/// Returns the frame of a publication, never `None`. Clients ignore its `clients`, always 1.
fn frame(publication: &Object<'_>) -> Option<String> {
    Some(publication.to_text("clients", Some(r#""clients":1"#)))
}
