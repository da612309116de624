//! Rooms with a seat at this node: their sessions, their known state, and pending work.
//! On other rooms only `add_seat` has an effect.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use signaling_protocol::{ClientId, RoomName};
use signaling_wire::SessionId;

use super::LocalRooms;
use super::change_sequencer::ChangeSequencer;
use super::room_session::{LocalSeat, NO_STATE, is_behind};
use crate::counted::{ByteTotal, CountedBytes};
use crate::{Change, Member, RoomEvents, RoomOptions, SeatStatus, Stamp};

/// Maximum members in the list of a room. A room with more has no list.
const MAX_LISTED: usize = 1_000;
/// Maximum members of a room that are known from answers about recipients. At the limit all are
/// forgotten, and looked up again.
const MAX_KNOWN: usize = 4_096;

/// Bytes of a room here, and of each member in its list.
const ROOM_BYTES: usize = 1_150;
const LISTED_BYTES: usize = 75;

/// A room with a seat at this node.
#[derive(Debug, Default)]
pub(super) struct LocalRoom {
    /// Orders the changes, and has the state that clients here follow.
    pub(super) sequencer: ChangeSequencer,
    /// Messages about members that clients here receive.
    pub(super) events: RoomEvents,
    /// The highest epoch of an owner and backup that this node has seen. 0: none.
    epoch: u64,
    /// Epoch of the state that clients here follow. 0: none.
    followed_epoch: u64,
    /// The room's own capacity in the last result (0: no limit). `None`: it has none.
    pub(super) own_capacity: Option<u32>,
    /// Sessions of members.
    pub(super) members: BTreeSet<SessionId>,
    /// Sessions in the waiting queue.
    pub(super) waiting: BTreeSet<SessionId>,
    /// Members that need the whole state.
    pub(super) lacking_state: BTreeSet<SessionId>,
    /// Of these, the ones that came from another node while a request had no answer. They may
    /// have seen later changes there than its answer has, so they wait for the next one.
    pub(super) came_after_request: BTreeSet<SessionId>,
    /// `true` if changes were missing, so all members need the whole state.
    pub(super) resyncing: bool,
    /// Time of the request for the state that has no answer. `None`: all have one.
    pub(super) state_requested: Option<Instant>,
    /// Earliest time of the next request for the state. `None`: now.
    pub(super) next_request_at: Option<Instant>,
    /// Seats to claim soon: they came from another node or may have changed.
    pub(super) unconfirmed: BTreeSet<SessionId>,
    /// Members by owners' answers about recipients of confined clients, each with its time.
    pub(super) known_members: BTreeMap<ClientId, Instant>,
    /// All members as sent to clients here. `None`: unknown, or too many for a page or the list.
    listed: Option<BTreeSet<ClientId>>,
    /// `true` if waiting clients here need new positions.
    pub(super) queue_moved: bool,
    /// Time of the last request for queue positions. `None`: there was none.
    pub(super) positions_at: Option<Instant>,
    bytes: CountedBytes,
}

impl LocalRoom {
    fn new(room: &RoomName, at: Stamp, total: &ByteTotal) -> Self {
        let (events, bytes) = (RoomOptions::of(room).events, CountedBytes::new(total));
        let mut local = Self { sequencer: ChangeSequencer::new(at, events), events, bytes, ..Self::default() };
        local.count_bytes();
        local
    }

    fn count_bytes(&mut self) {
        self.bytes.set(ROOM_BYTES + self.listed.as_ref().map_or(0, BTreeSet::len) * LISTED_BYTES);
    }

    /// Returns all sessions with a seat, in order.
    pub(super) fn sessions(&self) -> BTreeSet<SessionId> {
        &self.members | &self.waiting
    }

    pub(super) fn is_idle(&self) -> bool {
        self.sequencer.deadline().is_none()
            && self.lacking_state.is_empty()
            && self.unconfirmed.is_empty()
            && !self.queue_moved
    }

    /// Stores the list of all members. With `more`, `members` is only the first page: no list.
    pub(super) fn set_member_list(&mut self, members: &[Member], more: bool) {
        let all = || members.iter().map(|member| member.client.clone()).collect();
        self.listed = (!more && members.len() <= MAX_LISTED).then(all);
        self.count_bytes();
    }

    /// Applies a change that clients here receive to the list of members.
    pub(super) fn apply_to_member_list(&mut self, change: &Change) {
        let Some(listed) = &mut self.listed else { return };
        apply(listed, change);
        if listed.len() > MAX_LISTED {
            self.listed = None;
        }
        self.count_bytes();
    }

