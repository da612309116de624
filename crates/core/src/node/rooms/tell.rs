//! Room changes for clients and peer nodes, and the whole state for clients that miss changes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use signaling_protocol::RoomName;
use signaling_rendezvous::KeyHash;
use signaling_rooms::{Change, Op, Outcome, Stamp};
use signaling_wire::forward::Item;
use signaling_wire::trunk::{DeliveryOutcome, ToEdge};
use signaling_wire::{RemainingTtl, SessionId};

use super::super::{NodeCore, SessionKey};
use super::room_session::{LocalSeat, UNTOLD, is_behind};
use super::task::{Purpose, RoomTask, Urgency};
use super::words::{joined, members_changed, on_the_wire, part};

/// Minimum time between two position updates for the waiting queue of a room.
const TELL_LINE_EVERY: Duration = Duration::from_secs(1);
/// Delay before the next question after a failure, or while a lost room fills again.
const ASK_AGAIN_AFTER: Duration = Duration::from_secs(2);
/// Delay before the next question after an outdated answer.
const ASK_AGAIN_SOON: Duration = Duration::from_millis(100);

impl NodeCore {
    /// Sends a room's changes to the peer nodes with seats in it.
    pub(super) fn tell_nodes(&mut self, room: &RoomName, outcome: &Outcome) {
        let Outcome { incarnation, version, changes, line_moved, nodes, .. } = outcome;
        let hash = KeyHash::of(room.as_str()).get();
        let start = version.saturating_sub(changes.len() as u64);
        for node in nodes.iter().filter(|node| **node != self.settings.id) {
            let peer = self.peers.key(node.as_str());
            let (mut version, mut rest) = (start, &changes[..]);
            loop {
                let (part, behind) = rest.split_at(part(rest.iter()));
                version += part.len() as u64;
                let changes = part.iter().map(on_the_wire).collect();
                let line_moved = *line_moved && behind.is_empty();
                let incarnation = *incarnation;
                let note = Item::RoomChanged { room: room.as_str(), incarnation, version, changes, line_moved };
                self.peers.note(peer, hash, &note);
                rest = behind;
                if rest.is_empty() {
                    break;
                }
            }
        }
    }

    /// Takes in changes of a room and sends them to its clients here. Soon after other changes they
    /// are delayed and sent together.
    pub(in crate::node) fn room_changed(
        &mut self,
        now: Instant,
        room: &RoomName,
        at: Stamp,
        changes: Vec<Change>,
        line_moved: bool,
    ) {
        if !self.rooms.here.contains_key(room) {
            return;
        }
        let mut let_in = false;
        for change in &changes {
            if let Change::Left { client, .. } = change
                && let Some(here) = self.rooms.here.get_mut(room)
            {
                here.others.lose(client);
            }
            if let Some(here) = self.rooms.here.get_mut(room)
                && here.follower.is_other(at.incarnation)
            {
                // Clients here do not receive it. A joined member still has to return before the
                // room is complete; a member that left does not.
                here.lists_change(change);
            }
            if let Change::Joined(member) = change
                && let Some(session) = self.directory.session_id(&member.client)
                && self.rooms.here.get(room).is_some_and(|here| here.waiting.contains(&session))
            {
                // The store's answer shows whether this session has the seat.
                self.rooms.is_unconfirmed(room, session);
                let_in = true;
            }
        }
        if let_in {
            self.refresh_unconfirmed(room);
        }
        let Some(here) = self.rooms.here.get_mut(room) else { return };
        here.line_moved |= line_moved && !here.waiting.is_empty();
        if changes.is_empty() {
            here.follower.exists(now, at);
        } else {
            here.follower.changed(now, at, changes);
        }
        let may_be_lost = here.follower.may_be_lost();
        self.rooms.active.insert(room.clone());
        self.tell_news(now, room);
        if may_be_lost {
            self.ask_state(now, room);
        }
    }

