//! Seats: refreshed periodically, restored after a loss in the store, and dropped after their
//! session.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::time::{Duration, Instant};

use signaling_protocol::RoomName;
use signaling_protocol::rooms::{LeftReason, RoomMessage};
use signaling_rooms::{Op, Outcome, Seat, SeatStatus, Stamp};
use signaling_wire::SessionId;

use super::super::NodeCore;
use super::Rooms;
use super::room_session::{Ask, Command, UNTOLD};
use super::task::{Purpose, RoomTask, Urgency};
use super::words;

/// Maximum seats of one operation. The store needs 1 to 2 ms for it.
const SEATS_AT_ONCE: usize = 200;
/// Interval between checks for ended sessions.
const LOOK_FOR_ENDED: Duration = Duration::from_millis(500);
/// Minimum time between two queue positions for one client. It is shorter than the interval of
/// questions to the store, whose answers arrive unevenly.
const BETWEEN_PLACES: Duration = Duration::from_millis(950);
/// Interval between probes while the store has no other background work. A cluster has several
/// servers, so each probe checks up to `PROBES` rooms.
const PROBE_EVERY: Duration = Duration::from_secs(1);
const PROBES: usize = 8;
/// Minimum time between two refreshes of all seats after signs of a loss. One room's loss suggests
/// others, and such a refresh finds more of them.
const BETWEEN_REFILLS: Duration = Duration::from_secs(5);
/// Delay of the next refresh if the store has not finished the last one.
const POSTPONE: Duration = Duration::from_secs(1);

/// Decision to send a client its queue position.
enum LineNews {
    Now,
    /// The client received another position just now.
    Later,
    None,
}

impl Rooms {
    fn line_told(&mut self, now: Instant, room: &RoomName, session: SessionId, ahead: u64) -> LineNews {
        let Some(place) = self.place(session, room) else { return LineNews::None };
        match place.told_line {
            Some((told, _)) if told == ahead => LineNews::None,
            Some((_, at)) if now.saturating_duration_since(at) < BETWEEN_PLACES => LineNews::Later,
            _ => {
                place.told_line = Some((ahead, now));
                LineNews::Now
            }
        }
    }

    /// Records whether the store answered. Its first answer after an outage starts a refresh of all
    /// seats.
    pub(super) fn store_answered(&mut self, now: Instant, is_there: bool) {
        let was_away = std::mem::replace(&mut self.store_is_away, !is_there);
        if was_away && is_there {
            self.refresh_at = self.refresh_at.min(self.refill_after.max(now));
            self.refill_after = self.refresh_at + POSTPONE;
        }
    }

    /// Starts a refresh of all seats, since the store may have lost everything.
    fn refill(&mut self, now: Instant) {
        if now >= self.refill_after {
            self.refresh_at = self.refresh_at.min(now);
            self.refill_after = now + BETWEEN_REFILLS;
        }
    }

    /// Probes some rooms in turn, since another server of the store may answer for each.
    fn probe(&mut self) {
        let behind = self.probed.take().map_or(Bound::Unbounded, Bound::Excluded);
        let rooms: Vec<_> =
            self.here.range((behind, Bound::Unbounded)).map(|(room, _)| room.clone()).take(PROBES).collect();
        if rooms.len() == PROBES {
            self.probed = rooms.last().cloned();
        }
        for room in rooms {
            self.ask(Urgency::Background, RoomTask::new(Purpose::Probe, room, Op::Refresh { seats: Vec::new() }));
        }
    }
}

impl NodeCore {
    /// Does the periodic work of rooms.
    pub(in crate::node) fn sweep_rooms(&mut self, now: Instant) {
        if now >= self.rooms.look_for_ended_at {
            self.rooms.look_for_ended_at = now + LOOK_FOR_ENDED;
            self.look_for_ended(now);
        }
        self.attend_rooms(now);
        self.ask_for_held(now);
        if now >= self.rooms.refresh_at {
            if self.rooms.background.is_empty() {
                self.rooms.refresh_at = now + self.rooms.settings.presence;
                self.refresh_all();
            } else {
                self.rooms.refresh_at = now + POSTPONE;
            }
        }
        if now >= self.rooms.probe_at {
            self.rooms.probe_at = now + PROBE_EVERY;
            if self.rooms.background.is_empty() {
                self.rooms.probe();
            }
        }
    }

    /// Refreshes the seats of attached sessions, and of sessions without a socket whose clients
    /// this node owns.
    fn refresh_all(&mut self) {
        let rooms: Vec<_> = self.rooms.here.iter().map(|(room, here)| (room.clone(), here.sessions.clone())).collect();
        for (room, sessions) in rooms {
            self.refresh(&room, sessions);
        }
    }

