//! Two sessions of one client id: the choice, and the unconfirmed messages of the other one.
//! `inputs`, `attach`, `pending_resume`, `location`, `linger`, `outcome` and `sweep` call it.

use std::time::Instant;

use signaling_protocol::CloseCode;
use signaling_wire::trunk::{Slot, ToEdge};

use super::attach::IN_USE;
use super::hold::InboundMessage;
use super::session::{Contender, Session};
use super::{NodeCore, SessionKey, TrunkKey};

/// Close code and reason for the socket that loses its client id.
pub(super) const REPLACED_BY_NEWER: (CloseCode, &str) =
    (CloseCode::REPLACED, "a newer connection has taken your client_id");

/// Close code and reason for a socket that did not answer a ping.
const SILENT: (CloseCode, &str) = (CloseCode::HEARTBEAT_MISSED, "no answer to a ping");

impl NodeCore {
    /// Handles a newcomer whose id has another session. With a token for the id it wins at once.
    /// Otherwise the holder's socket is probed, and the newcomer waits for the answer. A second
    /// newcomer is rejected meanwhile.
    pub(super) fn challenge(&mut self, now: Instant, holder: SessionKey, arrival: Session) {
        if arrival.grant.is_some() {
            let former = self.supersede(now, holder, REPLACED_BY_NEWER);
            return self.admit(now, arrival, former, false);
        }
        let Some(session) = self.directory.get(holder) else { return };
        let (edge, slot) = (session.trunk, session.slot);
        match self.directory.contend(holder, Box::new(Contender { arrival, since: now })) {
            Ok(()) => self.trunks.send(edge, &ToEdge::Probe { slot }),
            Err(rejected) => self.reject(rejected.arrival.trunk, rejected.arrival.slot, &IN_USE),
        }
    }

    /// Handles the answer of a contended id's holder: the newcomer, if it still waits, is rejected.
    pub(super) fn alive(&mut self, at: (TrunkKey, Slot)) {
        if let Some(holder) = self.trunks.session_at(at) {
            self.reject_contender(holder);
        }
    }

    fn reject_contender(&mut self, holder: SessionKey) {
        if let Some(contender) = self.directory.get_mut(holder).and_then(|session| session.contender.take()) {
            self.reject(contender.arrival.trunk, contender.arrival.slot, &IN_USE);
        }
    }

    /// Closes the sockets of contended ids that did not answer in time. The newcomers get the ids,
    /// except that of a session with a credential.
    pub(super) fn give_up_silent_holders(&mut self, now: Instant) {
        let answer_time = self.settings.rules.takeover_answer;
        let is_overdue = |since: Instant| now.saturating_duration_since(since) >= answer_time;
        for (holder, Contender { arrival, .. }) in self.directory.take_overdue_contenders(is_overdue) {
            if self.directory.get(holder).is_some_and(|session| session.credential.is_some()) {
                // The session lingers, and its id with it.
                self.close(holder, SILENT.0, SILENT.1);
                self.reject(arrival.trunk, arrival.slot, &IN_USE);
                continue;
            }
            let former = self.supersede(now, holder, SILENT);
            self.admit(now, arrival, former, false);
        }
    }

    /// Takes the id from its holder: closes its socket and rejects its contender. Returns the
    /// session whose edge has to confirm before messages go down to the new one. `None`: none.
    pub(super) fn supersede(
        &mut self,
        now: Instant,
        holder: SessionKey,
        (code, reason): (CloseCode, &str),
    ) -> Option<SessionKey> {
        self.reject_contender(holder);
        self.close(holder, code, reason);
        let session = self.directory.get_mut(holder)?;
        let earlier = session.waits_for.take();
        if !session.has_unconfirmed() || session.detached {
            self.leave(now, holder);
            return earlier;
        }
        session.socket_ended = true;
        session.has_backlog = false;
        self.directory.detach(holder);
        self.withdraw_from_owners(holder);
        self.directory.supersede(holder, now + self.settings.rules.final_confirm_timeout);
        Some(holder)
    }

    /// Finishes a superseded session and moves its unconfirmed messages to its successor, or routes
    /// them again without one. Ignores other sessions.
    pub(super) fn finish_superseded(&mut self, now: Instant, former: SessionKey) {
        if !self.directory.end_superseded(former) {
            return;
        }
        let successor = self.directory.successor(former);
        let Some(session) = self.directory.get_mut(former) else { return };
        let (client_id, owed) = (session.client_id.clone(), take_owed(session));
        for message in owed {
            match successor {
                Some(_) if message.sent.deadline.is_over(now) => self.counts.dropped += 1,
                Some(_) => {
                    self.counts.dropped += u64::from(!self.custody.holds.push(client_id.as_str(), message));
                }
                None => self.deliver_or_hold(now, client_id.as_str(), message),
            }
        }
        if let Some(successor) = successor
            && let Some(session) = self.directory.get_mut(successor)
        {
            session.waits_for = None;
            session.has_backlog = true;
            self.refill(now, successor);
        } else {
            self.replace_held(now, &client_id);
            self.custody.routes_dirty = true;
        }
    }

    /// Finishes the superseded sessions whose edges did not confirm in time.
    pub(super) fn finish_overdue_superseded(&mut self, now: Instant) {
        for former in self.directory.overdue_superseded(now) {
            self.finish_superseded(now, former);
        }
    }
}

/// Takes the unconfirmed messages, reserved for the session's credential. Unless the edge has
/// reported the end, it may have written them. They are then held even with `ttl_ms` 0, and this
/// node never reports them as expired.
pub(super) fn take_owed(session: &mut Session) -> Vec<InboundMessage> {
    let unsure = !session.edge_reported_end;
    let credential = session.credential.clone();
    let asked = move |mut message: InboundMessage| {
        message.reserved_for.clone_from(&credential);
        message.sent.deadline.may_hold |= unsure;
        message.may_have_copies |= unsure;
        message
    };
    session.take_unconfirmed().map(asked).collect()
}
