//! Commands of clients: in order and one at a time within each session.

use std::time::{Duration, Instant};

use signaling_protocol::rooms::{LeftReason, RoomMessage};
use signaling_protocol::server::ServerMessage;
use signaling_protocol::{ErrorCode, RoomName, limits};
use signaling_rooms::{Op, Outcome, SeatStatus, StoreError};
use signaling_wire::SessionId;
use signaling_wire::trunk::DeliveryOutcome;

use super::super::{NodeCore, SessionKey};
use super::local_room::LocalRoom;
use super::room_session::{Ask, Command, LocalSeat, RoomSession};
use super::task::{Purpose, RoomTask, Urgency};
use super::{MAX_SHOWN, words};

/// Retry delay for a client when the store does not answer, in milliseconds.
const RETRY_AFTER_MS: u64 = 1_000;
/// Retry delay when the waiting queue is full, in milliseconds. A full queue moves slowly.
const LINE_RETRY_AFTER_MS: u64 = 10_000;

/// Maximum time for which an answer is held while it may lack members.
const HOLD_FOR: Duration = Duration::from_secs(2);
/// Interval of questions to the store meanwhile.
const HOLD_AGAIN: Duration = Duration::from_millis(200);
/// Upper limit of the duration of one store call.
const LONGEST_CALL: Duration = Duration::from_secs(10);

/// A session's first command, whose answer is held back.
#[derive(Debug, Clone, Copy)]
pub(super) struct Held {
    command: (SessionKey, u64),
    until: Instant,
    again: Instant,
}

/// Why a command is not carried out.
#[derive(Clone, Copy)]
pub(in crate::node) struct Refusal {
    pub(super) code: ErrorCode,
    pub(super) message: &'static str,
    pub(super) retry_after_ms: Option<u64>,
}

const fn refusal(code: ErrorCode, message: &'static str) -> Refusal {
    Refusal { code, message, retry_after_ms: None }
}

pub(super) const STORE_AWAY: Refusal = Refusal {
    code: ErrorCode::RoomStoreUnavailable,
    message: "rooms cannot be read or changed now",
    retry_after_ms: Some(RETRY_AFTER_MS),
};
const NOT_SHARED: Refusal = refusal(
    ErrorCode::RoomStoreUnavailable,
    "this mesh has several nodes, and each would have rooms of its own: they need --room-store redis://...",
);
const NOT_ADMITTED: Refusal = refusal(ErrorCode::Forbidden, "your token does not let you into this room");
const NOT_IN_ROOM: Refusal = refusal(ErrorCode::NotInRoom, "only members of the room may do that");
const TOO_MANY: Refusal = refusal(ErrorCode::Overloaded, "you are in as many rooms as a client may be in: leave one");
const LINE_FULL: Refusal = Refusal {
    code: ErrorCode::Overloaded,
    message: "the room is full, and so is the line in front of it",
    retry_after_ms: Some(LINE_RETRY_AFTER_MS),
};
const TOO_MUCH: Refusal =
    refusal(ErrorCode::TooLarge, "the `data` that you show in all your rooms together may have 65536 bytes");

impl NodeCore {
    /// Queues a client's command for a room.
    pub(in crate::node) fn command(&mut self, key: SessionKey, command: Command) {
        let Some(session) = self.directory.get_mut(key) else { return };
        session.commands += 1;
        let (id, client, accepted_at_us) = (session.id, session.client_id.clone(), session.accepted_at_us);
        let guest = self.rooms.guests.entry(id).or_insert_with(|| RoomSession::new(client, accepted_at_us));
        guest.commands.push_back(command);
        if guest.commands.len() == 1 {
            self.next_command(id);
        }
    }