    pub(super) fn record_recipient(&mut self, now: Instant, client: &ClientId, is_member: bool) {
        if !is_member {
            self.known_members.remove(client);
            return;
        }
        if self.known_members.len() >= MAX_KNOWN {
            self.known_members.clear();
        }
        self.known_members.insert(client.clone(), now);
    }

    /// Returns `true` if `members` contains every member in this node's list. Returns `false` if
    /// the list is incomplete: there are too many members, or changes are missing.
    pub(super) fn is_covered_by(&self, members: &[Member]) -> bool {
        let Some(mut known) = self.listed.clone().filter(|_| !self.sequencer.misses_changes()) else { return false };
        self.sequencer.pending().for_each(|change| apply(&mut known, change));
        let members: BTreeSet<_> = members.iter().map(|member| &member.client).collect();
        known.iter().all(|client| members.contains(client))
    }
}

fn apply(listed: &mut BTreeSet<ClientId>, change: &Change) {
    match change {
        Change::Joined(member) => listed.insert(member.client.clone()),
        Change::Left { client, .. } => listed.remove(client),
    };
}

impl<M> LocalRooms<M> {
    /// Adds a session's seat. Its client has the state `at` of the room, in this epoch (0:
    /// unknown).
    pub(super) fn add_seat(
        &mut self,
        room: &RoomName,
        session: SessionId,
        status: SeatStatus,
        (at, epoch): (Stamp, u64),
    ) {
        let local = self.by_name.entry(room.clone()).or_insert_with(|| LocalRoom::new(room, at, &self.bytes));
        if local.sequencer.at().version == NO_STATE.version {
            // No client here has received any version.
            local.sequencer = ChangeSequencer::new(at, local.events);
        }
        if local.followed_epoch == 0 {
            local.followed_epoch = epoch;
        }
        let LocalRoom { members, waiting, .. } = local;
        let (to, from) = if status.is_waiting() { (waiting, members) } else { (members, waiting) };
        from.remove(&session);
        to.insert(session);
    }

    pub(super) fn remove_seat(&mut self, room: &RoomName, session: SessionId) {
        let Some(local) = self.by_name.get_mut(room) else { return };
        let LocalRoom { members, waiting, lacking_state, came_after_request, unconfirmed, .. } = local;
        for sessions in [members, waiting, lacking_state, came_after_request, unconfirmed] {
            sessions.remove(&session);
        }
        if local.members.is_empty() && local.waiting.is_empty() {
            self.by_name.remove(room);
            self.active.remove(room);
        }
    }

    /// Stores the own capacity of a room, by the `capacity` of a result: none if that is the
    /// default of its rules.
    pub(super) fn record_capacity(&mut self, room: &RoomName, capacity: Option<u32>) {
        if let Some(local) = self.by_name.get_mut(room) {
            let usual = self.settings.rules.of(room).capacity;
            local.own_capacity = (capacity != usual).then(|| capacity.unwrap_or(0));
        }
    }

    /// Returns the highest epoch of a room that this node has seen. 0: none.
    pub(crate) fn epoch(&self, room: &RoomName) -> u64 {
        self.by_name.get(room).map_or(0, |local| local.epoch)
    }

    /// Records an epoch of a room in which a client here has a seat. An owner with an earlier one,
    /// or without that epoch, then detects its loss.
    pub(super) fn record_epoch(&mut self, room: &str, epoch: u64) {
        if let Some(local) = self.by_name.get_mut(room) {
            local.epoch = local.epoch.max(epoch);
        }
    }

    /// Returns `true` for an epoch before the highest one that this node has seen, else records it.
    /// `false` without a seat here, so that nothing is known. A former backup may still carry out
    /// operations that the owner has carried out with another.
    pub(crate) fn is_outdated(&mut self, room: &RoomName, epoch: u64) -> bool {
        let Some(local) = self.by_name.get_mut(room) else { return false };
        local.epoch = local.epoch.max(epoch);
        epoch < local.epoch
    }

    /// Records the epoch whose changes clients here receive from now on. Returns the one before.
    pub(super) fn follow_epoch(&mut self, room: &RoomName, epoch: u64) -> u64 {
        self.by_name.get_mut(room).map_or(0, |local| std::mem::replace(&mut local.followed_epoch, epoch))
    }

    /// Returns the epoch of the state that clients here follow. 0: none.
    pub(super) fn followed_epoch(&self, room: &RoomName) -> u64 {
        self.by_name.get(room).map_or(0, |local| local.followed_epoch)
    }

    pub(crate) fn has_seat(&self, session: SessionId, room: &RoomName) -> bool {
        self.seat(session, room).is_some()
    }

