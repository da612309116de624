//! Sessions come, are refused, move on, and go.

use std::time::{Duration, Instant};

use signaling_protocol::server::ServerMessage;
use signaling_protocol::trunk::{Attach, Slot, ToEdge};
use signaling_protocol::{ClientId, CloseCode, Left, SessionId, limits, resume};

use super::hold::Parcel;
use super::life::Life;
use super::session::{Arrival, Contender, Session};
use super::{NodeCore, SessionKey, TrunkKey};

/// How long it is remembered where a client was handed off to: longer than views differ.
pub(super) const DEPARTED: Duration = Duration::from_secs(30);

/// Why a session is not served.
struct Rejection {
    status: u16,
    code: &'static str,
    message: &'static str,
    retry_after_ms: Option<u32>,
}

const IN_USE: Rejection = Rejection {
    status: 409,
    code: "client_id_in_use",
    message: "another connection holds this client_id and answers; take another id, or close that connection",
    retry_after_ms: None,
};
const REPLACED: Rejection = Rejection {
    status: 409,
    code: "replaced",
    message: "a newer connection holds this client_id",
    retry_after_ms: None,
};
const BAD_ID: Rejection =
    Rejection { status: 400, code: "bad_client_id", message: "client_id is not a valid name", retry_after_ms: None };

impl NodeCore {
    pub(super) fn attach(&mut self, now: Instant, trunk: TrunkKey, attach: &Attach<'_>) {
        let Ok(client_id) = ClientId::new(attach.client_id) else { return self.reject(trunk, attach.slot, &BAD_ID) };
        let arrival = Arrival::new(attach, client_id);
        if arrival.gone {
            self.settle(trunk, &arrival);
            return;
        }
        let Some((holder_key, holder)) = self.holder(&arrival.client_id) else {
            return self.admit(now, trunk, &arrival);
        };
        let same_session = holder.id == arrival.session;
        let outlived = (holder.born, holder.id) > (arrival.born, arrival.session);
        if arrival.newcomer && !same_session {
            let proven = attach.request.resume.and_then(|token| self.proven_session(now, &arrival.client_id, token));
            if proven.is_some() {
                self.replace(now, holder_key);
                self.admit(now, trunk, &arrival);
            } else {
                self.contend(holder_key, Contender { trunk, arrival, since: now });
            }
        } else if outlived {
            self.reject(trunk, arrival.slot, &REPLACED);
        } else {
            if !same_session {
                self.replace(now, holder_key);
            }
            self.leave(now, holder_key);
            self.admit(now, trunk, &arrival);
        }
    }

    fn holder(&self, client_id: &ClientId) -> Option<(SessionKey, &Session)> {
        let key = *self.session_by_client.get(client_id)?;
        Some((key, self.sessions.get(key)?))
    }