    fn tell_news(&mut self, now: Instant, room: &RoomName) {
        let Some(here) = self.rooms.here.get_mut(room) else { return };
        let Some(news) = here.follower.take_due(now) else { return };
        news.changes.iter().for_each(|(_, change)| here.lists_change(change));
        let at = here.follower.at();
        let members: Vec<_> = here.sessions.difference(&here.waiting).copied().collect();
        let uninformed = here.uninformed.clone();
        let mut messages_by_version = BTreeMap::new();
        for session in members.into_iter().filter(|session| !uninformed.contains(session)) {
            let Some(key) = self.attached_key(session) else { continue };
            let follows =
                |place: &&mut LocalSeat| place.told.incarnation == at.incarnation && place.told.version < news.version;
            let Some(place) = self.rooms.place(session, room).filter(follows) else { continue };
            let told = std::mem::replace(&mut place.told.version, news.version);
            let messages = messages_by_version.entry(told).or_insert_with(|| members_changed(room, &news, told));
            messages.iter().for_each(|message| self.tell(key, message));
        }
    }

    /// Does the pending work of all rooms that are not idle.
    pub(super) fn attend_rooms(&mut self, now: Instant) {
        for room in std::mem::take(&mut self.rooms.active) {
            self.tell_news(now, &room);
            self.ask_state(now, &room);
            self.ask_line(now, &room);
            self.refresh_unconfirmed(&room);
            if self.rooms.here.get(&room).is_some_and(|here| !here.is_idle()) {
                self.rooms.active.insert(room);
            }
        }
    }

    /// Requests the whole state of a room if a client here needs it.
    pub(super) fn ask_state(&mut self, now: Instant, room: &RoomName) {
        let Some(here) = self.rooms.here.get_mut(room) else { return };
        if here.state_asked || here.ask_after.is_some_and(|after| now < after) {
            return;
        }
        if here.follower.must_heal(now) {
            self.rooms.counts.resyncs += u64::from(!here.heals);
            here.heals = true;
            here.others.clear();
            here.uninformed = here.sessions.difference(&here.waiting).copied().collect();
        }
        if !here.heals && here.uninformed.is_empty() {
            return;
        }
        here.state_asked = true;
        here.follower.asked();
        let mut urgency = Urgency::Urgent;
        if here.follower.may_be_lost() {
            // Restores the seats of this node first.
            urgency = Urgency::Background;
            here.unconfirmed.clone_from(&here.sessions);
            self.refresh_unconfirmed(room);
        }
        self.rooms.ask(urgency, RoomTask::new(Purpose::State, room.clone(), Op::List { after: None }));
    }

    fn ask_line(&mut self, now: Instant, room: &RoomName) {
        let Some(here) = self.rooms.here.get_mut(room) else { return };
        let is_time = here.line_told.is_none_or(|told| now.saturating_duration_since(told) >= TELL_LINE_EVERY);
        if here.line_moved && is_time {
            here.line_moved = false;
            here.line_told = Some(now);
            here.unconfirmed.extend(here.waiting.iter().copied());
        }
    }

    /// Sends the whole state of a room, as the store reports it, to the clients that need it.
    pub(super) fn state_answered(&mut self, now: Instant, room: &RoomName, outcome: Outcome) {
        let at = outcome.stamp();
        let may_miss = self.may_miss_members(room, &outcome) || self.misses_members(room, &outcome);
        let Some(here) = self.rooms.here.get_mut(room) else { return };
        here.state_asked = false;
        here.ask_after = None;
        let is_news = here.follower.is_other(at.incarnation) && !here.follower.asked_as_lost();
        if is_news || here.follower.fell_to(at) {
            // The seats of this node are not restored yet.
            self.store_has_lost(now, room, at.incarnation);
            return self.room_changed(now, room, at, outcome.changes, outcome.line_moved);
        }
        if may_miss {
            if !here.follower.may_be_lost() {
                self.rooms.all_unconfirmed(room);
            }
            self.state_unknown(now, room);
            if !outcome.changes.is_empty() {
                self.room_changed(now, room, at, outcome.changes, outcome.line_moved);
            }
            return;
        }
        if here.follower.is_past(at) {
            // Later changes arrived from a peer node before this answer.
            here.ask_after = Some(now + ASK_AGAIN_SOON);
            self.rooms.active.insert(room.clone());
            return self.room_changed(now, room, at, outcome.changes, outcome.line_moved);
        }
        if std::mem::take(&mut here.heals) || here.follower.version() == UNTOLD.version {
            here.follower.healed(now, at);
            // Sessions may have joined since the question.
            here.uninformed.extend(here.sessions.difference(&here.waiting));
        }
        if here.follower.at() == at {
            here.lists(&outcome.members, outcome.more);
        }
        let message = joined(room, &outcome);
        for session in std::mem::take(&mut here.uninformed) {
            let is_behind = |place: &&mut LocalSeat| place.is_member() && is_behind(place.told, at);
            let Some(place) = self.rooms.place(session, room).filter(is_behind) else { continue };
            place.told = at;
            if let Some(key) = self.attached_key(session) {
                self.tell(key, &message);
            }
        }
        self.room_changed(now, room, at, outcome.changes, outcome.line_moved);
    }

