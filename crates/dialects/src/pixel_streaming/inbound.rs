//! Messages of the mesh to a client of Pixel Streaming.

use serde_json::value::RawValue;
use signaling_protocol::CloseCode;
use signaling_protocol::rooms::Member;

use super::envelope::Envelope;
use super::mesh::{Context, LIST};
use super::peer::{Kind, Peer};
use super::subscription::Progress;
use super::{Present, Role, State};
use crate::event::{AnswerKind, Event, IgnoredReason};
use crate::native::FromMesh;
use crate::room_requests::Outcome;
use crate::translator::Close;

const OVERLOADED: &str = "overloaded";

/// Returns the members with names of this dialect.
fn present<'a>(members: &[Member<'a>]) -> Vec<Present<'a>> {
    let present = |member: &Member<'a>| Some(Present { peer: Peer::of_name(member.client_id)?, data: member.data });
    members.iter().filter_map(present).collect()
}

impl State {
    /// Handles a message of the mesh, as JSON text. Frames for the client, requests to the mesh and
    /// a close go to `context`. Broadcasts, and signals of other dialects, are counted as ignored.
    /// Invalid and unknown messages have no effect.
    pub(super) fn mesh(&mut self, context: &mut Context<'_>, text: &[u8]) {
        match FromMesh::parse(text) {
            FromMesh::Welcome { ice_servers } => self.welcome(context, ice_servers),
            FromMesh::Signal { from, data } => match Peer::of_name(&from) {
                Some(from) => self.signal(context, from, data.get()),
                None => context.out.ignore(IgnoredReason::Foreign),
            },
            FromMesh::Joined { room, members, more, after } => {
                if context.requests.page_came(&room, after.as_deref()) {
                    self.page(context, &room, &present(&members), (after.is_none(), more));
                }
            }
            FromMesh::MembersChanged { room, joined, left } => {
                let left: Vec<Peer> = left.iter().filter_map(|former| Peer::of_name(former.client_id)).collect();
                self.change(context, &room, &present(&joined), &left);
            }
            FromMesh::Ack { id } => {
                if let Some(outcome) = context.requests.finish(context.now, id, context.out) {
                    self.done(context, &outcome);
                }
            }
            FromMesh::Error { id, code, retry_after } => {
                // The seat has capacity 1 and no waiting queue, so `overloaded` means that another
                // client has it.
                let seat = self.id.claimed_seat(context.own).filter(|_| code == OVERLOADED);
                if seat.is_some_and(|seat| context.requests.is_join_of(id, &seat)) {
                    context.requests.finish(context.now, id, context.out);
                    self.id.is_taken(context);
                } else if let Some(wait) = retry_after {
                    context.requests.refuse(context.now, id, wait, context.out);
                } else if let Some(outcome) = context.requests.finish(context.now, id, context.out) {
                    self.failed(context, &outcome);
                }
            }
            FromMesh::ListFailed { room, retry_after } => {
                if context.requests.page_failed(context.now, &room, retry_after, context.out) {
                    self.page_failed(context, &room);
                }
            }
            FromMesh::SeatLost { room } if self.id.is_in(context.own, &room) || self.subscription.is_in(&room) => {
                context.requests.seat_lost(&room, Close::RESTART, context.out);
            }
            FromMesh::Broadcast { .. } => context.out.ignore(IgnoredReason::Foreign),
            FromMesh::SeatLost { .. } | FromMesh::Other => {}
        }
    }

    fn welcome(&mut self, context: &mut Context<'_>, ice_servers: Option<&RawValue>) {
        if std::mem::replace(&mut self.is_welcome, true) {
            return;
        }
        self.liveness.heard(context);
        if context.role != Role::Player {
            context.out.frames.push(r#"{"type":"identify"}"#.to_owned());
        }
        let options = format!(r#"{{"iceServers":{}}}"#, ice_servers.map_or("[]", RawValue::get));
        let config = format!(r#"{{"type":"config","peerConnectionOptions":{options},"protocolVersion":"1.3.0"}}"#);
        context.out.frames.push(config);
    }

    fn signal(&mut self, context: &mut Context<'_>, from: Peer, data: &str) {
        match Envelope::parse(data) {
            Some(Envelope::Probe) if from.kind == Kind::Streamer && context.role != Role::Player => {
                // The edge does not read the answer to a Ping while the client has to wait.
                let is_paused = context.requests.is_full() || self.subscription.is_full();
                self.liveness.probe(context, from, is_paused);
            }
            Some(Envelope::Alive) => self.id.holder_is_alive(context, from),
            Some(Envelope::Message { subscription, message })
                if self.players.subscription(from) == Some(subscription) =>
            {
                context.out.frames.push(message.to_owned());
            }
            _ => {
                let progress = self.subscription.receive(context, from, data);
                self.proceed(context, progress);
            }
        }
    }

    fn page(&mut self, context: &mut Context<'_>, room: &str, members: &[Present<'_>], (is_first, more): (bool, bool)) {
        let last = members.last().filter(|_| more).map(|member| member.peer.to_name());
        let more = last.is_some();
        let (progress, needs_more) = if room == LIST {
            let needs_more = self.listing.page(context, &mut self.subscription, members, (is_first, more));
            (Progress::Unchanged, needs_more)
        } else if self.id.claimed_seat(context.own).is_some_and(|seat| seat == room) {
            let members: Vec<Peer> = members.iter().map(|member| member.peer).collect();
            self.id.members(context, &members);
            (Progress::Unchanged, false)
        } else if self.id.players_room(context.own).is_some_and(|players| players == room) {
            self.players.page(context, members, (is_first, more));
            (Progress::Unchanged, true)
        } else {
            self.subscription.page(context, room, members, (is_first, more))
        };
        if needs_more && let Some(last) = last {
            context.list(room, Some(&last));
        }
        self.proceed(context, progress);
    }

    fn page_failed(&mut self, context: &mut Context<'_>, room: &str) {
        if room == LIST {
            self.listing.page(context, &mut self.subscription, &[], (false, false));
        } else if self.id.claimed_seat(context.own).is_some_and(|seat| seat == room) {
            self.id.list_failed(context);
        } else {
            context.out.close = Some(Close::RESTART);
        }
    }

    fn change(&mut self, context: &mut Context<'_>, room: &str, joined: &[Present<'_>], left: &[Peer]) {
        if self.id.players_room(context.own).is_some_and(|players| players == room) {
            return self.players.change(context, joined, left);
        }
        let progress = self.subscription.change(context, room, joined, left);
        self.proceed(context, progress);
    }

    fn done(&mut self, context: &mut Context<'_>, outcome: &Outcome) {
        self.id.done(context, &mut self.players, outcome);
        if outcome.is_join && !outcome.changes_seat {
            self.subscription.done(context, &outcome.room);
        }
    }

    /// Handles the final failure of a request.
    fn failed(&mut self, context: &mut Context<'_>, outcome: &Outcome) {
        if !outcome.is_join || outcome.changes_seat {
            return;
        }
        if self.id.is_in(context.own, &outcome.room) {
            context.out.count(Event::Answered(AnswerKind::SubscribeFailed));
            let reason = "the token does not allow this id";
            context.out.close = Some(Close::with_reason(CloseCode::FORBIDDEN, reason));
        }
        let progress = self.subscription.join_failed(context, &outcome.room);
        self.proceed(context, progress);
    }
}
