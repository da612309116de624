//! Requests of one client to the mesh. Lists of members are read page by page, and repeated while
//! the mesh refuses them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::envelope::Envelope;
use super::peer::Peer;
use crate::event::{Event, IgnoredReason};
use crate::native;
use crate::room_requests::{RequestKind, RoomRequests};
use crate::translator::{Close, Out};
use crate::{Dialect, name};

/// Room of all streamers with an id.
pub(super) const LIST: &str = "~ps:list";
/// Time without an answer after which the client must reconnect.
const MAX_PAGE_AGE: Duration = Duration::from_secs(30);
/// Bounds of the wait before a repetition.
const MIN_RETRY: Duration = Duration::from_millis(50);
const MAX_RETRY: Duration = Duration::from_secs(5);

/// Returns the room whose only member has a streamer's id.
pub(super) fn seat_room(id: &str) -> String {
    name::of_kind(Dialect::PixelStreaming, "s", id)
}

/// Returns the room of a streamer and its players.
pub(super) fn players_room(id: &str) -> String {
    name::of_kind(Dialect::PixelStreaming, "sub", id)
}

#[derive(Debug)]
struct Page {
    /// Last member of the page before. `None`: it is the first page.
    after: Option<Box<str>>,
    since: Instant,
    /// Time of the next repetition. `None`: an answer is to come.
    retry_at: Option<Instant>,
}

/// Requests without an outcome.
#[derive(Debug, Default)]
pub(super) struct Requests {
    pub(super) rooms: RoomRequests,
    /// Pages to come, by room.
    pages: BTreeMap<Box<str>, Page>,
}

impl Requests {
    /// Removes the request whose page has come.
    pub(super) fn page_came(&mut self, room: &str) {
        self.pages.remove(room);
    }

    /// Handles the failure of a page. Returns `true` if it is final.
    pub(super) fn page_failed(
        &mut self,
        now: Instant,
        room: &str,
        retry_after: Option<Duration>,
        out: &mut Out,
    ) -> bool {
        match (self.pages.get_mut(room), retry_after) {
            (Some(page), Some(wait)) => {
                out.count(Event::RoomWait);
                page.retry_at = Some(now + wait.clamp(MIN_RETRY, MAX_RETRY));
                false
            }
            (Some(_), None) => self.pages.remove(room).is_some(),
            (None, _) => false,
        }
    }

    /// Repeats refused requests that are due. Returns `false` if one is over its maximum age.
    pub(super) fn tick(&mut self, now: Instant, out: &mut Out) -> bool {
        for (room, page) in &mut self.pages {
            if page.retry_at.is_some_and(|at| at <= now) {
                page.retry_at = None;
                out.requests.push(native::members(room, page.after.as_deref()));
            }
        }
        self.rooms.tick(now, out) && self.pages.values().all(|page| now < page.since + MAX_PAGE_AGE)
    }

    /// Returns the time of the next [`Requests::tick`].
    pub(super) fn deadline(&self) -> Option<Instant> {
        let page = self.pages.values().map(|page| page.retry_at.unwrap_or(page.since + MAX_PAGE_AGE)).min();
        [page, self.rooms.deadline()].into_iter().flatten().min()
    }

    /// Returns the approximate size of all requests, in bytes.
    pub(super) fn retained_bytes(&self) -> usize {
        self.rooms.retained_bytes() + self.pages.len() * (size_of::<Page>() + 256)
    }
}

/// What an input's handlers need beside their state.
pub(super) struct Context<'a> {
    pub(super) now: Instant,
    /// The client itself.
    pub(super) own: Peer,
    pub(super) requests: &'a mut Requests,
    pub(super) out: &'a mut Out,
}

impl Context<'_> {
    /// Enters a room with this JSON, which its members see.
    pub(super) fn join(&mut self, room: &str, data: Option<&str>) {
        self.change_seat(room, RequestKind::Join(data));
    }

    pub(super) fn leave(&mut self, room: &str) {
        self.change_seat(room, RequestKind::Leave);
    }

    fn change_seat(&mut self, room: &str, kind: RequestKind<'_>) {
        if !self.requests.rooms.push(self.now, room, kind, self.out) {
            // The client's messages cannot be carried out any more.
            self.out.ignore(IgnoredReason::Limit);
            self.out.close = Some(Close::RESTART);
        }
    }

    /// Requests members of a room, from the first or behind this one.
    pub(super) fn list(&mut self, room: &str, after: Option<&str>) {
        let page = Page { after: after.map(Box::from), since: self.now, retry_at: None };
        self.requests.pages.insert(room.into(), page);
        self.out.requests.push(native::members(room, after));
    }

    /// Sends a message to another translator, which the mesh holds at most `ttl_ms` milliseconds.
    pub(super) fn signal(&mut self, to: Peer, data: &str, ttl_ms: u64) {
        let id = self.requests.rooms.next_id();
        self.out.requests.push(native::signal(id, &to.to_name(), data, ttl_ms));
    }

    /// As [`Context::signal`], for an envelope.
    pub(super) fn send(&mut self, to: Peer, envelope: &Envelope<'_>, ttl_ms: u64) {
        self.signal(to, &envelope.to_json(), ttl_ms);
    }

    /// Returns `true` if a `join` or `leave` of the room has no outcome.
    pub(super) fn changes_seat(&self, room: &str) -> bool {
        self.requests.rooms.changes_seat(room)
    }
}
