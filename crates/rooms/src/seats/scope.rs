//! Signals of confined clients, which may signal only members of their rooms.
//!
//! The node asks the owners of the rooms of the sender, one after the other. Their answer
//! is valid for `ANSWER_VALIDITY`, unless a change reports that the recipient left. Until it
//! arrives, later signals wait in the command queue. This keeps their order, also after a `join`.
//! For waiting signals, and while an owner fails, answers of any age are valid.

use std::time::{Duration, Instant};

use signaling_protocol::{ClientId, ErrorCode, RoomName};
use signaling_wire::grant::SignalScope;
use signaling_wire::{MessageNumber, Seq, SessionId};

use super::LocalRooms;
use super::command::{ROOM_UNAVAILABLE, Refusal, refusal};
use super::room_session::{Command, CommandKind};
use super::task::Urgency;
use crate::{Context, OpResult, Operation, Output, SocketKey, Step};

/// Validity of an owner's answer for a signal that does not wait in the queue.
const ANSWER_VALIDITY: Duration = Duration::from_secs(30);

/// The text is the same if no such client exists.
const NO_SHARED_ROOM: Refusal = refusal(ErrorCode::Forbidden, "you may signal only those who are in a room with you");

impl<M: Clone, C: Context> Step<'_, M, C> {
    /// Returns `true` if a session may signal only members of its rooms, by its token or default.
    pub fn is_confined(&self, key: SocketKey) -> bool {
        let Some(session) = self.cx.socket(key) else { return false };
        let granted = session.grant.and_then(|grant| grant.signal);
        granted.unwrap_or(self.local.settings.signal_scope) == SignalScope::Room
    }

    /// Sends a signal of a confined session, or queues it until an owner has answered. A signal to
    /// the sender itself is always sent.
    pub fn signal_in_rooms(
        &mut self,
        key: SocketKey,
        to: &str,
        (seq, number, id): (Seq, MessageNumber, Option<u64>),
        message: M,
    ) {
        let Some(session) = self.cx.socket(key) else { return };
        let Ok(recipient) = ClientId::new(to) else { return };
        let session_id = session.id;
        let waits =
            self.local.sessions.get(&session_id).is_some_and(|known| known.commands.iter().any(Command::is_signal));
        let is_own = *session.client_id == recipient;
        let is_recent = |at| self.now.saturating_duration_since(at) < ANSWER_VALIDITY;
        if is_own || (!waits && self.local.share_a_room(session_id, &recipient, is_recent)) {
            return self.local.outputs.push(Output::Signal { from: key, to: recipient, message });
        }
        let kind = CommandKind::Signal { to: recipient, message };
        self.command(Command { key, seq, number, id, room: None, kind });
    }

    /// Queues the lookup of the first recipient in the sender's next room. Fails if none is left.
    pub(super) fn ask_for_recipient(&mut self, session: SessionId) -> Result<(), Refusal> {
        let Some(room_session) = self.local.sessions.get_mut(&session) else { return Err(NO_SHARED_ROOM) };
        let Some(command) = room_session.commands.front_mut() else { return Err(NO_SHARED_ROOM) };
        let CommandKind::Signal { to, .. } = &command.kind else { return Err(NO_SHARED_ROOM) };
        let op = Operation::Find { client: to.clone() };
        let last = command.room.take();
        let mut rooms = room_session.seats.iter().filter(|(_, seat)| seat.is_member()).map(|(room, _)| room);
        let next = rooms.find(|room| last.as_ref().is_none_or(|last| *room > last)).ok_or(NO_SHARED_ROOM)?.clone();
        drop(rooms);
        command.room = Some(next.clone());
        let purpose = command.purpose(session);
        self.local.enqueue(Urgency::Urgent, purpose, next, op);
        Ok(())
    }

    /// Handles an owner's answer about the recipient of the session's first command.
    pub(super) fn recipient_answered(&mut self, session: SessionId, room: &RoomName, to: &ClientId, result: &OpResult) {
        let is_member = result.statuses.first().is_some_and(|status| status.is_member());
        let may_be_lost = result.settling || self.local.is_other_incarnation(room, result.incarnation);
        if !is_member && may_be_lost {
            return self.recipient_unconfirmed(session, to);
        }
        if let Some(local) = self.local.by_name.get_mut(room) {
            local.record_recipient(self.now, to, is_member);
        }
        if is_member {
            self.send_known(session);
        }
        self.next_command(session);
    }

    /// Decides about the first command's recipient by earlier answers, as the owner cannot answer.
    pub(super) fn recipient_unconfirmed(&mut self, session: SessionId, to: &ClientId) {
        if !self.local.share_a_room(session, to, |_| true) {
            return self.finish(session, &[], Some(&ROOM_UNAVAILABLE));
        }
        self.send_known(session);
        self.next_command(session);
    }

    /// Sends the first signals of the queue whose recipients share a room by answers of any age.
    fn send_known(&mut self, session: SessionId) {
        while let Some(room_session) = self.local.sessions.get_mut(&session)
            && let Some(Command { kind: CommandKind::Signal { to, .. }, .. }) = room_session.commands.front()
            && let to = to.clone()
            && self.local.share_a_room(session, &to, |_| true)
            && let Some(room_session) = self.local.sessions.get_mut(&session)
            && let Some(command) = room_session.take_first_command()
            && let Command { key, kind: CommandKind::Signal { message, .. }, .. } = command
        {
            self.local.outputs.push(Output::Signal { from: key, to, message });
            self.command_done(key);
        }
    }
}

impl<M> LocalRooms<M> {
    /// Returns `true` if both share a room by an answer that is recent enough.
    fn share_a_room(&self, session: SessionId, to: &ClientId, is_recent: impl Fn(Instant) -> bool) -> bool {
        let Some(room_session) = self.sessions.get(&session) else { return false };
        let mut rooms = room_session.seats.iter().filter(|(_, seat)| seat.is_member()).map(|(room, _)| room);
        rooms.any(|room| {
            let answered_at = self.by_name.get(room).and_then(|local| local.known_members.get(to));
            answered_at.is_some_and(|at| is_recent(*at))
        })
    }
}