    /// Asks the store about the first command of the queue. Commands that need no store are carried
    /// out at once.
    pub(super) fn next_command(&mut self, session: SessionId) {
        while let Some(guest) = self.rooms.guests.get_mut(&session)
            && let Some(command) = guest.commands.front()
        {
            guest.found.clear();
            let Some(room) = command.room.clone().filter(|_| !matches!(command.ask, Ask::Signal { .. })) else {
                if self.roomless_command(session) {
                    return;
                }
                continue;
            };
            let who = guest.who(session, command.number, &self.settings.id);
            let place = guest.places.get(&room);
            let is_member = place.is_some_and(LocalSeat::is_member);
            let mut capacity = None;
            let op = match &command.ask {
                Ask::Join { data } => {
                    let shown = data.as_deref().map_or(0, str::len) + guest.shown_elsewhere(&room);
                    let grant = self.directory.get(command.at).and_then(|session| session.grant.as_ref());
                    let admitted = grant.map_or(Some(None), |grant| grant.admits(room.as_str()));
                    capacity = admitted.flatten().filter(|_| place.is_none());
                    if admitted.is_none() {
                        Err(NOT_ADMITTED)
                    } else if !self.rooms.settings.shared && self.peers.view().len() > 1 {
                        Err(NOT_SHARED)
                    } else if place.is_none() && guest.places.len() >= self.rooms.settings.per_client {
                        self.rooms.counts.too_many_rooms += 1;
                        Err(TOO_MANY)
                    } else if shown > MAX_SHOWN {
                        Err(TOO_MUCH)
                    } else {
                        Ok(Op::Join { who, data: data.clone() })
                    }
                }
                Ask::Leave => Ok(Op::Leave { who }),
                Ask::Members { after } if is_member => Ok(Op::List { after: after.clone() }),
                Ask::Broadcast { .. } if is_member => Ok(Op::List { after: None }),
                _ => Err(NOT_IN_ROOM),
            };
            match op {
                Ok(op) => {
                    let task = RoomTask::new(command.purpose(session), room.clone(), op);
                    if let Some(capacity) = capacity {
                        let op = Op::SetCapacity { capacity: Some(capacity) };
                        self.rooms.ask(Urgency::Urgent, RoomTask::new(Purpose::Capacity, room, op));
                    }
                    self.rooms.ask(Urgency::Urgent, task);
                    return;
                }
                Err(refusal) => self.answer_first(session, &[], Some(&refusal)),
            }
        }
        self.forget_idle_guest(session);
    }

    /// Starts the first command of the queue if it names no room. Returns `true` if it waits for
    /// the store.
    fn roomless_command(&mut self, session: SessionId) -> bool {
        let guest = self.rooms.guests.get(&session);
        let is_signal =
            guest.and_then(|guest| guest.commands.front()).is_some_and(|first| matches!(first.ask, Ask::Signal { .. }));
        let refused = if is_signal {
            match self.ask_for_recipient(session) {
                Ok(()) => return true,
                Err(refusal) => Some(refusal),
            }
        } else {
            self.leave_all(session);
            None
        };
        self.answer_first(session, &[], refused.as_ref());
        false
    }

    /// Gives up all seats of a client that said goodbye.
    fn leave_all(&mut self, session: SessionId) {
        let Some(guest) = self.rooms.guests.get_mut(&session) else { return };
        // A lost answer may leave the store with later command numbers than this node.
        let who = guest.who(session, limits::MAX_REQUEST_ID, &self.settings.id);
        for room in std::mem::take(&mut guest.places).into_keys() {
            self.rooms.remove_seat(&room, session);
            let task = RoomTask::new(Purpose::Farewell, room, Op::Leave { who: who.clone() });
            self.rooms.ask(Urgency::Urgent, task);
        }
    }

    /// Takes in the store's answer to the first command of a session.
    pub(super) fn command_answered(
        &mut self,
        now: Instant,
        (session, at, seq): (SessionId, SessionKey, u64),
        room: &RoomName,
        answer: Result<Outcome, StoreError>,
    ) {
        let guest = self.rooms.guests.get(&session);
        let first = guest.and_then(|guest| guest.commands.front());
        let Some(command) = first.filter(|first| (first.at, first.seq) == (at, seq)).cloned() else {
            // The session moved and repeats its command at the next node. The changes count here
            // too.
            if let Ok(outcome) = answer {
                self.room_changed(now, room, outcome.stamp(), outcome.changes, outcome.line_moved);
            }
            return;
        };
        match (command.ask.clone(), answer) {
            (Ask::Signal { to, .. }, answer) => self.recipient_answered(now, session, room, &to, answer),
            (_, Err(_)) => self.finish(session, &[], Some(&STORE_AWAY)),
            (Ask::Join { data }, Ok(outcome)) if self.store_has_lost_seat(session, room, &outcome) => {
                self.hold_lost_seat(now, session, room, &command, data, outcome);
            }
            (Ask::Join { data }, Ok(outcome)) => self.joined(now, session, room, &command, data, outcome),
            (Ask::Leave | Ask::Farewell, Ok(outcome)) => {
                if let Some(guest) = self.rooms.guests.get_mut(&session) {
                    guest.places.remove(room);
                }
                self.rooms.remove_seat(room, session);
                self.finish(session, &[left(room)], None);
                self.room_changed(now, room, outcome.stamp(), outcome.changes, outcome.line_moved);
            }
            (Ask::Members { after: None }, Ok(outcome)) if self.may_miss_members(room, &outcome) => {
                self.hold_command(now, session, (at, seq));
                self.room_changed(now, room, outcome.stamp(), outcome.changes, outcome.line_moved);
            }
            (Ask::Members { after }, Ok(outcome)) => {
                if after.is_none() && !outcome.more && self.attached_key(session) == Some(command.at) {
                    self.rooms.knows(room, session, outcome.stamp());
                }
                self.finish(session, &[words::joined(room, &outcome)], None);
                self.room_changed(now, room, outcome.stamp(), outcome.changes, outcome.line_moved);
            }
            (Ask::Broadcast { .. }, Ok(outcome)) => self.members_found(now, session, room, &command, outcome),
        }
    }

