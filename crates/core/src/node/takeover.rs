//! Two sessions of one client id: the choice, and the unconfirmed messages of the other one.
//! `inputs`, `attach`, `pending_resume`, `location`, `linger`, `outcome` and `sweep` call it.

use std::time::Instant;

use signaling_protocol::CloseCode;
use signaling_wire::SessionId;
use signaling_wire::trunk::{Slot, ToEdge};

use super::attach::{IN_USE, Rejection};
use super::hold::InboundMessage;
use super::linger::Lingering;
use super::session::{Session, WaitingNewcomer};
use super::{NodeCore, SessionKey, TrunkKey};

/// Close code and reason for the socket that loses its client id.
pub(super) const REPLACED_BY_NEWER: (CloseCode, &str) =
    (CloseCode::REPLACED, "a newer connection has taken your client_id");

/// Rejects a newcomer that did not prove in time that it lives.
pub(super) const NO_ANSWER: Rejection =
    Rejection { status: 503, code: "no_answer", message: "your connection has not answered a ping; try again" };

/// Rejects a newcomer whose place another one has taken. It may be the one that lives, so it comes
/// back.
pub(super) const LATER_WAITS: Rejection =
    Rejection { status: 503, code: "replaced", message: "another connection waits for this client_id; try again" };

/// Close code and reason for a socket that did not answer a ping.
const SILENT: (CloseCode, &str) = (CloseCode::HEARTBEAT_MISSED, "no answer to a ping");

impl NodeCore {
    /// Handles a newcomer whose id has another session. With a right to the id (a token, or the
    /// holder's session as `proven`) it wins once its own client has answered a Ping: its request
    /// may be older than the holder's. It replaces a newcomer that waits. Without one the holder's
    /// socket is probed, and the newcomer waits for the answer, unless another one waits.
    pub(super) fn challenge(&mut self, now: Instant, holder: SessionKey, arrival: Session, proven: Option<SessionId>) {
        let Some(session) = self.directory.get(holder) else { return };
        let (edge, slot) = (session.trunk, session.slot);
        let proves = arrival.grant.is_some() || proven == Some(session.id);
        if proves && arrival.live {
            return self.take_over(now, holder, arrival, proven);
        }
        let (newcomer_edge, newcomer) = (arrival.trunk, arrival.slot);
        if proves {
            self.reject_contender(holder, &LATER_WAITS);
        } else if session.contender.is_some() {
            return self.reject(newcomer_edge, newcomer, &IN_USE);
        }
        let answer_time = self.settings.rules.takeover_answer;
        // The edge of a newcomer that has to answer begins later, and ends its wait.
        let until = now + if proves { 2 * answer_time } else { answer_time };
        self.directory.contend(holder, WaitingNewcomer { arrival, proven, proves, until });
        match proves {
            true => self.trunks.send(newcomer_edge, &ToEdge::Prove { slot: newcomer }),
            false => self.trunks.send(edge, &ToEdge::Probe { slot }),
        }
    }

    /// Gives an id to a newcomer with a right to it. It resumes the holder's session if `proven` is
    /// that.
    fn take_over(&mut self, now: Instant, holder: SessionKey, mut arrival: Session, proven: Option<SessionId>) {
        let Some(rank) = self.directory.get(holder).map(|session| session.rank) else { return };
        self.outrank(now, &mut arrival, rank);
        let Some(session) = self.directory.get(holder) else { return };
        let resumes = proven == Some(session.id);
        let arrival = match resumes {
            true => arrival.resuming(Lingering::of(session, now), self.counter.present(now), &self.settings.rules),
            false => arrival,
        };
        self.counts.resumed += u64::from(resumes);
        let former = self.supersede(now, holder, REPLACED_BY_NEWER);
        self.admit(now, arrival, former, resumes);
    }

    /// Handles the answer of a contended id's holder: a newcomer without a right to the id is
    /// rejected.
    pub(super) fn alive(&mut self, at: (TrunkKey, Slot)) {
        let Some(holder) = self.trunks.session_at(at) else { return };
        if self.directory.get(holder).and_then(|it| it.contender.as_ref()).is_some_and(|it| !it.proves) {
            self.reject_contender(holder, &IN_USE);
        }
    }

    /// Handles the answer of a newcomer with a right to the id: it gets the id.
    pub(super) fn proved(&mut self, now: Instant, at: (TrunkKey, Slot), client_id: &str) {
        if let Some(WaitingNewcomer { mut arrival, proven, .. }) = self.directory.take_prover(at, client_id) {
            arrival.live = true;
            self.newcomer(now, arrival, proven);
        }
    }

    fn reject_contender(&mut self, holder: SessionKey, why: &Rejection) {
        if let Some(contender) = self.directory.get_mut(holder).and_then(|session| session.contender.take()) {
            self.reject(contender.arrival.trunk, contender.arrival.slot, why);
        }
    }

    /// Has the edge of a newcomer that waited here attach it again, since the holder of its id is
    /// at another node now.
    pub(super) fn send_on(&mut self, contender: &WaitingNewcomer) {
        let Session { trunk, slot, .. } = contender.arrival;
        self.trunks.send(trunk, &ToEdge::Released { slot, state: &[] });
    }

    /// Closes the sockets of contended ids that did not answer in time. The newcomers get the ids,
    /// except that of a session with a credential.
    pub(super) fn give_up_silent_holders(&mut self, now: Instant) {
        for (holder, WaitingNewcomer { mut arrival, proves, .. }) in self.directory.take_overdue_contenders(now) {
            if proves {
                self.reject(arrival.trunk, arrival.slot, &NO_ANSWER);
                continue;
            }
            if self.directory.get(holder).is_some_and(|session| session.credential.is_some()) {
                // The session lingers, and its id with it.
                self.close(holder, SILENT.0, SILENT.1);
                self.reject(arrival.trunk, arrival.slot, &IN_USE);
                continue;
            }
            if let Some(rank) = self.directory.get(holder).map(|session| session.rank) {
                self.outrank(now, &mut arrival, rank);
            }
            let former = self.supersede(now, holder, SILENT);
            self.admit(now, arrival, former, false);
        }
    }

    /// Takes the id from its holder: closes its socket. Rejects its contender, or sends one with a
    /// right to the id on. Returns the session whose edge has to confirm before messages go down to
    /// the new one. `None`: none.
    pub(super) fn supersede(
        &mut self,
        now: Instant,
        holder: SessionKey,
        (code, reason): (CloseCode, &str),
    ) -> Option<SessionKey> {
        if let Some(contender) = self.directory.get_mut(holder)?.contender.take_if(|contender| contender.proves) {
            self.send_on(&contender);
        }
        self.reject_contender(holder, &IN_USE);
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
