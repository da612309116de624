//! `GStreamer`'s webrtcsink, webrtcsrc and gstwebrtc-api: the upgrade request and the translator.
//!
//! Each path is a room, entered before the welcome, so that a client can call members at once.

mod calls;
mod client;
mod members;
mod room;
mod sessions;
mod status;

use std::collections::VecDeque;
use std::time::Instant;

use serde_json::value::RawValue;

use self::members::Members;
use self::sessions::Sessions;
use self::status::{Role, Status};
use crate::event::{AnswerKind, Event, IgnoredReason};
use crate::held::Held;
use crate::json::quote;
use crate::native::FromMesh;
use crate::request::{Answer, Head, Opening};
use crate::room_requests::RoomRequests;
use crate::translator::{Close, Input, Out, Translate};
use crate::{Dialect, name};
use uuid::Uuid;

/// Returns the answer to a request: an upgrade for any path and query, 404 for a plain request.
pub(crate) fn request(head: &Head<'_>, random: &[u8; 32]) -> Answer {
    let (own, mut secret) = (name::random_uuid(random), [0; 16]);
    secret.copy_from_slice(&random[16..]);
    // Slashes at the ends do not make another room.
    let room = name::internal(Dialect::GStreamer, &[head.path.trim_matches('/')]);
    let translator = GStreamer { own, room, secret, ..GStreamer::default() };
    Opening::anonymous(head, &name::of_uuid(Dialect::GStreamer, own), translator)
}

#[derive(Debug, Default)]
pub(crate) struct GStreamer {
    own: Uuid,
    room: String,
    /// Secret from which the ids of its sessions follow.
    secret: [u8; 16],
    /// Number of sessions that it has asked for.
    asked_sessions: u64,
    /// `true` once the client is in the room and has its id.
    is_welcome: bool,
    /// `true` once the client has sent a valid message.
    has_spoken: bool,
    /// `true` if the client has protocol version 1.1.
    has_v1_1: bool,
    /// Messages of a client that is not welcome yet. Elements send their protocol version first.
    /// The edge does not read further ones meanwhile.
    early: Held<(), 16, { 128 * 1024 }>,
    /// Last status that the room has accepted.
    status: Status,
    /// Later ones without an outcome, oldest first.
    next_statuses: VecDeque<Status>,
    members: Members,
    sessions: Sessions,
    requests: RoomRequests,
}

impl Translate for GStreamer {
    fn input(&mut self, now: Instant, input: Input<'_>, out: &mut Out) {
        match input {
            Input::Mesh(text) => self.mesh(now, text, out),
            Input::Text(text) if self.is_welcome => self.client(now, text, out),
            Input::Text(text) if self.early.push((), str::from_utf8(text).unwrap_or_default()) => {}
            Input::Text(_) => out.ignore(IgnoredReason::Limit),
            Input::Binary(_) => out.ignore(IgnoredReason::Binary),
            Input::Tick => self.tick(now, out),
            Input::Pong => {}
        }
    }

    fn deadline(&self) -> Option<Instant> {
        self.requests.deadline().into_iter().chain(self.sessions.deadline()).min()
    }

    fn is_full(&self) -> bool {
        !self.is_welcome || self.requests.is_full()
    }

    fn error_frame(&self, reason: &str) -> Option<String> {
        Some(format!(r#"{{"type":"error","details":{}}}"#, quote(reason)))
    }

    fn retained_bytes(&self) -> usize {
        let statuses = std::iter::once(&self.status).chain(&self.next_statuses);
        let statuses: usize = statuses.map(|status| status.meta.len() + size_of::<Status>()).sum();
        let lists = self.members.bytes + self.sessions.bytes() + self.early.retained_bytes();
        self.room.len() + statuses + lists + self.requests.retained_bytes()
    }
}

impl GStreamer {
    /// Returns the client's status by its last message.
    fn present_status(&self) -> &Status {
        self.next_statuses.back().unwrap_or(&self.status)
    }

    fn is_listening(&self) -> bool {
        self.present_status().has(Role::Listener)
    }

    fn mesh(&mut self, now: Instant, text: &[u8], out: &mut Out) {
        match FromMesh::parse(text) {
            FromMesh::Welcome { .. } if !self.is_welcome && self.next_statuses.is_empty() => {
                self.enter(now, Status::default(), out);
            }
            FromMesh::Signal { from, data } => {
                if let Err(reason) = self.deliver(&from, data, out) {
                    out.ignore(reason);
                }
            }
            FromMesh::Joined { room, members, more, after }
                if *room == *self.room && self.requests.page_came(&room, after.as_deref()) =>
            {
                self.page(now, &members, (after.is_none(), more), out);
            }
            FromMesh::ListFailed { room, retry_after } if self.requests.page_failed(now, &room, retry_after, out) => {
                out.close = Some(Close::TRY_AGAIN);
            }
            FromMesh::MembersChanged { room, joined, left } if *room == *self.room => self.change(&joined, &left, out),
            FromMesh::Ack { id } => self.accepted(now, id, out),
            FromMesh::Error { id, code, retry_after } => match retry_after {
                Some(wait) if code != "overloaded" && self.requests.is_pending(id) => {
                    self.requests.refuse(now, id, wait, out);
                }
                _ => self.fail(now, id, &code, out),
            },
            FromMesh::SeatLost { room } if *room == *self.room => {
                self.requests.seat_lost(&room, Close::TRY_AGAIN, out);
            }
            FromMesh::Broadcast { .. } => out.ignore(IgnoredReason::Foreign),
            _ => {}
        }
    }

    fn tick(&mut self, now: Instant, out: &mut Out) {
        if !self.requests.tick(now, out) {
            out.close = Some(Close::TRY_AGAIN);
        }
        self.end_sessions(|session| session.is_overdue(now), out);
    }

    fn error(&self, details: &str, out: &mut Out) {
        out.frames.extend(self.error_frame(details));
        out.count(Event::Answered(AnswerKind::Error));
    }
}

/// Returns an optional JSON value as text.
fn or_null(value: Option<&RawValue>) -> &str {
    value.map_or("null", RawValue::get)
}
