//! One message to all others in a room: one chain a member, and one answer when each has its fate.

use std::rc::Rc;
use std::time::Instant;

use signaling_protocol::ClientId;
use signaling_protocol::server::ServerMessage;
use signaling_protocol::trunk::Fate;

use super::super::life::Life;
use super::super::outbox::Sent;
use super::super::{NodeCore, SessionKey};
use super::guest::Command;

/// A broadcast whose members have not all got their fates.
#[derive(Debug)]
pub(in crate::core) struct Tally {
    seq: u64,
    id: Option<u64>,
    left: usize,
    delivered: u64,
}

impl NodeCore {
    /// Sends a broadcast to all in `members` but its sender.
    pub(super) fn fan_out(
        &mut self,
        now: Instant,
        command: &Command,
        payload: &Rc<[u8]>,
        life: Life,
        fresh: bool,
        mut members: Vec<ClientId>,
    ) {
        let Command { at, seq, number, id, .. } = *command;
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
        self.rooms.counts.broadcasts += 1;
        session.broadcasts.insert(number, Tally { seq, id, left: members.len() + 1, delivered: 0 });
        for member in members {
            let sent = Sent::copy(number, seq, life, Rc::clone(payload), fresh);
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
