//! Publish-subscribe over topics, for y-webrtc and Trystero. A topic is a room.
//!
//! A publication is a `broadcast` with the `data` `{"k":"p","m":OBJECT}`. The object has the field
//! `topic` and the other fields that subscribers receive.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::time::Instant;

use serde_json::value::RawValue;
use signaling_protocol::rooms::LeftReason;

use crate::event::{AnswerKind, Event, IgnoredReason};
use crate::json::Object;
use crate::native::FromMesh;
use crate::room_requests::{RequestKind, RoomRequests};
use crate::translator::{Close, Input, Out};
use crate::{Dialect, name, trystero, y_webrtc};

/// Maximum topics of a client: the mesh's maximum rooms of a session.
const MAX_TOPICS: usize = 256;

/// The wire protocol of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    /// y-webrtc.
    YWebrtc,
    /// Trystero.
    Trystero,
}

impl Wire {
    const fn dialect(self) -> Dialect {
        match self {
            Self::YWebrtc => Dialect::YWebrtc,
            Self::Trystero => Dialect::Trystero,
        }
    }

    fn action<'a>(self, message: &Object<'a>) -> Result<Action<'a>, IgnoredReason> {
        match self {
            Self::YWebrtc => y_webrtc::action(message),
            Self::Trystero => trystero::action(message),
        }
    }

    fn frame(self, publication: &Object<'_>) -> Option<String> {
        match self {
            Self::YWebrtc => Some(y_webrtc::frame(publication)),
            Self::Trystero => trystero::frame(publication),
        }
    }
}

/// Meaning of a client's message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Action<'a> {
    Subscribe(Vec<Cow<'a, str>>),
    Unsubscribe(Vec<Cow<'a, str>>),
    /// Sends an object, whose field `topic` is this topic, to all subscribers.
    Publish {
        topic: Cow<'a, str>,
        publication: String,
    },
    Ping,
}

/// The translator of a client with topics.
#[derive(Debug)]
pub struct Topics {
    wire: Wire,
    /// Rooms of the subscribed topics.
    subscribed: BTreeSet<String>,
    requests: RoomRequests,
}

impl Topics {
    pub(crate) fn new(wire: Wire) -> Self {
        Self { wire, subscribed: BTreeSet::new(), requests: RoomRequests::default() }
    }

    pub(crate) fn input(&mut self, now: Instant, input: Input<'_>, out: &mut Out) {
        match input {
            Input::Mesh(text) => self.mesh(now, text, out),
            Input::Text(text) | Input::Binary(text) => self.client(now, text, out),
            Input::Tick if !self.requests.tick(now, out) => out.close = Some(Close::TRY_AGAIN),
            Input::Tick | Input::Pong => {}
        }
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.requests.deadline()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.requests.is_full()
    }

    pub(crate) fn paused_frame(&self) -> Option<&'static str> {
        // y-webrtc closes after 30 s without a message.
        (self.wire == Wire::YWebrtc).then_some(y_webrtc::PONG)
    }

    pub(crate) fn retained_bytes(&self) -> usize {
        self.requests.retained_bytes() + self.subscribed.iter().map(|room| room.len() + 64).sum::<usize>()
    }

    fn room(&self, topic: &str) -> String {
        name::internal(self.wire.dialect(), &[topic])
    }

    fn client(&mut self, now: Instant, text: &[u8], out: &mut Out) {
        let Some(message) = Object::parse(text) else { return out.ignore(IgnoredReason::Json) };
        match self.wire.action(&message) {
            Ok(Action::Subscribe(topics)) => topics.iter().for_each(|topic| self.subscribe(now, topic, out)),
            Ok(Action::Unsubscribe(topics)) => topics.iter().for_each(|topic| self.unsubscribe(now, topic, out)),
            Ok(Action::Publish { topic, publication }) => self.publish(now, &topic, &publication, out),
            Ok(Action::Ping) => out.frames.push(y_webrtc::PONG.to_owned()),
            Err(reason) => out.ignore(reason),
        }
    }

    fn subscribe(&mut self, now: Instant, topic: &str, out: &mut Out) {
        let room = self.room(topic);
        if self.subscribed.contains(&room) {
            return;
        }
        if self.subscribed.len() >= MAX_TOPICS || !self.requests.push(now, &room, RequestKind::Join(None), out) {
            return out.ignore(IgnoredReason::Limit);
        }
        self.subscribed.insert(room);
    }

    fn unsubscribe(&mut self, now: Instant, topic: &str, out: &mut Out) {
        let room = self.room(topic);
        if !self.subscribed.contains(&room) {
            return;
        }
        if !self.requests.push(now, &room, RequestKind::Leave, out) {
            return out.ignore(IgnoredReason::Limit);
        }
        self.subscribed.remove(&room);
    }

    fn publish(&mut self, now: Instant, topic: &str, publication: &str, out: &mut Out) {
        let room = self.room(topic);
        let data = format!(r#"{{"k":"p","m":{publication}}}"#);
        if !self.requests.push(now, &room, RequestKind::Broadcast(&data), out) {
            return out.ignore(IgnoredReason::Limit);
        }
        // The mesh sends a broadcast to all other members.
        if self.subscribed.contains(&room) {
            out.frames.extend(Object::parse(publication.as_bytes()).and_then(|object| self.wire.frame(&object)));
        }
    }

    fn mesh(&mut self, now: Instant, text: &[u8], out: &mut Out) {
        match FromMesh::parse(text) {
            FromMesh::Broadcast { room, from, data } => self.deliver(&room, &from, data, out),
            FromMesh::Ack { id } => drop(self.requests.finish(now, id, out)),
            FromMesh::Error { id, retry_after: Some(wait), .. } => self.requests.refuse(now, id, wait, out),
            FromMesh::Error { id, retry_after: None, .. } => self.fail(now, id, out),
            FromMesh::Left { room, reason } => self.left(&room, reason, out),
            FromMesh::Signal { .. } => out.ignore(IgnoredReason::Foreign),
            _ => {}
        }
    }

    fn deliver(&self, room: &str, from: &str, data: &RawValue, out: &mut Out) {
        if !self.subscribed.contains(room) {
            return;
        }
        let data = Some(data).filter(|_| name::is_of(self.wire.dialect(), from));
        let frame = data.and_then(|data| {
            let envelope = Object::parse(data.get().as_bytes())?;
            let publication = Object::parse(envelope.get("m")?.get().as_bytes())?;
            let is_known = envelope.string("k")? == "p" && self.room(&publication.string("topic")?) == room;
            is_known.then(|| self.wire.frame(&publication)).flatten()
        });
        match frame {
            Some(frame) => out.frames.push(frame),
            None => out.ignore(IgnoredReason::Foreign),
        }
    }

    fn fail(&mut self, now: Instant, id: u64, out: &mut Out) {
        let Some(outcome) = self.requests.finish(now, id, out) else { return };
        if outcome.is_join {
            out.count(Event::Answered(AnswerKind::SubscribeFailed));
            // A later `join` of the same topic decides.
            if !outcome.changes_seat {
                self.subscribed.remove(&*outcome.room);
            }
        }
    }

    fn left(&mut self, room: &str, reason: LeftReason, out: &mut Out) {
        // A pending request decides about the seat.
        if self.requests.changes_seat(room) || !self.subscribed.contains(room) {
            return;
        }
        match reason {
            LeftReason::Expired => out.close = Some(Close::TRY_AGAIN),
            LeftReason::Kicked => drop(self.subscribed.remove(room)),
            LeftReason::Left => {}
        }
    }
}
