//! The rooms that somebody of this node is in: who, what they know of it, and what is due.

use std::collections::BTreeSet;
use std::time::Instant;

use signaling_protocol::{RoomName, SessionId};
use signaling_rooms::{Follower, Standing};

use super::Rooms;
use super::guest::{Place, UNTOLD};
use super::others::Others;

/// A room that somebody of this node is in, or waits for.
#[derive(Debug)]
pub(super) struct RoomHere {
    pub(super) follower: Follower,
    /// Sessions with a place in it.
    pub(super) sessions: BTreeSet<SessionId>,
    pub(super) waiting: BTreeSet<SessionId>,
    /// Members to be given the whole state.
    pub(super) uninformed: BTreeSet<SessionId>,
    /// All are, because changes were missing.
    pub(super) heals: bool,
    pub(super) state_asked: bool,
    pub(super) ask_after: Option<Instant>,
    /// Seats that the store must hear of soon: they came from elsewhere, or may have changed.
    pub(super) unconfirmed: BTreeSet<SessionId>,
    /// Members that the store was asked about.
    pub(super) others: Others,
    pub(super) line_moved: bool,
    pub(super) line_told: Option<Instant>,
}

impl RoomHere {
    fn new(version: u64) -> Self {
        Self {
            follower: Follower::new(version),
            sessions: BTreeSet::new(),
            waiting: BTreeSet::new(),
            uninformed: BTreeSet::new(),
            heals: false,
            state_asked: false,
            ask_after: None,
            unconfirmed: BTreeSet::new(),
            others: Others::default(),
            line_moved: false,
            line_told: None,
        }
    }

    /// Nothing is to be told or asked later.
    pub(super) fn is_idle(&self) -> bool {
        self.follower.deadline().is_none()
            && self.uninformed.is_empty()
            && self.unconfirmed.is_empty()
            && !self.line_moved
    }
}

impl Rooms {
    /// A session has a place in a room, whose version `version` its client knows.
    pub(super) fn is_in(&mut self, room: &RoomName, session: SessionId, standing: Standing, version: u64) {
        let here = self.here.entry(room.clone()).or_insert_with(|| RoomHere::new(version));
        if here.follower.version() == UNTOLD {
            // Nobody else here knows of any version.
            here.follower = Follower::new(version);
        }
        here.sessions.insert(session);
        if matches!(standing, Standing::Waiting { .. }) {
            here.waiting.insert(session);
        } else {
            here.waiting.remove(&session);
        }
    }

    /// A session has no place in a room any more.
    pub(super) fn is_out(&mut self, room: &RoomName, session: SessionId) {
        let Some(here) = self.here.get_mut(room) else { return };
        here.sessions.remove(&session);
        here.waiting.remove(&session);
        here.uninformed.remove(&session);
        here.unconfirmed.remove(&session);
        if here.sessions.is_empty() {
            self.here.remove(room);
            self.active.remove(room);
        }
    }

    /// A session's place in a room.
    pub(super) fn place(&mut self, session: SessionId, room: &RoomName) -> Option<&mut Place> {
        self.guests.get_mut(&session)?.places.get_mut(room)
    }

    /// Those who wait for a room here are to be told their places again.
    pub(super) fn line_has_moved(&mut self, room: &RoomName) {
        if let Some(here) = self.here.get_mut(room) {
            here.line_moved = true;
            self.active.insert(room.clone());
        }
    }

    /// A client is about to be told how things stood in a room at `version`. Others here may know of later changes, which nobody
    /// tells again: then it is given the whole state once more.
    pub(super) fn knows(&mut self, room: &RoomName, session: SessionId, version: u64) {
        if let Some(place) = self.place(session, room) {
            place.told = version;
        }
        if self.here.get(room).is_some_and(|here| here.follower.version() > version) {
            self.is_uninformed(room, session);
        }
    }

    /// A client must be given the whole state of a room.
    pub(super) fn is_uninformed(&mut self, room: &RoomName, session: SessionId) {
        if let Some(here) = self.here.get_mut(room) {
            here.uninformed.insert(session);
            self.active.insert(room.clone());
        }
        if let Some(place) = self.place(session, room) {
            place.told = UNTOLD;
        }
    }

    /// The store must hear soon of all who are here.
    pub(super) fn all_unconfirmed(&mut self, room: &RoomName) {
        if let Some(here) = self.here.get_mut(room) {
            here.unconfirmed.clone_from(&here.sessions);
            self.active.insert(room.clone());
        }
    }

    /// The store must hear soon that a session is here.
    pub(super) fn is_unconfirmed(&mut self, room: &RoomName, session: SessionId) {
        if let Some(here) = self.here.get_mut(room) {
            here.unconfirmed.insert(session);
            self.active.insert(room.clone());
        }
    }
}
