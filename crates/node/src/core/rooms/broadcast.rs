//! One message to all others in a room: one chain a member, and one answer when each has its fate.

use std::rc::Rc;
use std::time::Instant;

use signaling_edge::core::{Bucket, whole_ms};
use signaling_protocol::server::ServerMessage;
use signaling_protocol::trunk::Fate;
use signaling_protocol::{ErrorCode, RoomName, SessionId};
use signaling_rooms::{Op, Outcome};

use super::super::outbox::Sent;
use super::super::{NodeCore, SessionKey};
use super::command::Refusal;
use super::guest::{Ask, Command};
use super::task::{RoomTask, Urgency};

/// A broadcast whose members have not all got their fates.
#[derive(Debug)]
pub(in crate::core) struct Tally {
    seq: u64,
    id: Option<u64>,
    left: usize,
    delivered: u64,
}

const TOO_FAST: &str = "you send to more members of rooms than you may: wait, or send to fewer";

impl NodeCore {
    /// The store has told a page of those whom a broadcast is for.
    pub(super) fn members_found(
        &mut self,
        now: Instant,
        session: SessionId,
        room: &RoomName,
        command: &Command,
        outcome: Outcome,
    ) {
        let Outcome { version, changes, line_moved, members, more, .. } = outcome;
        let Some(guest) = self.rooms.guests.get_mut(&session) else { return };
        guest.found.extend(members.into_iter().map(|member| member.client));
        let (last, copies) = (guest.found.last().cloned(), guest.found.len().saturating_sub(1));
        if let Err(refusal) = self.weigh(now, command, copies) {
            self.finish(session, &[], Some(&refusal));
        } else if more && last.is_some() {
            let task = RoomTask::new(command.purpose(session), room.clone(), Op::List { after: last });
            self.rooms.ask(Urgency::Urgent, task);
        } else {
            self.fan_out(now, session);
            self.command_done(command.at);
            self.next_command(session);
        }
        self.room_changed(now, room, version, changes, line_moved);
    }

    /// Whether a broadcast to so many members, or more, may be sent now.
    fn weigh(&self, now: Instant, command: &Command, copies: usize) -> Result<(), Refusal> {
        let Ask::Broadcast { again: false, .. } = command.ask else { return Ok(()) };
        let Some((rate, session)) = self.rooms.settings.copies.zip(self.sessions.get(command.at)) else {
            return Ok(());
        };
        if session.broadcasts.contains_key(&command.number) {
            return Ok(());
        }
        match session.copies.and_then(|bucket| bucket.wait(now, rate, amount(copies))) {
            None => Ok(()),
            Some(wait) => {
                let retry_after_ms = Some(whole_ms(wait));
                Err(Refusal { code: ErrorCode::RateLimited, message: TOO_FAST, retry_after_ms })
            }
        }
    }

    /// Sends the broadcast that is the session's first command to all that were found but its sender.
    fn fan_out(&mut self, now: Instant, session: SessionId) {
        let Some(guest) = self.rooms.guests.get_mut(&session) else { return };
        let mut members = std::mem::take(&mut guest.found);
        let Some(Command { at, seq, number, id, ask, .. }) = guest.commands.pop_front() else { return };
        let Ask::Broadcast { payload, life, fresh, .. } = ask else { return };
        let Some(session) = self.sessions.get_mut(at) else { return };
        if let Some(under_way) = session.broadcasts.get_mut(&number) {
            // The client says it again: the fate goes to the frame that says it last.
            let earlier = std::mem::replace(&mut under_way.seq, seq);
            return self.reply(at, earlier, Fate::Done, &[]);
        }
        // One that has left and come back while pages were read is on two of them.
        members.sort_unstable();
        members.dedup();
        members.retain(|member| *member != session.client_id);
        if let Some(rate) = self.rooms.settings.copies {
            session.copies.get_or_insert(Bucket::full(now)).pay(now, rate, amount(members.len()));
        }
        self.rooms.counts.broadcasts += 1;
        session.broadcasts.insert(number, Tally { seq, id, left: members.len() + 1, delivered: 0 });
        for member in members {
            let sent = Sent::copy(number, seq, life, Rc::clone(&payload), fresh);
            if !self.take_custody(now, at, member.as_str(), sent, fresh) {
                self.one_of_many_ended(at, number, false);
            }
        }
        // The sender itself, who has it already: an answer does not come before all are on their way.
        self.tally(at, number);
    }

    /// One member's fate is known.
    pub(in crate::core) fn one_of_many_ended(&mut self, at: SessionKey, number: u64, written: bool) {
        self.counts.delivered += u64::from(written);
        self.counts.unavailable += u64::from(!written);
        if let Some(tally) = self.sessions.get_mut(at).and_then(|session| session.broadcasts.get_mut(&number)) {
            tally.delivered += u64::from(written);
        }
        self.tally(at, number);
    }

    fn tally(&mut self, at: SessionKey, number: u64) {
        let Some(session) = self.sessions.get_mut(at) else { return };
        let Some(tally) = session.broadcasts.get_mut(&number) else { return };
        tally.left = tally.left.saturating_sub(1);
        if tally.left > 0 {
            return;
        }
        let Tally { seq, id, delivered, .. } = *tally;
        session.broadcasts.remove(&number);
        let delivered = Some(delivered);
        let ack = id.map(|id| ServerMessage::Ack { id, delivered }.to_json()).unwrap_or_default();
        self.reply(at, seq, Fate::Done, &ack);
    }
}

fn amount(copies: usize) -> u32 {
    u32::try_from(copies).unwrap_or(u32::MAX)
}
