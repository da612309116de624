//! Commands of clients: in order and one at a time within each session.

use std::time::{Duration, Instant};

use signaling_protocol::ids::is_reserved;
use signaling_protocol::server::ServerMessage;
use signaling_protocol::{ErrorCode, RoomName};
use signaling_wire::rate::whole_ms;
use signaling_wire::trunk::DeliveryOutcome;
use signaling_wire::{MessageNumber, Seq, SessionId};

use super::budget::BudgetKind;
use super::rights::admits;
use super::room_session::{Command, CommandKind, LocalSeat, RoomSession};
use super::task::{Purpose, Urgency};
use super::{MAX_DATA_BYTES, messages};
use crate::op::SOCKET_END;
use crate::{
    Context, LeftReason, OpRefusal, OpResult, Operation, Output, RoomEvents, RoomOptions, Rooms, Seat, SeatStatus,
    SocketKey, Step,
};

/// Retry delay for a client when the owner does not answer, in milliseconds.
const RETRY_AFTER_MS: u64 = 1_000;
/// Retry delay when the waiting queue or the memory for rooms is full, in milliseconds. Both change
/// slowly.
const FULL_RETRY_AFTER_MS: u64 = 10_000;

/// Maximum time for which an answer is held while it may lack members.
const HOLD_TIMEOUT: Duration = Duration::from_secs(2);
/// Interval of repeated requests while an answer is held.
const HOLD_INTERVAL: Duration = Duration::from_millis(200);
/// Upper limit of the duration of one request.
const MAX_CALL_TIME: Duration = Duration::from_secs(10);

/// A session's first command while its answer is held back or the command delayed. Later commands
/// of the session wait.
#[derive(Debug, Clone, Copy)]
pub(super) struct HeldCommand {
    command: (SocketKey, Seq),
    /// `true` after a request for it, which may have been carried out.
    was_sent: bool,
    until: Instant,
    retry_at: Instant,
}

/// Reason why a command is not carried out.
#[derive(Clone, Copy)]
pub struct Refusal {
    pub(super) code: ErrorCode,
    /// Human-readable reason.
    pub(super) message: &'static str,
    /// Wait before a retry, in milliseconds. `None`: a later retry has no better chance.
    pub(super) retry_after_ms: Option<u64>,
}

/// Creates a refusal without a retry delay.
pub(super) const fn refusal(code: ErrorCode, message: &'static str) -> Refusal {
    Refusal { code, message, retry_after_ms: None }
}

/// The owner did not answer, or its answer may lack members for too long.
pub(super) const ROOM_UNAVAILABLE: Refusal = Refusal {
    retry_after_ms: Some(RETRY_AFTER_MS),
    ..refusal(ErrorCode::RoomUnavailable, "rooms cannot be read or changed now")
};
const NOT_ADMITTED: Refusal = refusal(ErrorCode::Forbidden, "your token does not let you into this room");
const BLOCKED: Refusal = refusal(ErrorCode::Forbidden, "an operator keeps you out of this room for a while");
const CLOSED: Refusal = refusal(ErrorCode::Forbidden, "an operator has closed this room");
const NOT_IN_ROOM: Refusal = refusal(ErrorCode::NotInRoom, "only members of the room may do that");
const NO_SEAT: Refusal = refusal(ErrorCode::NotInRoom, "the seat of this join has ended: join again");
const TOO_MANY_ROOMS: Refusal =
    refusal(ErrorCode::Overloaded, "you are in as many rooms as a client may be in: leave one");
const QUEUE_FULL: Refusal = Refusal {
    retry_after_ms: Some(FULL_RETRY_AFTER_MS),
    ..refusal(ErrorCode::Overloaded, "the room and its waiting queue are full")
};
const ROOMS_FULL: Refusal = Refusal {
    retry_after_ms: Some(FULL_RETRY_AFTER_MS),
    ..refusal(ErrorCode::Overloaded, "the servers of this room have no memory left for it: retry later")
};
const TOO_MUCH_DATA: Refusal =
    refusal(ErrorCode::TooLarge, "the `data` that you show in all your rooms together may have 65536 bytes");

