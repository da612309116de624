//! Rooms with a seat at this node: their sessions, their known state, and pending work.

use std::collections::BTreeSet;
use std::time::Instant;

use signaling_protocol::{ClientId, RoomName};
use signaling_rooms::{Change, ChangeSequencer, Member, SeatStatus, Stamp};
use signaling_wire::SessionId;

use super::Rooms;
use super::known_members::KnownMembers;
use super::room_session::{LocalSeat, UNTOLD, is_behind};

/// Maximum members of a room whose names are kept.
const MOST_LISTED: usize = 1_000;

/// A room with a seat at this node.
#[derive(Debug)]
pub(super) struct LocalRoom {
    pub(super) follower: ChangeSequencer,
    /// Sessions with a seat.
    pub(super) sessions: BTreeSet<SessionId>,
    pub(super) waiting: BTreeSet<SessionId>,
    /// Members that need the whole state.
    pub(super) uninformed: BTreeSet<SessionId>,
    /// Changes were missing, so all members need the whole state.
    pub(super) heals: bool,
    pub(super) state_asked: bool,
    pub(super) ask_after: Option<Instant>,
    /// Seats to refresh soon: they came from another node or may have changed.
    pub(super) unconfirmed: BTreeSet<SessionId>,
    /// Members by answers of the store about single clients.
    pub(super) others: KnownMembers,
    /// All members as sent to clients here. `None`: unknown, or more than one page.
    listed: Option<BTreeSet<ClientId>>,
    pub(super) line_moved: bool,
    pub(super) line_told: Option<Instant>,
}

impl LocalRoom {
    fn new(at: Stamp) -> Self {
        Self {
            follower: ChangeSequencer::new(at),
            sessions: BTreeSet::new(),
            waiting: BTreeSet::new(),
            uninformed: BTreeSet::new(),
            heals: false,
            state_asked: false,
            ask_after: None,
            unconfirmed: BTreeSet::new(),
            others: KnownMembers::default(),
            listed: None,
            line_moved: false,
            line_told: None,
        }
    }

    /// Returns `true` if no work is pending.
    pub(super) fn is_idle(&self) -> bool {
        self.follower.deadline().is_none()
            && self.uninformed.is_empty()
            && self.unconfirmed.is_empty()
            && !self.line_moved
    }

    /// Stores all members. With `more`, `members` is only the first page.
    pub(super) fn lists(&mut self, members: &[Member], more: bool) {
        let all = || members.iter().map(|member| member.client.clone()).collect();
        self.listed = (!more && members.len() <= MOST_LISTED).then(all);
    }

    /// Takes in a change that clients here receive.
    pub(super) fn lists_change(&mut self, change: &Change) {
        let Some(listed) = &mut self.listed else { return };
        match change {
            Change::Joined(member) if listed.len() >= MOST_LISTED && !listed.contains(&member.client) => {
                self.listed = None;
            }
            Change::Joined(member) => {
                listed.insert(member.client.clone());
            }
            Change::Left { client, .. } => {
                listed.remove(client);
            }
        }
    }

    /// Returns `true` if `members` contains every member in this node's list. Returns `false` if
    /// the list is incomplete: there are too many members, or changes are missing.
    pub(super) fn knows_none_but(&self, members: &[Member]) -> bool {
        let Some(mut known) = self.listed.clone().filter(|_| !self.follower.misses_changes()) else { return false };
        for change in self.follower.pending() {
            match change {
                Change::Joined(member) => known.insert(member.client.clone()),
                Change::Left { client, .. } => known.remove(client),
            };
        }
        let members: BTreeSet<_> = members.iter().map(|member| &member.client).collect();
        known.iter().all(|client| members.contains(client))
    }
}

impl Rooms {
    /// Adds a session's seat. Its client has the state `at` of the room.
    pub(super) fn add_seat(&mut self, room: &RoomName, session: SessionId, standing: SeatStatus, at: Stamp) {
        let here = self.here.entry(room.clone()).or_insert_with(|| LocalRoom::new(at));
        if here.follower.version() == UNTOLD.version {
            // No client here has received any version.
            here.follower = ChangeSequencer::new(at);
        }
        here.sessions.insert(session);
        if matches!(standing, SeatStatus::Waiting { .. }) {
            here.waiting.insert(session);
        } else {
            here.waiting.remove(&session);
        }
    }

    /// Removes a session's seat.
    pub(super) fn remove_seat(&mut self, room: &RoomName, session: SessionId) {
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

    /// Returns a session's seat in a room.
    pub(super) fn place(&mut self, session: SessionId, room: &RoomName) -> Option<&mut LocalSeat> {
        self.guests.get_mut(&session)?.places.get_mut(room)
    }

    /// Schedules new positions for the waiting clients here.
    pub(super) fn line_has_moved(&mut self, room: &RoomName) {
        if let Some(here) = self.here.get_mut(room) {
            here.line_moved = true;
            self.active.insert(room.clone());
        }
    }

    /// Records that a client receives the state `at` of a room. If other clients here have later
    /// changes, it also needs the whole state, since changes are sent once.
    pub(super) fn knows(&mut self, room: &RoomName, session: SessionId, at: Stamp) {
        if let Some(place) = self.place(session, room) {
            place.told = at;
        }
        if self.here.get(room).is_some_and(|here| is_behind(at, here.follower.at())) {
            self.is_uninformed(room, session);
        }
    }

    /// Schedules the whole state of a room for a client.
    pub(super) fn is_uninformed(&mut self, room: &RoomName, session: SessionId) {
        if let Some(here) = self.here.get_mut(room) {
            here.uninformed.insert(session);
            self.active.insert(room.clone());
        }
        if let Some(place) = self.place(session, room) {
            place.told = UNTOLD;
        }
    }

    /// Schedules a refresh of all seats here.
    pub(super) fn all_unconfirmed(&mut self, room: &RoomName) {
        if let Some(here) = self.here.get_mut(room) {
            here.unconfirmed.clone_from(&here.sessions);
            self.active.insert(room.clone());
        }
    }

    /// Schedules a refresh of one seat.
    pub(super) fn is_unconfirmed(&mut self, room: &RoomName, session: SessionId) {
        if let Some(here) = self.here.get_mut(room) {
            here.unconfirmed.insert(session);
            self.active.insert(room.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_not_whole_while_changes_are_missing() {
        let member = |name: &str| Member { client: ClientId::new(name).unwrap(), data: None };
        let at = |version| Stamp { incarnation: 1, version };
        let mut here = LocalRoom::new(at(1));
        here.lists(&[member("a")], false);
        assert!(here.knows_none_but(&[member("a")]));
        here.follower.changed(Instant::now(), at(3), vec![Change::Joined(member("c"))]);
        assert!(!here.knows_none_but(&[member("a")]), "c is known, and a change before it is not");
    }
}