    /// Returns `true` if the first page of a room may lack members that the store has lost. They
    /// were members before, or have their seats at this node.
    pub(super) fn may_miss_members(&self, room: &RoomName, outcome: &Outcome) -> bool {
        let Some(here) = self.rooms.here.get(room) else { return outcome.settling };
        let is_whole = !outcome.more && here.knows_none_but(&outcome.members);
        let is_other = here.follower.is_other(outcome.incarnation);
        (outcome.settling && !is_whole) || (is_other && self.misses_members(room, outcome))
    }

    /// Returns `true` if another incarnation of the room than the one followed here lacks members
    /// that are known.
    pub(super) fn is_incomplete_elsewhere(&self, room: &RoomName, outcome: &Outcome) -> bool {
        let here = self.rooms.here.get(room).filter(|here| here.follower.is_other(outcome.incarnation));
        here.is_some_and(|here| !here.knows_none_but(&outcome.members))
    }

    /// Returns `true` if the store lacks members with seats at this node: it lost or dropped them.
    fn misses_members(&self, room: &RoomName, outcome: &Outcome) -> bool {
        let Some(here) = self.rooms.here.get(room).filter(|_| !outcome.more) else { return false };
        let listed: BTreeSet<_> = outcome.members.iter().map(|member| &member.client).collect();
        let mut members = here.sessions.difference(&here.waiting).filter_map(|session| self.rooms.guests.get(session));
        members.any(|guest| !listed.contains(&guest.client))
    }

    /// Schedules the next question after the store failed to report a room's state.
    pub(super) fn state_unknown(&mut self, now: Instant, room: &RoomName) {
        if let Some(here) = self.rooms.here.get_mut(room) {
            here.state_asked = false;
            here.ask_after = Some(now + ASK_AGAIN_AFTER);
            self.rooms.active.insert(room.clone());
        }
    }

    /// Returns the key of a session's socket. `None`: its socket is not at this node.
    pub(super) fn attached_key(&self, session: SessionId) -> Option<SessionKey> {
        let guest = self.rooms.guests.get(&session)?;
        self.directory.holder(guest.client.as_str()).filter(|(_, holder)| holder.id == session).map(|(key, _)| key)
    }

    /// Sends a client a message of the server.
    pub(super) fn tell(&mut self, key: SessionKey, payload: &[u8]) {
        let Some(session) = self.directory.get_mut(key).filter(|session| !session.gone) else { return };
        let (slot, down_seq) = (session.slot, session.next_down_seq());
        let down = ToEdge::Down { slot, down_seq, origin: None, prev_pending: 0, left: RemainingTtl::NONE, payload };
        self.trunks.send(session.trunk, &down);
    }

    /// Sends a session's edge the state that the next node needs.
    pub(super) fn say_state(&mut self, session: SessionId) {
        let Some(key) = self.attached_key(session) else { return };
        let state = self.state_of(key, false);
        let Some(session) = self.directory.get(key) else { return };
        self.trunks.send(session.trunk, &ToEdge::SessionState { slot: session.slot, state: &state });
    }

    /// Sends the outcome of a command after the messages that its client received before.
    pub(super) fn reply_in_order(&mut self, key: SessionKey, seq: u64, outcome: DeliveryOutcome, reply: &[u8]) {
        let Some(session) = self.directory.get(key) else { return };
        self.trunks
            .send(session.trunk, &ToEdge::Fates { slot: session.slot, first: seq, count: 1, fate: outcome, reply });
    }
}
