//! Two sessions of one id: who gets it, and what becomes of what went down to the other.

use std::time::Instant;

use signaling_protocol::CloseCode;
use signaling_wire::trunk::{Slot, ToEdge};

use super::attach::IN_USE;
use super::hold::InboundMessage;
use super::life::Deadline;
use super::session::{AttachInfo, Contender, Session};
use super::{NodeCore, SessionKey, TrunkKey};

/// What an open socket is told that has to go.
pub(super) const REPLACED_BY_NEWER: (CloseCode, &str) =
    (CloseCode::REPLACED, "a newer connection has taken your client_id");

impl NodeCore {
    /// A newcomer wants an id that another session holds. If it has proven by a token that the id is its own it gets it at once.
    pub(super) fn challenge(&mut self, now: Instant, holder: SessionKey, trunk: TrunkKey, arrival: AttachInfo) {
        if arrival.grant.is_none() {
            return self.contend(holder, Contender { trunk, arrival, since: now });
        }
        let former = self.supersede(now, holder, REPLACED_BY_NEWER);
        self.admit(now, trunk, &arrival, former, false);
    }

    /// Two want one id, and the newcomer has no proof: the holder's socket is asked for a sign of life.
    fn contend(&mut self, holder: SessionKey, contender: Contender) {
        let (trunk, slot) = (contender.trunk, contender.arrival.slot);
        let Some(session) = self.sessions.get_mut(holder) else { return };
        if session.contender.is_some() {
            return self.reject(trunk, slot, &IN_USE);
        }
        session.contender = Some(Box::new(contender));
        self.contended.push(holder);
        self.trunks.send(session.trunk, &ToEdge::Probe { slot: session.slot });
    }

    /// The holder of a contended id lives.
    pub(super) fn alive(&mut self, at: (TrunkKey, Slot)) {
        let Some(session) = self.session_at(at).and_then(|key| self.sessions.get_mut(key)) else { return };
        if let Some(contender) = session.contender.take() {
            self.reject(contender.trunk, contender.arrival.slot, &IN_USE);
        }
    }

    /// The holder of a contended id has said nothing in time: the newcomer gets it.
    pub(super) fn give_up_silent_holders(&mut self, now: Instant) {
        for holder in std::mem::take(&mut self.contended) {
            let contender = self.sessions.get(holder).and_then(|session| session.contender.as_ref());
            let Some(since) = contender.map(|contender| contender.since) else { continue };
            if now.saturating_duration_since(since) < self.settings.rules.takeover_answer {
                self.contended.push(holder);
            } else if let Some(contender) = self.sessions.get_mut(holder).and_then(|session| session.contender.take()) {
                let former = self.supersede(now, holder, (CloseCode::HEARTBEAT_MISSED, "no answer to a ping"));
                self.admit(now, contender.trunk, &contender.arrival, former, false);
            }
        }
    }

    /// Ends a newcomer's wait for a contended id.
    pub(super) fn withdraw(&mut self, at: (TrunkKey, Slot)) -> Option<Box<Contender>> {
        let waits = |session: &Session| {
            session.contender.as_ref().is_some_and(|contender| (contender.trunk, contender.arrival.slot) == at)
        };
        let holder = self.contended.iter().copied().find(|holder| self.sessions.get(*holder).is_some_and(waits))?;
        self.sessions.get_mut(holder)?.contender.take()
    }

    /// Another socket takes the id. What went down to the old one and is not confirmed waits for that one's last word,
    /// and so does the new one: it is returned.
    pub(super) fn supersede(
        &mut self,
        now: Instant,
        holder: SessionKey,
        (code, reason): (CloseCode, &str),
    ) -> Option<SessionKey> {
        if let Some(contender) = self.sessions.get_mut(holder).and_then(|session| session.contender.take()) {
            self.reject(contender.trunk, contender.arrival.slot, &IN_USE);
        }
        self.close(holder, code, reason);
        let session = self.sessions.get_mut(holder)?;
        let earlier = session.waits_for.take();
        if !session.has_unconfirmed() || session.detached {
            self.leave(now, holder);
            return earlier;
        }
        session.gone = true;
        session.has_backlog = false;
        let client_id = session.client_id.clone();
        let id = session.id;
        self.counts.detached += 1;
        self.session_by_client.remove(&client_id);
        self.has_gone(&client_id, id);
        self.untell(holder);
        self.parting.push((holder, now + self.settings.rules.last_confirm));
        Some(holder)
    }

    /// The old socket's edge has said its last word, or will not: what it did not confirm is for the new one.
    pub(super) fn parted(&mut self, now: Instant, former: SessionKey) {
        let waiting = self.parting.len();
        self.parting.retain(|(key, _)| *key != former);
        if self.parting.len() == waiting {
            return;
        }
        let Some(session) = self.sessions.get_mut(former) else { return };
        let (client_id, owed) = (session.client_id.clone(), owed_by(session));
        let heir = self.session_by_client.get(&client_id).copied();
        let heir = heir.filter(|heir| self.sessions.get(*heir).is_some_and(|heir| heir.waits_for == Some(former)));
        for parcel in owed {
            match heir {
                Some(_) if parcel.life.is_over(now) => self.counts.dropped += 1,
                Some(_) => self.counts.dropped += u64::from(!self.holds.push(client_id.as_str(), parcel)),
                None => self.place(now, &client_id, parcel),
            }
        }
        if heir.is_none() {
            self.replace_held(now, &client_id);
            self.stirred = true;
        }
        if let Some(heir) = heir
            && let Some(session) = self.sessions.get_mut(heir)
        {
            session.waits_for = None;
            session.has_backlog = true;
            self.refill(now, heir);
        }
    }

    /// Whether a former socket of the client, here, may still say what it wrote.
    pub(super) fn is_parting(&self, client: &str) -> bool {
        let is_it =
            |key: &SessionKey| self.sessions.get(*key).is_some_and(|former| former.client_id.as_str() == client);
        self.parting.iter().any(|(former, _)| is_it(former))
    }

    pub(super) fn give_up_partings(&mut self, now: Instant) {
        let over: Vec<_> = self.parting.iter().filter(|(_, until)| *until <= now).map(|(key, _)| *key).collect();
        over.into_iter().for_each(|former| self.parted(now, former));
    }
}

/// What went down and was not confirmed. Unless its edge has said its last word it may have been written: it waits for an
/// answer, even if it may not wait for the client, and this node does not know that it was never delivered.
pub(super) fn owed_by(session: &mut Session) -> Vec<InboundMessage> {
    let unsure = !session.said_last;
    let asked = |parcel: InboundMessage| {
        let life = Deadline { waits: parcel.life.waits || unsure, ..parcel.life };
        InboundMessage { life, shared: parcel.shared || unsure, ..parcel }
    };
    session.take_unconfirmed().map(asked).collect()
}
