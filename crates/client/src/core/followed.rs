//! Rooms whose members `Core` follows: from an accepted join to its leave, removal or refusal.

use super::members::{Members, RoomChange, RoomState};
use super::{Core, Effect, Ms, Phase};
use crate::event::Event;

impl Core {
    fn followed(&mut self, room: &str) -> Option<&mut Members> {
        self.followed.iter_mut().find(|members| members.room == room)
    }

    /// Returns a room for a message of the server; `None` if it precedes the answer to a `leave`.
    fn receiving(&mut self, room: &str) -> Option<&mut Members> {
        if self.requests.pending_leaves().any(|left| left == room) { None } else { self.followed(room) }
    }

    /// Returns `true` if the client is not out of the room, nor about to leave it.
    pub(super) fn is_followed(&mut self, room: &str) -> bool {
        self.receiving(room).is_some()
    }

    /// Returns `true` if a join without a use needs no `leave`: another join or a leave is pending.
    pub(super) fn is_out_or_leaving(&mut self, room: &str) -> bool {
        self.followed(room).is_some() || self.requests.pending_leaves().any(|left| left == room)
    }

    /// Follows a room from its join on.
    pub(super) fn follow(&mut self, room: &str) {
        if self.followed(room).is_none() {
            self.followed.push(Members::new(room, &self.client_id));
            self.report(room, [RoomChange::Joining { reason: None }]);
        }
    }

    /// Ends a room.
    pub(super) fn out(&mut self, room: &str, reason: &str) {
        if self.followed(room).is_some() {
            self.followed.retain(|members| members.room != room);
            self.report(room, [RoomChange::Out { reason: reason.to_owned() }]);
        }
    }

    /// Ends a room whose last join is over. If the mesh still executes it, the client leaves.
    pub(super) fn gave_up(&mut self, room: &str, reason: &str) {
        let is_wanted = self.requests.wants(room) || self.rooms.lacks_seat(room);
        if !is_wanted && self.followed(room).is_some_and(|members| members.state == RoomState::Joining) {
            self.out(room, reason);
        }
    }

    /// Handles a message of the server about a room.
    pub(super) fn follow_event(&mut self, now: Ms, event: &Event) {
        let (room, changes) = match event {
            Event::Joined(page) => (&page.room, self.receiving(&page.room).map(|it| it.joined(now, page))),
            Event::Waiting { room, ahead, queue_length } => {
                (room, self.receiving(room).map(|it| vec![it.waiting(*ahead, *queue_length)]))
            }
            Event::MembersChanged { room, version, joined, left } => {
                (room, self.receiving(room).map(|it| it.changed(*version, joined, left)))
            }
            Event::Left { room, reason } => {
                self.left(room, reason);
                return;
            }
            _ => return,
        };
        self.report(room, changes.into_iter().flatten());
        self.flush(now);
    }

    fn left(&mut self, room: &str, reason: &str) {
        self.rooms.leave(room);
        let is_wanted = self.requests.wants(room);
        let Some(members) = self.receiving(room) else { return };
        if is_wanted {
            let change = members.joins_again(reason.to_owned());
            self.report(room, [change]);
        } else {
            self.out(room, reason);
        }
    }

    /// Handles an error without a number. Returns `true` if it refuses a page of the client itself.
    pub(super) fn page_failed(&mut self, now: Ms, room: Option<&str>, wait: Option<Ms>) -> bool {
        room.and_then(|room| self.followed(room)).is_some_and(|members| members.page_failed(now, wait))
    }

    /// Requests pages that are due, at the pace of requests. Returns `false` if one has to wait.
    pub(super) fn request_pages(&mut self, now: Ms) -> bool {
        for members in &mut self.followed {
            let Some(page) = members.take_page(now) else { continue };
            if !self.pacer.take(now, page.len()) {
                members.page_at = self.pacer.free_at;
                return false;
            }
            self.effects.push(Effect::Write(page));
        }
        true
    }

    /// Returns the time of the next page, if a connection is open.
    pub(super) fn page_deadline(&self) -> Option<Ms> {
        let Phase::Connected(_) = self.phase else { return None };
        self.followed.iter().filter_map(|members| members.page_at).min()
    }

    pub(super) fn report(&mut self, room: &str, changes: impl IntoIterator<Item = RoomChange>) {
        let effect = |change| Effect::Room { room: room.to_owned(), change };
        self.effects.extend(changes.into_iter().map(effect));
    }
}
