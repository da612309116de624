//! The rooms that somebody of this node is in: who, what they know of it, and what is due.

use std::collections::BTreeSet;
use std::time::Instant;

use signaling_protocol::{ClientId, RoomName};
use signaling_rooms::{Change, ChangeSequencer, Member, SeatStatus, Stamp};
use signaling_wire::SessionId;

use super::Rooms;
use super::known_members::KnownMembers;
use super::room_session::{Place, UNTOLD, is_behind};

/// Most members of a room whose names are kept.
const MOST_LISTED: usize = 1_000;

/// A room that somebody of this node is in, or waits for.
#[derive(Debug)]
pub(super) struct LocalRoom {
    pub(super) follower: ChangeSequencer,
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
    pub(super) others: KnownMembers,
    /// All members that the clients here were told of, if they fill one page.
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

    /// Nothing is to be told or asked later.
    pub(super) fn is_idle(&self) -> bool {
        self.follower.deadline().is_none()
            && self.uninformed.is_empty()
            && self.unconfirmed.is_empty()
            && !self.line_moved
    }

    /// These are all members, or only the first.
    pub(super) fn lists(&mut self, members: &[Member], more: bool) {
        let all = || members.iter().map(|member| member.client.clone()).collect();
        self.listed = (!more && members.len() <= MOST_LISTED).then(all);
    }

    /// The clients here are told of a change.
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

    /// Returns `true` if `members` contains every member that this node knows of. Returns `false`
    /// if the node does not know all members: there are too many, or changes are missing.
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
    /// A session has a place in a room, whose state `at` its client knows.
    pub(super) fn add_seat(&mut self, room: &RoomName, session: SessionId, standing: SeatStatus, at: Stamp) {
        let here = self.here.entry(room.clone()).or_insert_with(|| LocalRoom::new(at));
        if here.follower.version() == UNTOLD.version {
            // Nobody else here knows of any version.
            here.follower = ChangeSequencer::new(at);
        }
        here.sessions.insert(session);
        if matches!(standing, SeatStatus::Waiting { .. }) {
            here.waiting.insert(session);
        } else {
            here.waiting.remove(&session);
        }
    }

    /// A session has no place in a room any more.
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

    /// A client is about to be told the state `at` of a room. Others here may know of later
    /// changes, which nobody tells again: then it is given the whole state once more.
    pub(super) fn knows(&mut self, room: &RoomName, session: SessionId, at: Stamp) {
        if let Some(place) = self.place(session, room) {
            place.told = at;
        }
        if self.here.get(room).is_some_and(|here| is_behind(at, here.follower.at())) {
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
