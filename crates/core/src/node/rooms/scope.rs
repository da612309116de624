//! Signals of confined clients, which may signal only members of their rooms.
//!
//! The store is asked about the recipient, one room of the sender after the other. Its answer is
//! valid for `KNOWN_FOR`, unless a change reports that the recipient left. Until the answer
//! arrives, later signals to unknown recipients wait in the command queue. This keeps their order,
//! also behind a `join`.

use std::time::{Duration, Instant};

use signaling_protocol::{ClientId, ErrorCode, RoomName};
use signaling_rooms::{Op, Outcome, SeatStatus, StoreError};
use signaling_wire::SessionId;
use signaling_wire::grant::SignalScope;

use super::super::outbound::OutboundMessage;
use super::super::session::Session;
use super::super::{NodeCore, SessionKey};
use super::Rooms;
use super::command::{Refusal, STORE_AWAY};
use super::local_room::LocalRoom;
use super::room_session::{Ask, Command, LocalSeat, RoomSession};
use super::task::{RoomTask, Urgency};

/// Validity of the store's answer. During an outage of the store an answer stays valid.
const KNOWN_FOR: Duration = Duration::from_secs(30);

/// The text is the same if no such client exists.
const STRANGER: Refusal = Refusal {
    code: ErrorCode::Forbidden,
    message: "you may signal only those who are in a room with you",
    retry_after_ms: None,
};

impl NodeCore {
    /// Returns `true` if a session may signal only members of its rooms, by its token or by the
    /// default of this node.
    pub(in crate::node) fn is_confined(&self, session: &Session) -> bool {
        let granted = session.grant.as_ref().and_then(|grant| grant.signal);
        granted.unwrap_or(self.signal_scope) == SignalScope::Room
    }

    /// Sends a signal of a confined session, or queues it until the store has answered.
    pub(in crate::node) fn signal_in_rooms(
        &mut self,
        now: Instant,
        key: SessionKey,
        to: &str,
        sent: OutboundMessage,
        fresh: bool,
    ) {
        let Some(session) = self.directory.get(key) else { return };
        let Ok(recipient) = ClientId::new(to) else { return };
        let id = session.id;
        let waits = self.rooms.guests.get(&id).is_some_and(RoomSession::has_signals);
        let is_own = session.client_id == recipient;
        let is_recent = |at| now.saturating_duration_since(at) < KNOWN_FOR;
        if is_own || (!waits && self.rooms.share_a_room(id, &recipient, is_recent)) {
            return self.signal(now, key, to, sent, fresh);
        }
        let OutboundMessage { seq, number, id, deadline, payload, .. } = sent;
        let ask = Ask::Signal { to: recipient, payload, deadline, fresh };
        self.command(key, Command { at: key, seq, number, id, room: None, ask });
    }

    /// Asks the store about the recipient of the first command in the sender's next room. Fails if
    /// no room is left.
    pub(super) fn ask_for_recipient(&mut self, session: SessionId) -> Result<(), Refusal> {
        let Some(guest) = self.rooms.guests.get_mut(&session) else { return Err(STRANGER) };
        let Some(Command { room, ask: Ask::Signal { to, .. }, .. }) = guest.commands.front_mut() else {
            return Err(STRANGER);
        };
        let asked = room.take();
        let is_next = |&(name, place): &(&RoomName, &LocalSeat)| {
            place.is_member() && asked.as_ref().is_none_or(|asked| name > asked)
        };
        let (next, _) = guest.places.iter().find(is_next).ok_or(STRANGER)?;
        *room = Some(next.clone());
        let (op, next) = (Op::Find { client: to.clone() }, next.clone());
        let Some(command) = guest.commands.front() else { return Err(STRANGER) };
        let task = RoomTask::new(command.purpose(session), next, op);
        self.rooms.ask(Urgency::Urgent, task);
        Ok(())
    }

    /// Takes in the store's answer about the recipient of the session's first command.
    pub(super) fn recipient_answered(
        &mut self,
        now: Instant,
        session: SessionId,
        room: &RoomName,
        to: &ClientId,
        answer: Result<Outcome, StoreError>,
    ) {
        let may_be_lost = |outcome: &Outcome| {
            let is_other = |here: &LocalRoom| here.follower.is_other(outcome.incarnation);
            let is_in = matches!(outcome.standings[..], [SeatStatus::Member { .. }]);
            !is_in && (outcome.settling || self.rooms.here.get(room).is_some_and(is_other))
        };
        let is_known = match answer {
            Ok(outcome) if may_be_lost(&outcome) => {
                self.room_changed(now, room, outcome.stamp(), outcome.changes, outcome.line_moved);
                if !self.rooms.share_a_room(session, to, |_| true) {
                    return self.finish(session, &[], Some(&STORE_AWAY));
                }
                true
            }
            Ok(outcome) => {
                let is_in = matches!(outcome.standings[..], [SeatStatus::Member { .. }]);
                if let Some(here) = self.rooms.here.get_mut(room) {
                    here.others.knows(now, to, is_in);
                }
                self.room_changed(now, room, outcome.stamp(), outcome.changes, outcome.line_moved);
                is_in
            }
            Err(_) if self.rooms.share_a_room(session, to, |_| true) => true,
            Err(_) => return self.finish(session, &[], Some(&STORE_AWAY)),
        };
        if is_known {
            self.send_known(now, session);
        }
        self.next_command(session);
    }

    /// Sends the first signals of the queue whose recipients are known to share a room with the
    /// sender.
    fn send_known(&mut self, now: Instant, session: SessionId) {
        while let Some(guest) = self.rooms.guests.get_mut(&session)
            && let Some(Command { ask: Ask::Signal { to, .. }, .. }) = guest.commands.front()
            && let to = to.clone()
            && self.rooms.share_a_room(session, &to, |_| true)
            && let Some(guest) = self.rooms.guests.get_mut(&session)
            && let Some(command) = guest.commands.pop_front()
            && let Command { at, seq, number, id, ask: Ask::Signal { payload, deadline, fresh, .. }, .. } = command
        {
            self.signal(now, at, to.as_str(), OutboundMessage::new(number, seq, id, deadline, payload, fresh), fresh);
            self.command_done(at);
        }
    }
}

impl Rooms {
    /// Returns `true` if both share a room by an answer of the store that is recent enough.
    fn share_a_room(&self, session: SessionId, to: &ClientId, is_recent: impl Fn(Instant) -> bool) -> bool {
        let Some(guest) = self.guests.get(&session) else { return false };
        let mut rooms = guest.places.iter().filter(|(_, place)| place.is_member()).map(|(room, _)| room);
        rooms.any(|room| self.here.get(room).is_some_and(|here| here.others.seen(to).is_some_and(&is_recent)))
    }
}

impl RoomSession {
    fn has_signals(&self) -> bool {
        self.commands.iter().any(|command| matches!(command.ask, Ask::Signal { .. }))
    }
}
