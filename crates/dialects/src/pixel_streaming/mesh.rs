//! Names of rooms, and the time, requests and effects that all handlers of an input share.

use std::time::Instant;

use super::Role;
use super::envelope::Envelope;
use super::peer::Peer;
use crate::event::IgnoredReason;
use crate::native;
use crate::room_requests::{RequestKind, RoomRequests};
use crate::translator::{Close, Out};
use crate::{Dialect, name};

/// Room of all streamers with an id.
pub(super) const LIST: &str = "~ps.q:list";

/// Returns the room whose only member has a streamer's id. A viewer's token is no streamer's.
pub(super) fn seat_room(id: &str) -> String {
    name::of_kind(Dialect::PixelStreaming, "1on", "s", id)
}

/// Returns the room of a streamer and its players.
pub(super) fn players_room(id: &str) -> String {
    name::of_kind(Dialect::PixelStreaming, "", "sub", id)
}

/// An input's time and effects, and the client's requests.
pub(super) struct Context<'a> {
    pub(super) now: Instant,
    pub(super) own: Peer,
    pub(super) role: Role,
    pub(super) requests: &'a mut RoomRequests,
    pub(super) out: &'a mut Out,
}

impl Context<'_> {
    /// Enters a room with this JSON, which its members see. `None`: none. If too many requests have
    /// no outcome, the client must reconnect, also in [`Context::leave`].
    pub(super) fn join(&mut self, room: &str, data: Option<&str>) {
        self.change_seat(room, RequestKind::Join(data));
    }

    pub(super) fn leave(&mut self, room: &str) {
        self.change_seat(room, RequestKind::Leave);
    }

    fn change_seat(&mut self, room: &str, kind: RequestKind<'_>) {
        if !self.requests.push(self.now, room, kind, self.out) {
            // The client's messages cannot be carried out any more.
            self.out.ignore(IgnoredReason::Limit);
            self.out.close = Some(Close::RESTART);
        }
    }

    /// Requests a page of a room's members, behind this one. `None`: the first page.
    pub(super) fn list(&mut self, room: &str, after: Option<&str>) {
        self.requests.list(self.now, room, after, self.out);
    }

    /// Sends a translator an envelope, which the mesh holds at most `ttl_ms` for an absent client.
    pub(super) fn send(&mut self, to: Peer, envelope: &Envelope<'_>, ttl_ms: u64) {
        let id = self.requests.next_id();
        self.out.requests.push(native::signal(id, &to.to_name(), &envelope.to_json(), ttl_ms));
    }
}