impl<M: Clone, C: Context> Step<'_, M, C> {
    /// Queues a client's command. No effect if its session has ended.
    pub fn command(&mut self, command: Command<M>) {
        let Some(session) = self.cx.socket(command.key) else { return };
        self.local.sockets.entry(command.key).or_default().commands += 1;
        let (id, client) = (session.id, session.client_id.clone());
        let at = self.local.attachment_of(&session);
        // A later socket may have resumed the session.
        let present = self.cx.holder(client.as_str()).filter(|(_, holder)| holder.id == id);
        let present = present.map(|(_, holder)| self.local.attachment_of(&holder));
        let at = present.filter(|present| present.is_later_than(at)).unwrap_or(at);
        let new = || RoomSession::new(client, at);
        let room_session = self.local.session(id, new);
        room_session.commands.push_back(command);
        if room_session.commands.len() == 1 {
            self.next_command(id);
        }
    }

    /// Queues the request of the first command, or delays it. One that needs none is answered
    /// at once.
    pub(super) fn next_command(&mut self, session: SessionId) {
        while let Some(room_session) = self.local.sessions.get_mut(&session)
            && let Some(command) = room_session.commands.front()
        {
            room_session.found.clear();
            let refused = match (&command.kind, command.room.clone()) {
                (CommandKind::Signal { .. }, _) => self.ask_for_recipient(session),
                (_, Some(room)) => self.ask_for_command(session, &room),
                (_, None) => {
                    // It waited behind earlier commands, and counts for its own socket alone.
                    let key = command.key;
                    if !self.is_resumed_elsewhere(key) {
                        self.leave_all(session);
                    }
                    self.answer_first(session, &[], None);
                    continue;
                }
            };
            match refused {
                Ok(()) => return,
                Err(refusal) => self.answer_first(session, &[], Some(&refusal)),
            }
        }
        self.remove_if_idle(session);
    }

    /// Queues the request of a session's first command, which is about this room. Delays the
    /// command if its client must wait for its budget.
    fn ask_for_command(&mut self, session: SessionId, room: &RoomName) -> Result<(), Refusal> {
        let Some(room_session) = self.local.sessions.get(&session) else { return Err(NOT_IN_ROOM) };
        let Some(command) = room_session.commands.front() else { return Err(NOT_IN_ROOM) };
        let requester = room_session.requester(session, command.number, &self.mesh.id);
        let seat = self.local.seat(session, room);
        let is_member = seat.is_some_and(LocalSeat::is_member);
        let op = match &command.kind {
            CommandKind::Join { data, .. } => {
                let data_bytes = data.as_deref().map_or(0, str::len) + room_session.data_bytes_elsewhere(room);
                let granted = self.check_grant(command.key, room)?;
                let capacity = granted.filter(|_| seat.is_none() && !is_reserved(room.as_str()));
                if seat.is_none() && room_session.seats.len() >= self.local.settings.max_seats_per_client {
                    self.local.counts.too_many_rooms += 1;
                    return Err(TOO_MANY_ROOMS);
                }
                if data_bytes > MAX_DATA_BYTES {
                    return Err(TOO_MUCH_DATA);
                }
                let former = seat.and_then(|seat| seat.seat.data.as_deref()).map_or(0, str::len);
                let grows = seat.is_none() || data.as_deref().map_or(0, str::len) > former;
                if grows && self.mesh.is_full() {
                    self.local.counts.joins_over_bytes += 1;
                    return Err(ROOMS_FULL);
                }
                Operation::Join { requester, data: data.clone(), capacity }
            }
            CommandKind::Leave => Operation::Leave { requester },
            _ if !is_member && !RoomOptions::of(room).open => return Err(NOT_IN_ROOM),
            _ if !is_member && let Err(refusal) = self.check_grant(command.key, room) => return Err(refusal),
            CommandKind::Members { after } => Operation::List { after: after.clone() },
            CommandKind::Broadcast { .. } => Operation::List { after: None },
            CommandKind::Signal { .. } | CommandKind::LeaveAll => return Err(NOT_IN_ROOM),
        };
        let purpose = command.purpose(session);
        let is_limited = match command.kind {
            // A join that was carried out before must not fail now.
            CommandKind::Join { may_be_done, .. } => {
                let is_done = may_be_done && seat.is_some_and(|seat| seat.number() >= command.number.0);
                let was_sent = |held: &HeldCommand| held.was_sent && held.command == (command.key, command.seq);
                !is_done && !self.local.held.get(&session).is_some_and(was_sent)
            }
            CommandKind::Members { .. } => true,
            _ => false,
        };
        if is_limited && let Some(over @ (_, kind)) = self.check_rates(command, seat.is_some()) {
            let command = command.clone();
            let Some(refusal) = self.delay_or_refuse(session, &command, over) else { return Ok(()) };
            let counts = &mut self.local.counts;
            match (command.kind, kind) {
                (CommandKind::Join { .. }, BudgetKind::FanOut) => counts.joins_over_fan_out += 1,
                (CommandKind::Join { .. }, _) => counts.joins_over_new_rooms += 1,
                _ => {}
            }
            return Err(refusal);
        }
        self.local.enqueue(Urgency::Urgent, purpose, room.clone(), op);
        Ok(())
    }

    /// Returns the capacity that a client's token sets for a room. Fails if the token does not let
    /// the client into the room.
    fn check_grant(&self, key: SocketKey, room: &RoomName) -> Result<Option<u32>, Refusal> {
        let grant = self.cx.socket(key).and_then(|session| session.grant);
        grant.map_or(Some(None), |grant| admits(grant, room)).ok_or(NOT_ADMITTED)
    }

    fn leave_all(&mut self, session: SessionId) {
        let Some(room_session) = self.local.sessions.get_mut(&session) else { return };
        // A lost answer may leave the owner with later command numbers than this node.
        let requester = room_session.requester(session, MessageNumber(SOCKET_END), &self.mesh.id);
        for (room, _) in room_session.seats.take() {
            self.local.remove_seat(&room, session);
            let op = Operation::Leave { requester: requester.clone() };
            self.local.enqueue(Urgency::Urgent, Purpose::Upkeep, room, op);
        }
    }

    /// Returns the first command of a session if it is the one of this frame. `None`: the session
    /// moved and repeats its command at the next node.
    pub(super) fn first_command(&self, (session, key, seq): (SessionId, SocketKey, Seq)) -> Option<Command<M>> {
        let first = self.local.sessions.get(&session)?.commands.front()?;
        ((first.key, first.seq) == (key, seq)).then(|| first.clone())
    }

    /// Answers the first command of a session without a result: a signal by earlier answers
    /// about its recipient, others by [`ROOM_UNAVAILABLE`].
    pub(super) fn command_failed(&mut self, at: (SessionId, SocketKey, Seq)) {
        match self.first_command(at).map(|command| command.kind) {
            Some(CommandKind::Signal { to, .. }) => self.recipient_unconfirmed(at.0, &to),
            Some(_) => self.finish(at.0, &[], Some(&ROOM_UNAVAILABLE)),
            None => {}
        }
    }

    /// Handles the owner's result for a session's first command. The caller handles its changes.
    pub(super) fn command_answered(&mut self, at: (SessionId, SocketKey, Seq), room: &RoomName, result: &OpResult) {
        let Some(command) = self.first_command(at) else { return };
        let (session, key, _) = at;
        match &command.kind {
            CommandKind::Signal { to, .. } => self.recipient_answered(session, room, to, result),
            CommandKind::Join { .. } if self.has_lost_seat(session, room, result) => {
                // The join is repeated once the seat is restored.
                if self.local.is_other_incarnation(room, result.incarnation) {
                    self.handle_loss(room, result.incarnation);
                }
                self.local.restore(room, &[session], 0);
                self.hold_command(session, &command);
            }
            CommandKind::Join { .. } => self.joined(session, room, &command, result),
            CommandKind::Leave | CommandKind::LeaveAll => {
                self.end_seat(session, room);
                if result.statuses.first().is_some_and(|status| status.is_present())
                    && let Some(room_session) = self.local.sessions.get(&session)
                {
                    // A later command of the session was carried out before.
                    let requester = room_session.requester(session, command.number, &self.mesh.id);
                    self.drop_unknown_seat(session, room, requester);
                }
                self.finish(session, &[messages::left(room, LeftReason::Left)], None);
            }
            CommandKind::Members { after: None } if self.may_miss_members(room, result) => {
                self.hold_command(session, &command);
            }
            CommandKind::Members { after } => {
                let has_seat = self.local.has_seat(session, room);
                if has_seat && after.is_none() && !result.more && self.attached_key(session) == Some(key) {
                    self.local.record_sent(room, session, result.stamp());
                }
                let answer = messages::joined(room, result, after.as_ref());
                self.charge_answer(session, &answer);
                self.finish(session, &[answer], None);
            }
            CommandKind::Broadcast { .. } => self.members_found(session, room, &command, result),
        }
    }

    /// Refuses a session's first command, a join. A seat stays if only bytes are missing.
    pub(super) fn join_refused(&mut self, at: (SessionId, SocketKey, Seq), room: &RoomName, why: OpRefusal) {
        let refusal = match why {
            OpRefusal::Blocked { rest } => {
                // A seat here is over, and its client receives that too.
                self.local.schedule_claim(room, at.0);
                Refusal { retry_after_ms: Some(whole_ms(rest)), ..BLOCKED }
            }
            OpRefusal::Closed { rest } => {
                self.local.schedule_claim(room, at.0);
                Refusal { retry_after_ms: rest.map(whole_ms), ..CLOSED }
            }
            OpRefusal::NoBytes | OpRefusal::TooManyBlocks => {
                self.local.counts.joins_over_bytes += 1;
                ROOMS_FULL
            }
        };
        if self.first_command(at).is_some() {
            self.finish(at.0, &[], Some(&refusal));
        }
    }

    /// Returns `true` if the owner answered a repeated join like a new one: it has lost the seat.
    fn has_lost_seat(&self, session: SessionId, room: &RoomName, result: &OpResult) -> bool {
        self.local.seat(session, room).is_some_and(|seat| seat.is_member() && !seat.is_over)
            && result.statuses.first().is_some_and(|status| status.is_waiting())
            && (result.settling || self.local.is_other_incarnation(room, result.incarnation))
    }

    /// Removes a session's seat. If it had one, its edge gets the state without it.
    pub(super) fn end_seat(&mut self, session: SessionId, room: &RoomName) {
        let room_session = self.local.sessions.get_mut(&session);
        let had_seat = room_session.is_some_and(|room_session| room_session.seats.remove(room).is_some());
        self.local.remove_seat(room, session);
        if had_seat {
            self.send_state(session);
        }
    }

    fn joined(&mut self, session: SessionId, room: &RoomName, command: &Command<M>, result: &OpResult) {
        let CommandKind::Join { data, .. } = &command.kind else { return };
        let Some(room_session) = self.local.sessions.get_mut(&session) else { return };
        let status = result.statuses.first().copied().unwrap_or(SeatStatus::Unknown);
        let (reply, sent_ahead) = match status {
            SeatStatus::Member { .. } if RoomOptions::of(room).events == RoomEvents::None => (None, None),
            SeatStatus::Member { .. } => (Some(messages::joined(room, result, None)), None),
            SeatStatus::Waiting { ahead, .. } => {
                (Some(messages::waiting(room, ahead, result.waiting)), Some((ahead, self.now)))
            }
            // The client left since, another session of it has the seat, or the queue is full.
            SeatStatus::Out(_) | SeatStatus::Unknown => {
                let reason = status.end_by_operator().unwrap_or(LeftReason::Left);
                let left = self.local.has_seat(session, room).then(|| messages::left(room, reason));
                self.end_seat(session, room);
                let max_waiting = match is_reserved(room.as_str()) {
                    true => RoomOptions::of(room).capacity.map(|_| 0),
                    false => self.local.settings.rules.max_waiting,
                };
                let is_full = max_waiting.is_some_and(|max| result.waiting >= u64::from(max));
                self.local.counts.full_queues += u64::from(is_full);
                let refusal = if is_full { QUEUE_FULL } else { NO_SEAT };
                return self.finish(session, left.as_slice(), Some(&refusal));
            }
        };
        let former = room_session.seats.remove(room);
        let data = data.clone().or_else(|| former.as_ref().and_then(|local| local.seat.data.clone()));
        let requester = room_session.requester(session, command.number, &self.mesh.id);
        let at = result.stamp();
        let (seat, confirmed_in) = (Seat { requester, status, data }, (result.incarnation, result.epoch));
        let seat = LocalSeat { seat, sent: at, confirmed_in, sent_ahead, is_over: false };
        let is_changed = former.as_ref().and_then(|local| local.lasting_state(room)) != seat.lasting_state(room);
        room_session.seats.insert(room.clone(), Box::new(seat));
        if let Some(session) = self.cx.socket(command.key).filter(|session| session.is_reliable) {
            room_session.accepted_requests.record(command.number, session.socket);
        }
        self.local.add_seat(room, session, status, (at, result.epoch));
        self.local.record_epoch(room.as_str(), result.epoch);
        if !result.members.is_empty()
            && !result.settling
            && let Some(local) = self.local.by_name.get_mut(room).filter(|local| local.sequencer.at() == at)
        {
            local.set_member_list(&result.members, result.more);
        }
        self.local.record_sent(room, session, at);
        if let Some(answer) = reply.as_ref().filter(|_| status.is_member()) {
            self.charge_answer(session, answer);
        }
        if is_changed {
            self.send_state(session);
        }
        self.finish(session, reply.as_slice(), None);
        // The token may have changed since the join was sent.
        self.leave_forbidden_rooms(session);
    }

    /// Holds an answer that may lack members and repeats the request every 200 ms. After 2 s
    /// refuses the command by [`ROOM_UNAVAILABLE`].
    pub(super) fn hold_command(&mut self, session: SessionId, command: &Command<M>) {
        let command = (command.key, command.seq);
        let held = self.local.held.remove(&session).filter(|held| held.command == command);
        let held =
            held.unwrap_or(HeldCommand { command, was_sent: true, until: self.now + HOLD_TIMEOUT, retry_at: self.now });
        if self.now >= held.until {
            return self.finish(session, &[], Some(&ROOM_UNAVAILABLE));
        }
        self.local.held.insert(session, HeldCommand { was_sent: true, retry_at: self.now + HOLD_INTERVAL, ..held });
    }

    /// Holds a command for `wait`, and then begins it again.
    pub(super) fn delay_command(&mut self, session: SessionId, command: &Command<M>, wait: Duration) {
        let (command, retry_at) = ((command.key, command.seq), self.now + wait);
        let held = HeldCommand { command, was_sent: false, until: retry_at + HOLD_TIMEOUT, retry_at };
        self.local.held.insert(session, held);
    }

    /// Repeats a session's held command that was sent before, without the rest of its interval.
    pub(super) fn retry_now(&mut self, session: SessionId) {
        if let Some(held) = self.local.held.get_mut(&session).filter(|held| held.was_sent) {
            held.retry_at = self.now.min(held.retry_at);
            self.retry_held();
        }
    }

    pub(super) fn retry_held(&mut self) {
        let due = |(session, held): (&SessionId, &HeldCommand)| (self.now >= held.retry_at).then_some(*session);
        let due: Vec<_> = self.local.held.iter().filter_map(due).collect();
        for session in due {
            let first = self.local.sessions.get(&session).and_then(RoomSession::first_command);
            match self.local.held.get_mut(&session).filter(|held| first == Some(held.command)) {
                Some(held) => {
                    // Allows no further question before this one is answered.
                    held.retry_at = held.until + MAX_CALL_TIME;
                    self.next_command(session);
                }
                None => drop(self.local.held.remove(&session)),
            }
        }
    }

    /// Answers a session's first command by `messages` and `ack`, or `error`, and starts the next.
    pub(super) fn finish(&mut self, session: SessionId, messages: &[Vec<u8>], refused: Option<&Refusal>) {
        self.answer_first(session, messages, refused);
        self.next_command(session);
    }

    /// Answers the first command of a session with messages, then its outcome. If its seat has
    /// changed, the caller has sent the session's state before.
    fn answer_first(&mut self, session: SessionId, messages: &[Vec<u8>], refused: Option<&Refusal>) {
        let Some(room_session) = self.local.sessions.get_mut(&session) else { return };
        let Some(Command { key, seq, id, room, kind, .. }) = room_session.take_first_command() else { return };
        if matches!(kind, CommandKind::Join { .. } | CommandKind::Leave) {
            // The session's present socket may differ from the command's. Both receive the result.
            if let Some(present) = self.attached_key(session).filter(|present| *present != key) {
                messages.iter().for_each(|message| self.notify(present, message.as_slice().into()));
            }
        }
        messages.iter().for_each(|message| self.notify(key, message.as_slice().into()));
        if !matches!(kind, CommandKind::LeaveAll) {
            let (outcome, text) = match refused {
                None => {
                    self.local.counts.commands += 1;
                    let text = id.map(|id| ServerMessage::Ack { id, delivered: None }.to_json()).unwrap_or_default();
                    (DeliveryOutcome::Done, text)
                }
                Some(refusal) => {
                    let to = if let CommandKind::Signal { to, .. } = &kind { Some(to.as_str()) } else { None };
                    let room = room.as_ref().map(RoomName::as_str).filter(|_| to.is_none());
                    (DeliveryOutcome::Refused, self.error(refusal, id, to, room))
                }
            };
            self.local.outputs.push(Output::Answer { to: key, seq, outcome, text, is_ordered: true });
        }
        self.command_done(key);
    }

    /// Refuses a command that did not enter the queue.
    pub fn refuse_in_room(&mut self, key: SocketKey, (seq, id): (Seq, Option<u64>), room: &str, refusal: &Refusal) {
        let text = self.error(refusal, id, None, Some(room));
        let outcome = DeliveryOutcome::Refused;
        self.local.outputs.push(Output::Answer { to: key, seq, outcome, text, is_ordered: false });
    }

    fn error(&mut self, refusal: &Refusal, id: Option<u64>, to: Option<&str>, room: Option<&str>) -> Vec<u8> {
        let Refusal { code, message, retry_after_ms } = *refusal;
        if let Some(count) = self.local.refused.get_mut(code as usize) {
            *count += 1;
        }
        ServerMessage::Error { code, message, id, to, room, retry_after_ms }.to_json()
    }

    /// Reports that a command of a socket has its answer, behind that answer.
    pub(super) fn command_done(&mut self, key: SocketKey) {
        self.local.outputs.push(Output::CommandDone { of: key });
    }
}

impl<M> Rooms<M> {
    /// Ends the delay of a session's command, as its socket has ended: a budget refuses it now.
    /// Otherwise the edge would keep the frames of a client that is gone.
    pub fn end_delay(&mut self, now: Instant, session: SessionId) {
        if let Some(held) = self.local.held.get_mut(&session).filter(|held| !held.was_sent) {
            held.retry_at = held.retry_at.min(now);
        }
    }
}
