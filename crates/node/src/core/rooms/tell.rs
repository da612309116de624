//! What clients here are told of their rooms, and which nodes hear of a change.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use serde_json::value::RawValue;
use signaling_protocol::forward::Item;
use signaling_protocol::rooms::{Former, LeftReason, Member, RoomMessage};
use signaling_protocol::seats::RoomChange;
use signaling_protocol::trunk::{Fate, ToEdge};
use signaling_protocol::{ClientId, Left, RoomName, SessionId};
use signaling_rendezvous::KeyHash;
use signaling_rooms::{Change, Follower, News, Op, Outcome, Reason, Standing};

use super::super::{NodeCore, SessionKey};
use super::Rooms;
use super::guest::{Place, UNTOLD};
use super::task::{Purpose, RoomTask};

/// Those who wait hear no more often that they have moved up.
const TELL_LINE_EVERY: Duration = Duration::from_secs(1);
/// After a failure, or while a room that was lost fills again, the store is asked again.
const ASK_AGAIN_AFTER: Duration = Duration::from_secs(2);
/// So is it when its answer was old.
const ASK_AGAIN_SOON: Duration = Duration::from_millis(100);
/// Changes of a room go out in parts of so many bytes: a client's largest message holds 64 KiB, unless a setting says otherwise.
const PART_BYTES: usize = 48 * 1024;