    /// Returns `true` if the owner reported the seat over that a session still has here.
    pub(super) fn is_over(&self, session: SessionId, room: &RoomName) -> bool {
        self.seat(session, room).is_some_and(|seat| seat.is_over)
    }

    /// Returns a session's seat in a room. `None`: it has none here.
    pub(super) fn seat(&self, session: SessionId, room: &RoomName) -> Option<&LocalSeat> {
        self.sessions.get(&session)?.seats.get(room).map(AsRef::as_ref)
    }

    pub(super) fn seat_mut(&mut self, session: SessionId, room: &RoomName) -> Option<&mut LocalSeat> {
        self.sessions.get_mut(&session)?.seats.get_mut(room).map(AsMut::as_mut)
    }

    /// Returns `true` if this is another incarnation of a room than the one followed here.
    pub(super) fn is_other_incarnation(&self, room: &RoomName, incarnation: u64) -> bool {
        self.by_name.get(room).is_some_and(|local| local.sequencer.is_other(incarnation))
    }

    /// Returns the state of a room that is followed here, or [`NO_STATE`].
    pub(super) fn followed_state(&self, room: &RoomName) -> Stamp {
        self.by_name.get(room).map_or(NO_STATE, |local| local.sequencer.at())
    }

    /// Returns a room and marks it as one with pending work.
    fn activate(&mut self, room: &RoomName) -> Option<&mut LocalRoom> {
        let local = self.by_name.get_mut(room)?;
        self.active.insert(room.clone());
        Some(local)
    }

    /// Schedules the next request for a room's state, after an answer that was of no use.
    pub(super) fn retry_state(&mut self, room: &RoomName, at: Instant) {
        if let Some(local) = self.activate(room) {
            local.state_requested = None;
            local.next_request_at = Some(at);
        }
    }

    /// Schedules new positions for the waiting clients here.
    pub(super) fn schedule_positions(&mut self, room: &RoomName) {
        if let Some(local) = self.activate(room) {
            local.queue_moved = true;
        }
    }

    /// Records that a client receives the state `at` of a room. If other clients here have later
    /// changes, it also needs the whole state, since changes are sent once.
    pub(super) fn record_sent(&mut self, room: &RoomName, session: SessionId, at: Stamp) {
        if let Some(seat) = self.seat_mut(session, room) {
            seat.sent = at;
        }
        if self.by_name.get(room).is_some_and(|local| is_behind(at, local.sequencer.at())) {
            self.schedule_state(room, session);
        }
    }

    pub(super) fn schedule_state(&mut self, room: &RoomName, session: SessionId) {
        if let Some(local) = self.activate(room) {
            local.lacking_state.insert(session);
        }
        if let Some(seat) = self.seat_mut(session, room) {
            seat.sent = NO_STATE;
        }
    }

    /// Schedules the whole state of a room for a client that came from another node.
    pub(super) fn schedule_state_of_arrival(&mut self, room: &RoomName, session: SessionId) {
        self.schedule_state(room, session);
        if let Some(local) = self.by_name.get_mut(room).filter(|local| local.state_requested.is_some()) {
            local.came_after_request.insert(session);
        }
    }

    /// Schedules a claim of all seats in a room at this node.
    pub(crate) fn schedule_claims(&mut self, room: &RoomName) {
        if let Some(local) = self.activate(room) {
            local.unconfirmed = local.sessions();
        }
    }

    pub(super) fn schedule_claim(&mut self, room: &RoomName, session: SessionId) {
        if let Some(local) = self.activate(room) {
            local.unconfirmed.insert(session);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_not_covered_while_changes_are_missing() {
        let member = |name: &str| Member { client: ClientId::new(name).unwrap(), data: None };
        let at = |version| Stamp { incarnation: 1, version };
        let mut local = LocalRoom::new(&RoomName::new("r").unwrap(), at(1), &ByteTotal::default());
        local.set_member_list(&[member("a")], false);
        assert!(local.is_covered_by(&[member("a")]));
        local.sequencer.changed(Instant::now(), at(3), vec![Change::Joined(member("c"))]);
        assert!(!local.is_covered_by(&[member("a")]), "the change before that of c is missing");
    }

    #[test]
    fn known_members_are_forgotten_at_their_limit() {
        let (mut local, now) = (LocalRoom::default(), Instant::now());
        let id = |n: usize| ClientId::new(&format!("c{n}")).unwrap();
        (0..=MAX_KNOWN).for_each(|n| local.record_recipient(now, &id(n), true));
        assert_eq!(local.known_members, BTreeMap::from([(id(MAX_KNOWN), now)]));
        local.record_recipient(now, &id(MAX_KNOWN), false);
        assert!(local.known_members.is_empty());
    }
}
