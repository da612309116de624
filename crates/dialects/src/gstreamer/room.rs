//! The client's seat in its room, its welcome, and the other members, as the parent module reports.

use std::time::Instant;

use signaling_protocol::CloseCode;
use signaling_protocol::rooms::{Former, Member};

use super::GStreamer;
use super::members::Update;
use super::sessions::Presence;
use super::status::{Role, Status};
use crate::event::{AnswerKind, Event, IgnoredReason};
use crate::room_requests::RequestKind;
use crate::translator::{Close, Out};
use crate::{Dialect, name};
use uuid::Uuid;

impl GStreamer {
    /// Enters the room or changes the status. Returns `false` if too many requests have no outcome.
    pub(super) fn enter(&mut self, now: Instant, status: Status, out: &mut Out) -> bool {
        let is_sent = self.requests.push(now, &self.room, RequestKind::Join(Some(&status.to_data())), out);
        if is_sent {
            self.next_statuses.push_back(status);
        }
        is_sent
    }

    /// Handles a request's success: a `join` makes its status the present one, a signal nothing.
    pub(super) fn accepted(&mut self, now: Instant, id: u64, out: &mut Out) {
        if self.requests.finish(now, id, out).is_none() {
            return;
        }
        let Some(status) = self.next_statuses.pop_front() else { return };
        self.status = status;
        if self.status.has(Role::Listener) {
            out.frames.push(self.status.announcement(self.own));
        }
        self.welcome(now, out);
    }

    /// Welcomes the client once the room has accepted it, and all members are known.
    fn welcome(&mut self, now: Instant, out: &mut Out) {
        if self.is_welcome || !self.next_statuses.is_empty() || self.members.is_partial {
            return;
        }
        self.is_welcome = true;
        out.frames.push(format!(r#"{{"type":"welcome","peerId":"{}"}}"#, self.own));
        while let Some(text) = self.early.pop() {
            self.client(now, text.as_bytes(), out);
        }
    }

    /// Handles the final failure of a request with this error code. A failed signal ends the
    /// session that needs it. A failed `join` is an error, and closes a client without a welcome.
    pub(super) fn fail(&mut self, now: Instant, id: u64, code: &str, out: &mut Out) {
        if self.requests.finish(now, id, out).is_none() {
            // Without its signal there is no session.
            return self.end_sessions(|session| session.request == Some(id), out);
        }
        self.next_statuses.pop_front();
        self.error(&format!("Peer {} cannot be registered: {code}", self.own), out);
        if !self.is_welcome {
            out.count(Event::Answered(AnswerKind::SubscribeFailed));
            let is_forbidden = code == "forbidden";
            out.close = Some(if is_forbidden { Close::new(Some(CloseCode::FORBIDDEN)) } else { Close::TRY_AGAIN });
        }
    }

    /// Handles a page of members, which can be the first, and behind which more can follow.
    pub(super) fn page(&mut self, now: Instant, page: &[Member<'_>], (is_first, more): (bool, bool), out: &mut Out) {
        if is_first {
            self.members.begin_snapshot();
            self.sessions.begin_snapshot();
        }
        page.iter().for_each(|member| self.update(member, out));
        // Clients of the dialect are the only members.
        match page.last().filter(|last| more && name::uuid(Dialect::GStreamer, last.client_id).is_some()) {
            Some(last) => self.requests.list(now, &self.room, Some(last.client_id), out),
            None => {
                for (peer, status) in self.members.end_snapshot() {
                    self.departed(peer, &status, out);
                }
                self.end_sessions(|session| session.presence == Presence::Missing, out);
                self.welcome(now, out);
            }
        }
    }

    pub(super) fn change(&mut self, joined: &[Member<'_>], left: &[Former<'_>], out: &mut Out) {
        for former in left {
            let Some(peer) = name::uuid(Dialect::GStreamer, former.client_id) else { continue };
            let status = self.members.remove(peer).unwrap_or_default();
            self.departed(peer, &status, out);
        }
        joined.iter().for_each(|member| self.update(member, out));
    }

    /// Adds a member, and announces its status to a listener.
    fn update(&mut self, member: &Member<'_>, out: &mut Out) {
        let peer = name::uuid(Dialect::GStreamer, member.client_id).filter(|peer| *peer != self.own);
        let Some(peer) = peer else { return };
        self.sessions.list(peer);
        match self.members.update(peer, member.data) {
            Update::Changed if self.is_listening() => {
                let status = self.members.get(peer).filter(|status| status.number > 0);
                out.frames.extend(status.map(|status| status.announcement(peer)));
            }
            Update::Changed | Update::Unchanged => {}
            Update::Dropped => out.ignore(IgnoredReason::Limit),
        }
    }

    /// Ends the sessions of a former member, and announces its departure to a listener.
    fn departed(&mut self, peer: Uuid, status: &Status, out: &mut Out) {
        self.end_sessions(|session| session.partner == peer, out);
        if self.is_listening() && status.number > 0 {
            out.frames.push(status.departure(peer));
        }
    }
}