/// A room that somebody of this node is in, or waits for.
#[derive(Debug)]
pub(super) struct RoomHere {
    pub(super) follower: Follower,
    /// Sessions with a place in it.
    pub(super) sessions: BTreeSet<SessionId>,
    pub(super) waiting: BTreeSet<SessionId>,
    /// Members to be given the whole state.
    uninformed: BTreeSet<SessionId>,
    /// All are, because changes were missing.
    heals: bool,
    state_asked: bool,
    ask_after: Option<Instant>,
    /// Seats that the store must hear of soon: they came from elsewhere, or may have changed.
    pub(super) unconfirmed: BTreeSet<SessionId>,
    line_moved: bool,
    line_told: Option<Instant>,
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
            line_moved: false,
            line_told: None,
        }
    }

    /// Nothing is to be told or asked later.
    fn is_idle(&self) -> bool {
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
    fn all_unconfirmed(&mut self, room: &RoomName) {
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

impl NodeCore {
    /// Tells the other nodes that have anybody in a room what has changed in it.
    pub(super) fn tell_nodes(&mut self, room: &RoomName, outcome: &Outcome) {
        let Outcome { version, changes, line_moved, nodes, .. } = outcome;
        let hash = KeyHash::of(room.as_str()).get();
        let start = version - changes.len() as u64;
        for node in nodes.iter().filter(|node| **node != self.settings.id) {
            let Some(peer) = self.peer_by_id.get(node).and_then(|peer| self.peers.get_mut(*peer)) else {
                self.counts.dropped += 1;
                continue;
            };
            let (mut version, mut rest) = (start, &changes[..]);
            loop {
                let (part, behind) = rest.split_at(part(rest.iter()));
                version += part.len() as u64;
                let changes = part.iter().map(on_the_wire).collect();
                let line_moved = *line_moved && behind.is_empty();
                let note = Item::RoomChanged { room: room.as_str(), version, changes, line_moved };
                self.counts.dropped += u64::from(!peer.lane(hash).note(&note));
                rest = behind;
                if rest.is_empty() {
                    break;
                }
            }
        }
    }

    /// A room has changed: its clients here are told, at once if nothing was told just now.
    pub(in crate::core) fn room_changed(
        &mut self,
        now: Instant,
        room: &RoomName,
        version: u64,
        changes: Vec<Change>,
        line_moved: bool,
    ) {
        if !self.rooms.here.contains_key(room) {
            return;
        }
        let mut let_in = false;
        for change in &changes {
            if let Change::Joined(member) = change
                && let Some(session) = self.session_of(&member.client)
                && self.rooms.here.get(room).is_some_and(|here| here.waiting.contains(&session))
            {
                // The store says more.
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
            here.follower.exists(now, version);
        } else {
            here.follower.changed(now, version, changes);
        }
        self.rooms.active.insert(room.clone());
        self.tell_news(now, room);
    }

    /// The session of a client, with or without a socket.
    fn session_of(&self, client: &ClientId) -> Option<SessionId> {
        let attached = self.holder(client).map(|(_, session)| session.id);
        attached.or_else(|| self.lingering.get(client).map(|lingering| lingering.session))
    }

    fn tell_news(&mut self, now: Instant, room: &RoomName) {
        let Some(here) = self.rooms.here.get_mut(room) else { return };
        let Some(news) = here.follower.take_due(now) else { return };
        let members: Vec<_> = here.sessions.difference(&here.waiting).copied().collect();
        let uninformed = here.uninformed.clone();
        let mut messages_by_version = BTreeMap::new();
        for session in members.into_iter().filter(|session| !uninformed.contains(session)) {
            let Some(key) = self.attached_key(session) else { continue };
            let Some(place) = self.rooms.place(session, room).filter(|place| place.told < news.version) else {
                continue;
            };
            let told = std::mem::replace(&mut place.told, news.version);
            let messages = messages_by_version.entry(told).or_insert_with(|| members_changed(room, &news, told));
            messages.iter().for_each(|message| self.tell(key, message));
        }
    }

    /// Does what the time has come for in rooms that are not idle.
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

    /// Asks for the whole state of a room if any client here needs it.
    pub(super) fn ask_state(&mut self, now: Instant, room: &RoomName) {
        let Some(here) = self.rooms.here.get_mut(room) else { return };
        if here.state_asked || here.ask_after.is_some_and(|after| now < after) {
            return;
        }
        if here.follower.must_heal(now) {
            here.heals = true;
            here.uninformed = here.sessions.difference(&here.waiting).copied().collect();
            self.rooms.counts.healed += 1;
        }
        if here.heals || !here.uninformed.is_empty() {
            here.state_asked = true;
            self.rooms.urgent.push_back(RoomTask::new(Purpose::State, room.clone(), Op::List { after: None }));
        }
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

    /// The store has said how things stand in a room: those get it who need it.
    pub(super) fn state_answered(&mut self, now: Instant, room: &RoomName, outcome: Outcome) {
        if outcome.settling || self.misses_members(room, &outcome) {
            self.rooms.all_unconfirmed(room);
            self.state_unknown(now, room);
            if !outcome.changes.is_empty() {
                self.room_changed(now, room, outcome.version, outcome.changes, outcome.line_moved);
            }
            return;
        }
        let Some(here) = self.rooms.here.get_mut(room) else { return };
        here.state_asked = false;
        here.ask_after = None;
        if outcome.version < here.follower.version() {
            // What has changed since then was told meanwhile, by a quicker way.
            here.ask_after = Some(now + ASK_AGAIN_SOON);
            self.rooms.active.insert(room.clone());
            return self.room_changed(now, room, outcome.version, outcome.changes, outcome.line_moved);
        }
        if std::mem::take(&mut here.heals) || here.follower.version() == UNTOLD {
            here.follower.healed(now, outcome.version);
            // Some may have come while the store was asked.
            here.uninformed.extend(here.sessions.difference(&here.waiting));
        }
        let message = joined(room, &outcome);
        for session in std::mem::take(&mut here.uninformed) {
            let is_behind = |place: &&mut Place| place.is_member() && place.told < outcome.version;
            let Some(place) = self.rooms.place(session, room).filter(is_behind) else { continue };
            place.told = outcome.version;
            if let Some(key) = self.attached_key(session) {
                self.tell(key, &message);
            }
        }
        self.room_changed(now, room, outcome.version, outcome.changes, outcome.line_moved);
    }

    /// Whether the store misses members that are here: it has lost them, or has given them up unseen.
    fn misses_members(&self, room: &RoomName, outcome: &Outcome) -> bool {
        let Some(here) = self.rooms.here.get(room).filter(|_| !outcome.more) else { return false };
        let listed: BTreeSet<_> = outcome.members.iter().map(|member| &member.client).collect();
        let mut members = here.sessions.difference(&here.waiting).filter_map(|session| self.rooms.guests.get(session));
        members.any(|guest| !listed.contains(&guest.client))
    }

    /// The store could not say how things stand in a room.
    pub(super) fn state_unknown(&mut self, now: Instant, room: &RoomName) {
        if let Some(here) = self.rooms.here.get_mut(room) {
            here.state_asked = false;
            here.ask_after = Some(now + ASK_AGAIN_AFTER);
            self.rooms.active.insert(room.clone());
        }
    }

    /// The socket of a session, if it is here.
    pub(super) fn attached_key(&self, session: SessionId) -> Option<SessionKey> {
        let guest = self.rooms.guests.get(&session)?;
        self.holder(&guest.client).filter(|(_, holder)| holder.id == session).map(|(key, _)| key)
    }

    /// Tells a client something that is no message of another.
    pub(super) fn tell(&mut self, key: SessionKey, payload: &[u8]) {
        let Some(session) = self.sessions.get_mut(key).filter(|session| !session.gone) else { return };
        let Some(trunk) = self.trunks.get_mut(session.trunk) else { return };
        let d = session.next_d();
        trunk.send(&ToEdge::Down { slot: session.slot, d, origin: None, prev: 0, left: Left::NONE, payload });
    }

    /// Tells a session's edge what the next node must be shown.
    pub(super) fn say_state(&mut self, session: SessionId) {
        let Some(key) = self.attached_key(session) else { return };
        let state = self.state_of(key, false);
        let Some(session) = self.sessions.get(key) else { return };
        if let Some(trunk) = self.trunks.get_mut(session.trunk) {
            trunk.send(&ToEdge::SessionState { slot: session.slot, state: &state });
        }
    }

    /// The fate of a command, behind what its client was told.
    pub(super) fn reply_in_order(&mut self, key: SessionKey, seq: u64, fate: Fate, reply: &[u8]) {
        let Some(session) = self.sessions.get(key) else { return };
        if let Some(trunk) = self.trunks.get_mut(session.trunk) {
            trunk.send(&ToEdge::Fates { slot: session.slot, first: seq, count: 1, fate, reply });
        }
    }
}

impl Rooms {
    pub(super) fn place(&mut self, session: SessionId, room: &RoomName) -> Option<&mut Place> {
        self.guests.get_mut(&session)?.places.get_mut(room)
    }
}

/// How many of these changes make one part.
fn part<'a>(changes: impl Iterator<Item = &'a Change>) -> usize {
    let mut bytes = 0;
    let fits = |change: &&Change| {
        let fits = bytes == 0 || bytes < PART_BYTES;
        bytes += match change {
            Change::Joined(member) => member.client.as_str().len() + member.data.as_deref().map_or(0, str::len) + 40,
            Change::Left { client, .. } => client.as_str().len() + 40,
        };
        fits
    };
    changes.take_while(fits).count()
}

fn on_the_wire(change: &Change) -> RoomChange<'_> {
    match change {
        Change::Joined(member) => {
            RoomChange::Joined { client_id: member.client.as_str(), data: member.data.as_deref() }
        }
        Change::Left { client, reason: Reason::Left } => RoomChange::Left { client_id: client.as_str() },
        Change::Left { client, reason: Reason::Expired } => RoomChange::Expired { client_id: client.as_str() },
    }
}

/// A change as another node tells it, unless it names nobody.
pub(in crate::core) fn change(change: &RoomChange<'_>) -> Option<Change> {
    let client = |name: &str| ClientId::new(name).ok();
    Some(match *change {
        RoomChange::Joined { client_id, data } => {
            Change::Joined(signaling_rooms::Member { client: client(client_id)?, data: data.map(Box::from) })
        }
        RoomChange::Left { client_id } => Change::Left { client: client(client_id)?, reason: Reason::Left },
        RoomChange::Expired { client_id } => Change::Left { client: client(client_id)?, reason: Reason::Expired },
    })
}

fn member(member: &signaling_rooms::Member) -> Member<'_> {
    // It was read as JSON when the client gave it.
    let data = member.data.as_deref().and_then(|data| serde_json::from_str::<&RawValue>(data).ok());
    Member { client_id: member.client.as_str(), data }
}

/// The state of a room, for one that is in it.
pub(super) fn joined(room: &RoomName, outcome: &Outcome) -> Vec<u8> {
    let members: Vec<_> = outcome.members.iter().map(member).collect();
    let Outcome { version, capacity, count, more, .. } = *outcome;
    RoomMessage::Joined { room: room.as_str(), version, capacity, count, members: &members, more }.to_json()
}

/// The place in a line, for one that waits.
pub(super) fn waiting(room: &RoomName, ahead: u64, queue_length: u64) -> Vec<u8> {
    RoomMessage::Waiting { room: room.as_str(), ahead, queue_length }.to_json()
}

/// What is new to a client that knows version `told`.
fn members_changed(room: &RoomName, news: &News, told: u64) -> Vec<Vec<u8>> {
    let mut rest = &news.changes[news.changes.partition_point(|(version, _)| *version <= told)..];
    let mut messages = Vec::new();
    while !rest.is_empty() {
        let (part, behind) = rest.split_at(part(rest.iter().map(|(_, change)| change)));
        let version = match part.last() {
            Some((version, _)) if !behind.is_empty() => *version,
            _ => news.version,
        };
        let (mut joined, mut left) = (Vec::new(), Vec::new());
        for (_, change) in part {
            match change {
                Change::Joined(who) => joined.push(member(who)),
                Change::Left { client, reason } => {
                    let reason = match reason {
                        Reason::Left => LeftReason::Left,
                        Reason::Expired => LeftReason::Expired,
                    };
                    left.push(Former { client_id: client.as_str(), reason });
                }
            }
        }
        messages
            .push(RoomMessage::MembersChanged { room: room.as_str(), version, joined: &joined, left: &left }.to_json());
        rest = behind;
    }
    messages
}