    /// Returns `true` if this node refreshes the session's seats. It has the socket, or it owns the
    /// client and has no location of it.
    fn answers_for(&self, session: SessionId) -> bool {
        let lost = || {
            let client = self.rooms.guests.get(&session).map(|guest| guest.client.as_str());
            client.is_some_and(|client| self.owns_name(client) && self.location(client).is_none())
        };
        self.attached_key(session).is_some() || lost()
    }

    /// Refreshes seats that came from another node or may have changed.
    pub(super) fn refresh_unconfirmed(&mut self, room: &RoomName) {
        let Some(here) = self.rooms.here.get_mut(room) else { return };
        let sessions = std::mem::take(&mut here.unconfirmed);
        self.refresh(room, sessions);
    }

    fn refresh(&mut self, room: &RoomName, sessions: BTreeSet<SessionId>) {
        let here = self.rooms.here.get(room);
        let known = here.map_or(UNTOLD, |here| here.follower.at());
        let is_lost = here.is_some_and(|here| here.follower.may_be_lost());
        let sessions: Vec<_> = sessions.into_iter().filter(|session| self.answers_for(*session)).collect();
        for sessions in sessions.chunks(SEATS_AT_ONCE) {
            let (sessions, seats) = self.seats(room, sessions.iter().copied());
            self.rooms.counts.restored += if is_lost { seats.len() as u64 } else { 0 };
            let op = match is_lost {
                true => Op::Restore { seats, version: known.version },
                false => Op::Refresh { seats },
            };
            let task = RoomTask::new(Purpose::Seats { seats: sessions, known }, room.clone(), op);
            self.rooms.ask(Urgency::Background, task);
        }
    }

    /// Restores one seat in a room that the store may have lost.
    pub(super) fn restore_seat(&mut self, room: &RoomName, session: SessionId) {
        let known = self.rooms.here.get(room).map_or(UNTOLD, |here| here.follower.at());
        let (sessions, seats) = self.seats(room, std::iter::once(session));
        let purpose = Purpose::Seats { seats: sessions, known };
        let task = RoomTask::new(purpose, room.clone(), Op::Restore { seats, version: known.version });
        self.rooms.ask(Urgency::Background, task);
    }

    fn seats(&self, room: &RoomName, sessions: impl Iterator<Item = SessionId>) -> (Vec<(SessionId, u64)>, Vec<Seat>) {
        let seat = |session: SessionId| {
            let guest = self.rooms.guests.get(&session)?;
            let seat = guest.seat(session, room, &self.settings.id)?;
            Some(((session, seat.who.number), seat))
        };
        sessions.filter_map(seat).unzip()
    }

    /// Applies the store's answer about refreshed or restored seats. Returns `true` if the store
    /// knows all of them. Lost seats are restored.
    pub(super) fn seats_answered(
        &mut self,
        now: Instant,
        room: &RoomName,
        seats: &[(SessionId, u64)],
        outcome: &Outcome,
        may_restore: bool,
    ) -> bool {
        let mut lost = Vec::new();
        // While seats are restored, clients ahead in the queue may still be missing.
        let queue_length = may_restore.then_some(outcome.waiting);
        for (&(session, number), &standing) in seats.iter().zip(&outcome.standings) {
            match standing {
                SeatStatus::Unknown if may_restore => lost.push(session),
                SeatStatus::Unknown => {}
                standing => self.stands(now, room, (session, number), standing, queue_length),
            }
        }
        if lost.is_empty() {
            return true;
        }
        let known = self.rooms.here.get(room).map_or(UNTOLD, |here| here.follower.at());
        let (sessions, seats) = self.seats(room, lost.into_iter());
        self.rooms.counts.restored += seats.len() as u64;
        let op = Op::Restore { seats, version: known.version };
        self.rooms.ask(Urgency::Background, RoomTask::new(Purpose::Seats { seats: sessions, known }, room.clone(), op));
        false
    }

    /// Returns `true` if the store may have lost the room's state that this node has.
    pub(super) fn look_for_loss(&mut self, now: Instant, room: &RoomName, purpose: &Purpose, at: Stamp) -> bool {
        let Some(here) = self.rooms.here.get(room) else { return false };
        let fell = match *purpose {
            Purpose::Seats { known, .. } => known.incarnation == at.incarnation && at.version < known.version,
            _ => false,
        };
        let is_lost = fell || here.follower.is_other(at.incarnation);
        if is_lost {
            self.store_has_lost(now, room, at.incarnation);
        }
        is_lost
    }