    /// Returns `true` if a member joined again after the store lost its seat. The store answers
    /// such a join like a new one.
    fn store_has_lost_seat(&self, session: SessionId, room: &RoomName, outcome: &Outcome) -> bool {
        let place = self.rooms.guests.get(&session).and_then(|guest| guest.places.get(room));
        let (Some(place), Some(here)) = (place, self.rooms.here.get(room)) else { return false };
        let waits = matches!(outcome.standings.first(), Some(SeatStatus::Waiting { .. }));
        place.is_member() && waits && (outcome.settling || here.follower.is_other(outcome.incarnation))
    }

    /// Restores the lost seat and answers the command from the restored seat.
    fn hold_lost_seat(
        &mut self,
        now: Instant,
        session: SessionId,
        room: &RoomName,
        command: &Command,
        data: Option<Box<str>>,
        outcome: Outcome,
    ) {
        if let Some(place) = self.rooms.guests.get_mut(&session).and_then(|guest| guest.places.get_mut(room)) {
            place.number = command.number;
            place.data = data.or(place.data.take());
        }
        if self.rooms.here.get(room).is_some_and(|here| here.follower.is_other(outcome.incarnation)) {
            self.store_has_lost(now, room, outcome.incarnation);
        }
        self.restore_seat(room, session);
        self.hold_command(now, session, (command.at, command.seq));
        self.room_changed(now, room, outcome.stamp(), outcome.changes, outcome.line_moved);
    }

    fn joined(
        &mut self,
        now: Instant,
        session: SessionId,
        room: &RoomName,
        command: &Command,
        data: Option<Box<str>>,
        outcome: Outcome,
    ) {
        let Some(guest) = self.rooms.guests.get_mut(&session) else { return };
        let standing = outcome.standings.first().copied().unwrap_or(SeatStatus::Unknown);
        let told_line = match standing {
            SeatStatus::Waiting { ahead, .. } => Some((ahead, now)),
            _ => None,
        };
        let reply = match standing {
            SeatStatus::Member { .. } => words::joined(room, &outcome),
            SeatStatus::Waiting { ahead, .. } => words::waiting(room, ahead, outcome.waiting),
            // The client left since, or another session of it has the seat.
            SeatStatus::Out | SeatStatus::Unknown => left(room),
        };
        let is_out = matches!(standing, SeatStatus::Out | SeatStatus::Unknown);
        let line_is_full = self.rooms.settings.line.is_some_and(|line| outcome.waiting >= u64::from(line));
        let refusal = (is_out && line_is_full).then_some(LINE_FULL);
        self.rooms.counts.full_lines += u64::from(refusal.is_some());
        if is_out {
            guest.places.remove(room);
            self.rooms.remove_seat(room, session);
        } else {
            let data = data.or_else(|| guest.places.remove(room).and_then(|place| place.data));
            let at = outcome.stamp();
            let place = LocalSeat { standing, data, number: command.number, told: at, told_line };
            guest.places.insert(room.clone(), place);
            self.rooms.add_seat(room, session, standing, at);
            let is_first = |here: &&mut LocalRoom| here.follower.at() == at && !outcome.settling;
            if !outcome.members.is_empty()
                && let Some(here) = self.rooms.here.get_mut(room).filter(is_first)
            {
                here.lists(&outcome.members, outcome.more);
            }
            self.rooms.knows(room, session, at);
        }
        match refusal {
            Some(refusal) => self.finish(session, &[], Some(&refusal)),
            None => self.finish(session, &[reply], None),
        }
        self.room_changed(now, room, outcome.stamp(), outcome.changes, outcome.line_moved);
    }

