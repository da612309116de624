//! Publish-subscribe over topics, for y-webrtc and Trystero. A topic is a room.
//!
//! A publication is a `broadcast` with the `data` `{"k":"p","m":OBJECT}`. The object has the field
//! `topic` and the other fields that subscribers receive.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::time::Instant;

use serde_json::value::RawValue;

use crate::event::{AnswerKind, Event, IgnoredReason};
use crate::json::Object;
use crate::native::FromMesh;
use crate::room_requests::{RequestKind, RoomRequests};
use crate::translator::{Close, Input, Out, Translate};
use crate::{Dialect, name, y_webrtc};

/// Maximum topics of a client: the mesh's maximum rooms of a session. Further ones are ignored.
const MAX_TOPICS: usize = 256;

#[derive(Debug)]
pub(crate) struct Wire {
    pub(crate) dialect: Dialect,
    /// Returns the meaning of a client's message. Fails with the reason why it is ignored.
    pub(crate) action: for<'a> fn(&Object<'a>) -> Result<Action<'a>, IgnoredReason>,
    /// Returns the frame of a publication for a subscriber. `None`: it lacks a field.
    pub(crate) frame: fn(&Object<'_>) -> Option<String>,
    /// Frame that the edge writes every 5 s while it does not read from the client. `None`: the
    /// client needs none.
    pub(crate) paused_frame: Option<&'static str>,
}

/// Meaning of a client's message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Action<'a> {
    /// Subscribes to these topics. One is ignored beyond 256 topics of the client, or at the limit
    /// of [`RoomRequests::push`].
    Subscribe(Vec<Cow<'a, str>>),
    Unsubscribe(Vec<Cow<'a, str>>),
    /// Sends a publication to all subscribers. The sender receives it too if it has subscribed.
    Publish {
        topic: Cow<'a, str>,
        /// A JSON object with the field `topic`, which is this topic.
        publication: String,
    },
    /// Requests the `pong` of y-webrtc.
    Ping,
}

/// The translator of a client with topics. Closes the client with 1013 if it loses the seat of a
/// topic, or if a request is not answered within its maximum age in [`RoomRequests`].
#[derive(Debug)]
pub(crate) struct Topics {
    wire: &'static Wire,
    /// Rooms of the subscribed topics.
    subscribed: BTreeSet<String>,
    requests: RoomRequests,
}

impl Translate for Topics {
    fn input(&mut self, now: Instant, input: Input<'_>, out: &mut Out) {
        match input {
            Input::Mesh(text) => self.mesh(now, text, out),
            Input::Text(text) | Input::Binary(text) => self.client(now, text, out),
            Input::Tick if !self.requests.tick(now, out) => out.close = Some(Close::TRY_AGAIN),
            Input::Tick | Input::Pong => {}
        }
    }

    fn deadline(&self) -> Option<Instant> {
        self.requests.deadline()
    }

    fn is_full(&self) -> bool {
        self.requests.is_full()
    }

    fn paused_frame(&self) -> Option<&'static str> {
        self.wire.paused_frame
    }

    fn retained_bytes(&self) -> usize {
        self.requests.retained_bytes() + self.subscribed.iter().map(|room| room.len() + 64).sum::<usize>()
    }
}

impl Topics {
    pub(crate) fn new(wire: &'static Wire) -> Self {
        Self { wire, subscribed: BTreeSet::new(), requests: RoomRequests::default() }
    }

    fn room(&self, topic: &str) -> String {
        name::room(self.wire.dialect, "q", &[topic])
    }

    fn client(&mut self, now: Instant, text: &[u8], out: &mut Out) {
        let Some(message) = Object::parse(text) else { return out.ignore(IgnoredReason::Json) };
        match (self.wire.action)(&message) {
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
            out.frames.extend(Object::parse(publication.as_bytes()).and_then(|object| (self.wire.frame)(&object)));
        }
    }

    fn mesh(&mut self, now: Instant, text: &[u8], out: &mut Out) {
        match FromMesh::parse(text) {
            FromMesh::Broadcast { room, from, data } => self.deliver(&room, &from, data, out),
            FromMesh::Ack { id } => drop(self.requests.finish(now, id, out)),
            FromMesh::Error { id, retry_after: Some(wait), .. } => self.requests.refuse(now, id, wait, out),
            FromMesh::Error { id, retry_after: None, .. } => self.fail(now, id, out),
            FromMesh::SeatLost { room } if self.subscribed.contains(&*room) => {
                self.requests.seat_lost(&room, Close::TRY_AGAIN, out);
            }
            FromMesh::Signal { .. } => out.ignore(IgnoredReason::Foreign),
            _ => {}
        }
    }

    fn deliver(&self, room: &str, from: &str, data: &RawValue, out: &mut Out) {
        if !self.subscribed.contains(room) {
            return;
        }
        let data = Some(data).filter(|_| name::is_of(self.wire.dialect, from));
        let frame = data.and_then(|data| {
            let envelope = Object::parse(data.get().as_bytes())?;
            let publication = Object::parse(envelope.get("m")?.get().as_bytes())?;
            let is_known = envelope.string("k")? == "p" && self.room(&publication.string("topic")?) == room;
            is_known.then(|| (self.wire.frame)(&publication)).flatten()
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
}