    /// Handles a possible loss of a room: restores its seats and requests its state.
    pub(super) fn store_has_lost(&mut self, now: Instant, room: &RoomName, incarnation: u64) {
        let Some(here) = self.rooms.here.get_mut(room) else { return };
        if here.follower.is_other(incarnation) {
            if !here.follower.may_be_lost() {
                here.ask_after = None;
            }
            here.follower.exists(now, Stamp { incarnation, version: 0 });
        } else {
            here.follower.fell(now);
            // After the loss, the same version may mean another state.
            for session in &here.sessions {
                let guest = self.rooms.guests.get_mut(session);
                if let Some(place) = guest.and_then(|guest| guest.places.get_mut(room)) {
                    place.told = UNTOLD;
                }
            }
        }
        self.rooms.active.insert(room.clone());
        self.rooms.refill(now);
        self.ask_state(now, room);
    }

    /// Applies the store's report about a seat, unless the client has a newer command for it.
    /// `queue_length` is sent with a queue position.
    fn stands(
        &mut self,
        now: Instant,
        room: &RoomName,
        (session, number): (SessionId, u64),
        standing: SeatStatus,
        queue_length: Option<u64>,
    ) {
        let attached = self.attached_key(session);
        let Some(guest) = self.rooms.guests.get_mut(&session) else { return };
        let concerns = |first: &Command| first.room.as_ref() == Some(room) && !matches!(first.ask, Ask::Signal { .. });
        if guest.commands.front().is_some_and(concerns) {
            return;
        }
        let Some(place) = guest.places.get_mut(room).filter(|place| place.number == number) else { return };
        let was = std::mem::replace(&mut place.standing, standing);
        match standing {
            SeatStatus::Member { .. } => {
                if matches!(was, SeatStatus::Waiting { .. }) {
                    let at = self.rooms.here.get(room).map_or(UNTOLD, |here| here.follower.at());
                    self.rooms.add_seat(room, session, standing, at);
                    self.say_state(session);
                    self.rooms.is_uninformed(room, session);
                }
            }
            SeatStatus::Waiting { ahead, .. } => {
                if matches!(was, SeatStatus::Member { .. }) {
                    // The earlier position belongs to the queue before the client became a member.
                    place.told_line = None;
                    self.rooms.add_seat(room, session, standing, UNTOLD);
                    self.say_state(session);
                }
                let Some((key, queue_length)) = attached.zip(queue_length) else { return };
                match self.rooms.line_told(now, room, session, ahead) {
                    LineNews::Now => self.tell(key, &words::waiting(room, ahead, queue_length)),
                    LineNews::Later => self.rooms.line_has_moved(room),
                    LineNews::None => {}
                }
            }
            SeatStatus::Out | SeatStatus::Unknown => {
                let Some(key) = attached else {
                    // The next socket receives the loss. Until then this node, or the session's
                    // next one, keeps the seat.
                    place.standing = was;
                    return;
                };
                guest.places.remove(room);
                self.rooms.remove_seat(room, session);
                let message = RoomMessage::Left { room: room.as_str(), reason: LeftReason::Expired }.to_json();
                self.say_state(session);
                self.tell(key, &message);
                self.forget_idle_guest(session);
            }
        }
    }

    /// Drops the seats of sessions that have ended here and cannot be resumed here. The store keeps
    /// a seat for the grace time after the loss of the socket, unless another node has the session.
    fn look_for_ended(&mut self, now: Instant) {
        let mut ended = BTreeMap::new();
        for (session, guest) in &mut self.rooms.guests {
            let holder = self.directory.holder(guest.client.as_str());
            if holder.is_some_and(|(_, holder)| holder.id == *session) {
                guest.lost = None;
                continue;
            }
            let lingering = self.directory.lingering(&guest.client).filter(|lingering| lingering.session == *session);
            if let Some(lost) = lingering.and_then(|lingering| lingering.lost(self.settings.resume)) {
                // This must be exact: a resume time as long as the grace time leaves no rest of it.
                // The store ends a seat with time left only when another operation touches the
                // room.
                guest.lost = Some(lost);
            }
            let lost = *guest.lost.get_or_insert(now);
            if lingering.is_none() && !guest.is_busy() {
                ended.insert(*session, lost);
            }
        }
        for (session, lost) in ended {
            let keep = self.rooms.settings.grace.saturating_sub(now.saturating_duration_since(lost));
            let Some(guest) = self.rooms.guests.remove(&session) else { continue };
            for (room, place) in &guest.places {
                self.rooms.remove_seat(room, session);
                let who = guest.who(session, place.number, &self.settings.id);
                let task = RoomTask::new(Purpose::Farewell, room.clone(), Op::Drop { who, keep });
                self.rooms.ask(Urgency::Background, task);
            }
        }
    }

    /// Removes a session without seats and pending commands.
    pub(super) fn forget_idle_guest(&mut self, session: SessionId) {
        if self.rooms.guests.get(&session).is_some_and(|guest| guest.places.is_empty() && !guest.is_busy()) {
            self.rooms.guests.remove(&session);
        }
    }
}