    fn proven_session(&self, now: Instant, client: &ClientId, token: &str) -> Option<SessionId> {
        let (instant, wall) = self.settings.epoch;
        resume::verify(&self.settings.mesh_secret, client, token, wall + now.saturating_duration_since(instant))
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
        let slot = session.slot;
        if let Some(trunk) = self.trunks.get_mut(session.trunk) {
            trunk.send(&ToEdge::Probe { slot });
        }
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
            if now.saturating_duration_since(since) < limits::TAKEOVER_ANSWER {
                self.contended.push(holder);
            } else {
                self.close(holder, CloseCode::HEARTBEAT_MISSED, "no answer to a ping");
                self.leave(now, holder);
            }
        }
    }

    fn replace(&mut self, now: Instant, holder: SessionKey) {
        if let Some(contender) = self.sessions.get_mut(holder).and_then(|session| session.contender.take()) {
            self.reject(contender.trunk, contender.arrival.slot, &IN_USE);
        }
        self.close(holder, CloseCode::REPLACED, "a newer connection has taken your client_id");
        self.leave(now, holder);
    }

    fn close(&mut self, session: SessionKey, code: CloseCode, reason: &str) {
        if let Some(session) = self.sessions.get(session)
            && let Some(trunk) = self.trunks.get_mut(session.trunk)
        {
            trunk.send(&ToEdge::Close { slot: session.slot, code: code.0, reason });
        }
    }

    fn reject(&mut self, trunk: TrunkKey, slot: Slot, why: &Rejection) {
        let Rejection { status, code, message, retry_after_ms } = *why;
        self.counts.rejected += 1;
        if let Some(trunk) = self.trunks.get_mut(trunk) {
            trunk.send(&ToEdge::Rejected { slot, status, code, message, retry_after_ms });
        }
    }

    /// Serves a session whose socket is closed already until its frames have their fates.
    fn settle(&mut self, trunk_key: TrunkKey, arrival: &Arrival) {
        let Some(trunk) = self.trunks.get_mut(trunk_key) else { return };
        let session = self.sessions.insert(Session::new(trunk_key, arrival));
        trunk.session_by_slot.insert(arrival.slot, session);
        self.say_attached(session, &[]);
    }

    /// Serves the session from now on, and gives it what waits.
    fn admit(&mut self, now: Instant, trunk_key: TrunkKey, arrival: &Arrival) {
        let Some(trunk) = self.trunks.get_mut(trunk_key) else { return };
        let session = self.sessions.insert(Session::new(trunk_key, arrival));
        trunk.session_by_slot.insert(arrival.slot, session);
        self.session_by_client.insert(arrival.client_id.clone(), session);
        self.departed.remove(&arrival.client_id);
        self.stirred = true;
        self.counts.attached += 1;
        let greeting = if arrival.newcomer { self.welcome(now, arrival) } else { self.moved() };
        self.say_attached(session, &greeting);
        for parcel in self.holds.take(arrival.client_id.as_str()) {
            self.down(now, session, parcel);
        }
    }

    fn say_attached(&mut self, session: SessionKey, greeting: &[u8]) {
        let Some(session) = self.sessions.get(session) else { return };
        let hold = Left::from_duration(self.settings.hold);
        if let Some(trunk) = self.trunks.get_mut(session.trunk) {
            let (slot, id, seq) = (session.slot, session.id, session.seq);
            trunk.send(&ToEdge::Attached {
                slot,
                session: id,
                resumed: false,
                seq,
                hold,
                greeting,
                state: b"admitted",
            });
        }
    }

    fn welcome(&self, now: Instant, arrival: &Arrival) -> Vec<u8> {
        let (instant, wall) = self.settings.epoch;
        let expiry = wall + now.saturating_duration_since(instant) + self.settings.resume;
        let token = resume::issue(&self.settings.mesh_secret, &arrival.client_id, arrival.session, expiry);
        let message = ServerMessage::Welcome {
            client_id: arrival.client_id.as_str(),
            resume: &token,
            resumed: false,
            heartbeat_ms: u64::try_from(limits::HEARTBEAT.as_millis()).unwrap_or(u64::MAX),
            max_message_bytes: self.settings.max_message_bytes,
            ice_servers: &[],
            node: self.settings.reveal_nodes.then_some(self.settings.id.as_str()),
        };
        message.to_json()
    }

    /// What a client is told that comes from another node, if nodes are revealed.
    fn moved(&self) -> Vec<u8> {
        if !self.settings.reveal_nodes {
            return Vec::new();
        }
        ServerMessage::Moved { node: self.settings.id.as_str() }.to_json()
    }

    pub(super) fn detach(&mut self, now: Instant, at: (TrunkKey, Slot)) {
        if let Some(key) = self.session_at(at) {
            if let Some(session) = self.sessions.get_mut(key) {
                session.detached = true;
            }
            return self.leave(now, key);
        }
        drop(self.withdraw(at));
    }

    /// Ends a newcomer's wait for a contended id.
    fn withdraw(&mut self, at: (TrunkKey, Slot)) -> Option<Box<Contender>> {
        let waits = |session: &Session| {
            session.contender.as_ref().is_some_and(|contender| (contender.trunk, contender.arrival.slot) == at)
        };
        let holder = self.contended.iter().copied().find(|holder| self.sessions.get(*holder).is_some_and(waits))?;
        self.sessions.get_mut(holder)?.contender.take()
    }

    /// The session has no socket here any more. What it is owed waits; what it sent runs on.
    pub(super) fn leave(&mut self, now: Instant, key: SessionKey) {
        let Some(session) = self.sessions.get_mut(key) else { return };
        let client_id = session.client_id.clone();
        if !std::mem::replace(&mut session.gone, true) {
            self.counts.detached += 1;
        }
        // What went down may have been written: it waits for an answer, even if it may not wait for the client.
        let asked = |parcel: Parcel| Parcel { life: Life { waits: true, ..parcel.life }, ..parcel };
        let mut owed: Vec<_> = session.take_unconfirmed().map(asked).collect();
        if std::mem::take(&mut session.has_backlog) {
            owed.extend(self.holds.take(client_id.as_str()));
        }
        let contender = session.contender.take();
        if self.session_by_client.get(&client_id) == Some(&key) {
            self.session_by_client.remove(&client_id);
            self.stirred = true;
        }
        for parcel in owed {
            self.place(now, &client_id, parcel);
        }
        if let Some(contender) = contender {
            self.admit(now, contender.trunk, &contender.arrival);
        }
        self.remove_if_done(key);
    }

    /// Forgets a session that is gone, of which nothing more can come, and that has no frame without a fate.
    pub(super) fn remove_if_done(&mut self, key: SessionKey) {
        let Some(session) = self.sessions.get(key) else { return };
        if !session.gone || !session.detached || !session.chain_by_recipient.is_empty() || session.fates.is_some() {
            return;
        }
        if let Some(trunk) = self.trunks.get_mut(session.trunk) {
            trunk.session_by_slot.remove(&session.slot);
        }
        self.sessions.remove(key);
    }

    /// The session moves to another node: what it is owed goes there, its outbox starts afresh there.
    pub(super) fn release(&mut self, now: Instant, at: (TrunkKey, Slot), to: &str) {
        let Some(key) = self.session_at(at) else {
            // It was never served here: it comes to the next node as it came to this one.
            if self.withdraw(at).is_some()
                && let Some(trunk) = self.trunks.get_mut(at.0)
            {
                trunk.send(&ToEdge::Released { slot: at.1, state: &[] });
            }
            return;
        };
        let Some(session) = self.sessions.get_mut(key) else { return };
        let client_id = session.client_id.clone();
        let chains: Vec<_> = session.chain_by_recipient.drain().map(|(_, chain)| chain).collect();
        chains.into_iter().for_each(|chain| drop(self.chains.remove(chain)));
        if let Some(&peer) = self.peer_by_id.get(to) {
            self.departed.insert(client_id.clone(), (peer, now + DEPARTED));
        }
        if let Some(session) = self.sessions.get_mut(key) {
            session.fates = None;
        }
        self.leave(now, key);
        if let Some(trunk) = self.trunks.get_mut(at.0) {
            trunk.session_by_slot.remove(&at.1);
            trunk.send(&ToEdge::Released { slot: at.1, state: b"admitted" });
        }
        self.sessions.remove(key);
    }
}
