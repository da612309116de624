//! Broadcasts: one message for each other member of a room. The sender receives one answer when all
//! outcomes are known.

use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::edge::whole_ms;
use signaling_protocol::server::ServerMessage;
use signaling_protocol::{ErrorCode, RoomName};
use signaling_rooms::{Op, Outcome};
use signaling_wire::SessionId;
use signaling_wire::trunk::DeliveryOutcome;

use super::super::outbound::OutboundMessage;
use super::super::{NodeCore, SessionKey};
use super::command::Refusal;
use super::local_room::LocalRoom;
use super::room_session::{Ask, Command};
use super::task::{RoomTask, Urgency};

/// A broadcast with members whose outcomes are not known yet.
#[derive(Debug)]
pub(in crate::node) struct Tally {
    seq: u64,
    id: Option<u64>,
    left: usize,
    delivered: u64,
}

impl NodeCore {
    /// Checks a broadcast before the question to the store. Returns `true` if it may have been
    /// accepted before, so it must not be refused now. A client that ignores its wait is refused
    /// here, at no cost to the store.
    pub(in crate::node) fn may_broadcast(
        &mut self,
        now: Instant,
        at: SessionKey,
        number: u64,
        again: bool,
    ) -> Result<bool, Refusal> {
        if again || self.was_let_through(at, number) {
            return Ok(true);
        }
        let wait = self.directory.get(at).and_then(|session| session.reach.told_to_wait(now));
        wait.map_or(Ok(false), |wait| Err(too_far(wait)))
    }

    /// Returns `true` if a resumed session retransmits a broadcast that was accepted before.
    fn was_let_through(&mut self, at: SessionKey, number: u64) -> bool {
        let Some(session) = self.directory.get(at) else { return false };
        // A plain client cannot retransmit.
        let guest = self.rooms.guests.get_mut(&session.id).filter(|_| session.resumed && session.known_id.is_some());
        guest.is_some_and(|guest| guest.let_through.again(number, session.accepted_at_us))
    }

    /// Checks the sender's budget for a broadcast to `members`.
    fn weigh(&mut self, now: Instant, command: &Command, members: u64) -> Result<(), Refusal> {
        let Ask::Broadcast { again: false, .. } = command.ask else { return Ok(()) };
        let Some(rate) = self.rooms.settings.reach else { return Ok(()) };
        let session = self.directory.get_mut(command.at);
        match session.and_then(|session| session.reach.wait(now, rate, members)) {
            None => Ok(()),
            Some(wait) => Err(too_far(wait)),
        }
    }

    /// Takes in a page of members from the store, and sends the broadcast after the last page.
    pub(super) fn members_found(
        &mut self,
        now: Instant,
        session: SessionId,
        room: &RoomName,
        command: &Command,
        outcome: Outcome,
    ) {
        let is_first_page = self.rooms.guests.get(&session).is_some_and(|guest| guest.found.is_empty());
        let is_other = |here: &LocalRoom| here.follower.is_other(outcome.incarnation);
        let may_miss = match is_first_page {
            true => self.may_miss_members(room, &outcome) || self.is_incomplete_elsewhere(room, &outcome),
            false => self.rooms.here.get(room).is_some_and(is_other),
        };
        let at = outcome.stamp();
        let Outcome { changes, line_moved, members, more, count, .. } = outcome;
        if may_miss {
            self.hold_command(now, session, (command.at, command.seq));
        } else if is_first_page && let Err(refusal) = self.weigh(now, command, count.saturating_sub(1)) {
            self.finish(session, &[], Some(&refusal));
        } else if let Some(guest) = self.rooms.guests.get_mut(&session) {
            guest.found.extend(members.into_iter().map(|member| member.client));
            if more && let Some(last) = guest.found.last() {
                let op = Op::List { after: Some(last.clone()) };
                self.rooms.ask(Urgency::Urgent, RoomTask::new(command.purpose(session), room.clone(), op));
            } else {
                self.fan_out(now, session);
                self.command_done(command.at);
                self.next_command(session);
            }
        }
        self.room_changed(now, room, at, changes, line_moved);
    }

    /// Sends the broadcast, which is the session's first command, to all members but its sender.
    fn fan_out(&mut self, now: Instant, session: SessionId) {
        let Some(guest) = self.rooms.guests.get_mut(&session) else { return };
        let mut members = std::mem::take(&mut guest.found);
        let Some(Command { at, seq, number, id, ask, .. }) = guest.commands.pop_front() else { return };
        let Ask::Broadcast { payload, deadline, fresh, .. } = ask else { return };
        let Some(session) = self.directory.get_mut(at) else { return };
        if session.known_id.is_some() {
            guest.let_through.note(number, session.accepted_at_us);
        }
        if let Some(under_way) = session.broadcasts.get_mut(&number) {
            // The client retransmits the broadcast. Its outcome answers the latest frame.
            let earlier = std::mem::replace(&mut under_way.seq, seq);
            return self.reply(at, earlier, DeliveryOutcome::Done, &[]);
        }
        // A member that left and joined again between two pages is on both.
        members.sort_unstable();
        members.dedup();
        members.retain(|member| *member != session.client_id);
        if let Some(rate) = self.rooms.settings.reach {
            session.reach.pay(now, rate, members.len() as u64);
        }
        self.rooms.counts.broadcasts += 1;
        session.broadcasts.insert(number, Tally { seq, id, left: members.len() + 1, delivered: 0 });
        for member in members {
            let sent = OutboundMessage::copy(number, seq, deadline, Rc::clone(&payload), fresh);
            if !self.take_custody(now, at, member.as_str(), sent, fresh) {
                self.one_of_many_ended(at, number, false);
            }
        }
        // The extra count for the sender ends here, so the answer follows after all messages are
        // sent.
        self.tally(at, number);
    }

    /// Counts one member's outcome.
    pub(in crate::node) fn one_of_many_ended(&mut self, at: SessionKey, number: u64, written: bool) {
        self.counts.delivered += u64::from(written);
        self.counts.unavailable += u64::from(!written);
        if let Some(tally) = self.directory.get_mut(at).and_then(|session| session.broadcasts.get_mut(&number)) {
            tally.delivered += u64::from(written);
        }
        self.tally(at, number);
    }

    fn tally(&mut self, at: SessionKey, number: u64) {
        let Some(session) = self.directory.get_mut(at) else { return };
        let Some(tally) = session.broadcasts.get_mut(&number) else { return };
        tally.left = tally.left.saturating_sub(1);
        if tally.left > 0 {
            return;
        }
        let Tally { seq, id, delivered, .. } = *tally;
        session.broadcasts.remove(&number);
        let delivered = Some(delivered);
        let ack = id.map(|id| ServerMessage::Ack { id, delivered }.to_json()).unwrap_or_default();
        self.reply(at, seq, DeliveryOutcome::Done, &ack);
    }
}

fn too_far(wait: Duration) -> Refusal {
    const MESSAGE: &str = "your broadcasts reach more members of rooms than they may: wait";
    Refusal { code: ErrorCode::RateLimited, message: MESSAGE, retry_after_ms: Some(whole_ms(wait)) }
}