    /// Holds an answer that may lack members. The store is asked again until all members are back,
    /// or until `HOLD_FOR` has passed.
    pub(super) fn hold_command(&mut self, now: Instant, session: SessionId, command: (SessionKey, u64)) {
        let held = self.rooms.held.remove(&session).filter(|held| held.command == command);
        let held = held.unwrap_or(Held { command, until: now + HOLD_FOR, again: now });
        if now >= held.until {
            return self.finish(session, &[], Some(&STORE_AWAY));
        }
        self.rooms.held.insert(session, Held { again: now + HOLD_AGAIN, ..held });
    }

    /// Repeats the due questions for held answers.
    pub(super) fn ask_for_held(&mut self, now: Instant) {
        let due = |(session, held): (&SessionId, &Held)| (now >= held.again).then_some((*session, held.command));
        let due: Vec<_> = self.rooms.held.iter().filter_map(due).collect();
        for (session, command) in due {
            let guest = self.rooms.guests.get(&session);
            let first = guest.and_then(|guest| guest.commands.front()).map(|first| (first.at, first.seq));
            if first != Some(command) {
                self.rooms.held.remove(&session);
            } else if let Some(held) = self.rooms.held.get_mut(&session) {
                // Allows no further question before this one is answered.
                held.again = held.until + LONGEST_CALL;
                self.next_command(session);
            }
        }
    }

    /// Answers the first command of a session and goes on to the next.
    pub(super) fn finish(&mut self, session: SessionId, messages: &[Vec<u8>], refused: Option<&Refusal>) {
        self.answer_first(session, messages, refused);
        self.next_command(session);
    }

    /// Answers the first command of a session. Session state, messages and outcome leave in this
    /// order.
    fn answer_first(&mut self, session: SessionId, messages: &[Vec<u8>], refused: Option<&Refusal>) {
        let Some(guest) = self.rooms.guests.get_mut(&session) else { return };
        let Some(Command { at, seq, id, room, ask, .. }) = guest.commands.pop_front() else { return };
        if matches!(ask, Ask::Join { .. } | Ask::Leave) && refused.is_none() {
            self.say_state(session);
            // The session's present socket may differ from the socket of the command. Both receive
            // the result.
            let present = self.attached_key(session).filter(|key| *key != at);
            present.iter().for_each(|key| messages.iter().for_each(|message| self.tell(*key, message)));
        }
        messages.iter().for_each(|message| self.tell(at, message));
        match refused {
            _ if matches!(ask, Ask::Farewell) => {}
            None => {
                self.rooms.counts.commands += 1;
                let ack = id.map(|id| ServerMessage::Ack { id, delivered: None }.to_json()).unwrap_or_default();
                self.reply_in_order(at, seq, DeliveryOutcome::Done, &ack);
            }
            Some(refusal) => {
                let to = if let Ask::Signal { to, .. } = &ask { Some(to.as_str()) } else { None };
                let room = room.as_ref().map(RoomName::as_str).filter(|_| to.is_none());
                let error = self.error(refusal, id, to, room);
                self.reply_in_order(at, seq, DeliveryOutcome::Refused, &error);
            }
        }
        self.command_done(at);
    }

    /// Refuses a command that did not enter the queue.
    pub(in crate::node) fn refuse_in_room(
        &mut self,
        at: SessionKey,
        (seq, id): (u64, Option<u64>),
        room: &str,
        refusal: &Refusal,
    ) {
        let error = self.error(refusal, id, None, Some(room));
        self.reply(at, seq, DeliveryOutcome::Refused, &error);
    }

    fn error(&mut self, refusal: &Refusal, id: Option<u64>, to: Option<&str>, room: Option<&str>) -> Vec<u8> {
        let Refusal { code, message, retry_after_ms } = *refusal;
        self.counts.refuse(code);
        ServerMessage::Error { code, message, id, to, room, retry_after_ms }.to_json()
    }

    pub(super) fn command_done(&mut self, at: SessionKey) {
        if let Some(session) = self.directory.get_mut(at) {
            session.commands = session.commands.saturating_sub(1);
        }
        self.remove_if_done(at);
    }
}

fn left(room: &RoomName) -> Vec<u8> {
    RoomMessage::Left { room: room.as_str(), reason: LeftReason::Left }.to_json()
}
