//! Attach, resume, release and detach of sessions, by frames of edges that `inputs` passes on.

use std::rc::Rc;
use std::time::{Duration, Instant};

use signaling_protocol::server::ServerMessage;
use signaling_protocol::{ClientId, CloseCode};
use signaling_wire::forward::Attachment;
use signaling_wire::grant::Grant;
use signaling_wire::trunk::{Attach, DetachReason, Slot, ToEdge};
use signaling_wire::{Rank, RateDebts, RemainingTtl, SessionId, resume};

use super::linger::Lingering;
use super::session::{Session, WaitingNewcomer};
use super::takeover::{REPLACED_BY_NEWER, take_owed};
use super::{NodeCore, SessionKey, TrunkKey};

/// Validity of a resume token. The session itself can be resumed for a shorter time.
const TOKEN_LIFE: Duration = Duration::from_secs(7 * 24 * 3600);

/// Reason why the node does not serve a session.
pub(super) struct Rejection {
    pub(super) status: u16,
    pub(super) code: &'static str,
    pub(super) message: &'static str,
}

/// Rejects a newcomer while the present socket of its id answers, or its session lingers.
pub(super) const IN_USE: Rejection = Rejection {
    status: 409,
    code: "client_id_in_use",
    message: "another connection holds this client_id and answers; take another id, or close that connection",
};
const REPLACED: Rejection =
    Rejection { status: 409, code: "replaced", message: "a newer connection holds this client_id" };
const BAD_ID: Rejection = Rejection { status: 400, code: "bad_client_id", message: "client_id is not a valid name" };

/// Returns `true` if an attachment is of a later socket of the client.
fn is_later_socket(known: Attachment, arrived: Attachment) -> bool {
    !known.is_same_socket(arrived) && known.is_later_than(arrived)
}

impl NodeCore {
    /// Handles an `Attach`: admits, resumes or rejects the session, or lets it wait for its id or
    /// for its earlier session. A session whose socket has ended only gets its outcomes.
    pub(super) fn attach(&mut self, now: Instant, trunk: TrunkKey, attach: &Attach<'_>, grant: Option<Grant>) {
        let Ok(client_id) = ClientId::new(attach.client_id) else { return self.reject(trunk, attach.slot, &BAD_ID) };
        let mut arrival = Session::new(trunk, attach, client_id, grant.map(Rc::new));
        if arrival.newcomer {
            // It may wait for long, and is no later than a socket that comes meanwhile.
            arrival.rank = Rank(self.counter.next(now));
        }
        if arrival.socket_ended {
            return self.settle(now, arrival, attach.cause);
        }
        let proven = attach.request.resume.filter(|_| arrival.newcomer);
        let proven = proven.and_then(|token| self.proven_session(now, &arrival.client_id, token));
        let by_credential = || self.directory.session_of(&arrival.client_id, arrival.credential.as_deref()?);
        let proven = proven.or_else(by_credential);
        let holder = self.directory.holder(arrival.client_id.as_str());
        let Some((key, held)) = holder
            .filter(|(_, holder)| !arrival.newcomer || (holder.id == arrival.id && proven != Some(holder.id)))
            .map(|(key, holder)| (key, holder.attachment()))
        else {
            return self.newcomer(now, arrival, proven);
        };
        self.directory.lingering.remove(&arrival.client_id);
        if held.is_later_than(arrival.attachment()) {
            // A later socket has the client, or this is an abandoned `Attach` of the same one.
            self.reject(trunk, arrival.slot, &REPLACED);
        } else if held.is_same_socket(arrival.attachment()) {
            // The socket is the same, so its edge keeps what it wrote.
            arrival.rank = arrival.rank.max(held.rank);
            let contender = self.directory.get_mut(key).and_then(|session| session.contender.take());
            let client_id = arrival.client_id.clone();
            self.leave(now, key);
            self.admit(now, arrival, None, false);
            if let Some(contender) = contender
                && let Some(holder) = self.directory.attached(client_id.as_str())
            {
                self.challenge(now, holder, contender.arrival, contender.proven);
            }
        } else {
            let former = self.supersede(now, key, REPLACED_BY_NEWER);
            self.admit(now, arrival, former, false);
        }
    }

    /// Admits, resumes or rejects a newcomer, or a moved session whose id has no socket here. Lets
    /// a newcomer wait if another socket has its id, or may have it at another node. `proven` is
    /// the session of its resume token or credential.
    pub(super) fn newcomer(&mut self, now: Instant, arrival: Session, proven: Option<SessionId>) {
        let lingering = self.directory.lingering.remove(&arrival.client_id);
        let client = arrival.client_id.as_str();
        if let Some(holder) = self.directory.attached(client) {
            return self.challenge(now, holder, arrival, proven);
        }
        let has_right = arrival.newcomer && (proven.is_some() || arrival.grant.is_some() && !arrival.live);
        if lingering.is_none()
            && has_right
            && (proven.is_some() || self.directory.location(client, &self.peers).is_some())
        {
            return self.await_session(now, arrival, proven);
        }
        self.arrive(now, arrival, proven, lingering);
    }

    /// Stores the grant of a client's new token, which may end seats in rooms.
    pub(super) fn granted(&mut self, now: Instant, at: (TrunkKey, Slot), grant: Grant) {
        let Some(session) = self.trunks.session_at(at).and_then(|key| self.directory.get_mut(key)) else { return };
        session.grant = Some(Rc::new(grant));
        let id = session.id;
        self.with_rooms(now, |rooms| rooms.leave_forbidden_rooms(id));
    }

    /// Admits or rejects a client whose id has no attached session. `proven` is the session of its
    /// resume token or credential, `lingering` the one at this node. A newcomer resumes `lingering`
    /// if they are equal. Another newcomer is rejected if `lingering` has a credential, and so is a
    /// moved session with an older socket. In all other cases `lingering` ends.
    pub(super) fn arrive(
        &mut self,
        now: Instant,
        mut arrival: Session,
        proven: Option<SessionId>,
        lingering: Option<Lingering>,
    ) {
        let Some(known) = lingering else { return self.admit(now, arrival, None, false) };
        self.outrank(now, &mut arrival, known.attachment.rank);
        if arrival.newcomer && proven == Some(known.attachment.session) {
            self.counts.resumed += 1;
            let debts = known.debts_at(now, self.settings.resume);
            let counter = self.counter.present(now);
            let arrival = arrival.resuming(Lingering { debts, ..known }, counter, &self.settings.rules);
            self.admit(now, arrival, None, true);
        } else if !arrival.newcomer && is_later_socket(known.attachment, arrival.attachment()) {
            self.directory.lingering.insert(arrival.client_id, known);
            self.reject(arrival.trunk, arrival.slot, &REPLACED);
        } else if known.attachment.session == arrival.id {
            // The state of an edge that lost its trunk has no delivered ids.
            arrival.delivered.merge(&known.delivered);
            if known.attachment.is_same_socket(arrival.attachment()) {
                arrival.rank = arrival.rank.max(known.attachment.rank);
            }
            self.admit(now, arrival, None, false);
        } else if arrival.newcomer && known.credential.is_some() {
            self.directory.lingering.insert(arrival.client_id, known);
            self.reject(arrival.trunk, arrival.slot, &IN_USE);
        } else {
            self.admit(now, arrival, None, false);
        }
    }

    fn proven_session(&self, now: Instant, client: &ClientId, token: &str) -> Option<SessionId> {
        let now = self.wall(now);
        let mut keys = std::iter::once(&self.settings.resume_key).chain(&self.other_resume_keys);
        keys.find_map(|key| resume::verify(key, client, token, now))
    }

    /// Requests the close of a session's socket from its edge.
    pub(super) fn close(&mut self, session: SessionKey, code: CloseCode, reason: &str) {
        if let Some(session) = self.directory.get(session) {
            self.trunks.send(session.trunk, &ToEdge::Close { slot: session.slot, code: code.0, reason });
        }
    }

    /// Answers an `Attach` with `Rejected`.
    pub(super) fn reject(&mut self, trunk: TrunkKey, slot: Slot, why: &Rejection) {
        let Rejection { status, code, message } = *why;
        self.trunks.send(trunk, &ToEdge::Rejected { slot, status, code, message, retry_after_ms: None });
    }

    /// Serves a session whose socket is closed already, until its frames have their outcomes.
    fn settle(&mut self, now: Instant, session: Session, cause: Option<DetachReason>) {
        let at = (session.trunk, session.slot);
        if !self.trunks.contains(at.0) {
            return;
        }
        let (client_id, ends_with_socket) = (session.client_id.clone(), session.ends_with_socket);
        let lingering = Lingering::of(&session, now + self.settings.resume);
        let key = self.directory.sessions.insert(session);
        self.trunks.bind(at, key);
        if cause != Some(DetachReason::Left) {
            self.attach_seats(now, key);
        }
        self.send_attached(key, false, &[]);
        if ends_with_socket {
            self.with_rooms(now, |rooms| rooms.queue_leave_all(key));
        } else if cause != Some(DetachReason::Left) {
            self.store_lingering(now, &client_id, lingering);
        }
    }

    /// Attaches a session, unless its trunk is lost. Held messages go down after the final confirm
    /// of the `former` session, or at once without one. `resumed` is for the edge and the client.
    pub(super) fn admit(&mut self, now: Instant, mut session: Session, former: Option<SessionKey>, resumed: bool) {
        let at = (session.trunk, session.slot);
        if !self.trunks.contains(at.0) {
            return;
        }
        session.waits_for = former;
        let (client_id, id) = (session.client_id.clone(), session.id);
        let greeting = if session.newcomer { self.welcome(now, &session, resumed) } else { self.moved() };
        let key = self.directory.attach(session);
        self.trunks.bind(at, key);
        self.attach_seats(now, key);
        self.custody.routes_dirty = true;
        self.counts.attached += 1;
        self.send_attached(key, resumed, &greeting);
        self.with_rooms(now, |rooms| rooms.leave_forbidden_rooms(id));
        for message in self.custody.holds.take(client_id.as_str()) {
            self.down(now, key, message);
        }
        self.send_location_to_owners(key);
    }

    /// Stores the seats of a session that attaches, from the state of its former node.
    fn attach_seats(&mut self, now: Instant, key: SessionKey) {
        let state = self.directory.get_mut(key).map(|session| std::mem::take(&mut session.state)).unwrap_or_default();
        self.with_rooms(now, |rooms| rooms.attach_seats(key, &state));
    }

    fn send_attached(&mut self, session: SessionKey, resumed: bool, greeting: &[u8]) {
        let Some(session) = self.directory.get(session) else { return };
        let state = self.rooms.state_of(session.id, session.resumed, Vec::new(), false);
        let hold = RemainingTtl::from_duration(self.settings.hold);
        let Session { slot, id, rank, seq, debts, .. } = *session;
        let attached = ToEdge::Attached { slot, session: id, rank, resumed, seq, debts, hold, greeting, state: &state };
        self.trunks.send(session.trunk, &attached);
    }

    fn welcome(&self, now: Instant, session: &Session, resumed: bool) -> Vec<u8> {
        let wall = self.wall(now);
        let expiry = wall + TOKEN_LIFE;
        let (ice_servers, ice_valid_ms) = self.ice.for_client(&session.client_id, wall);
        let token = resume::issue(&self.settings.resume_key, &session.client_id, session.id, expiry);
        let message = ServerMessage::Welcome {
            client_id: session.client_id.as_str(),
            resume: &token,
            resumed,
            heartbeat_ms: u64::try_from(self.settings.rules.heartbeat.as_millis()).unwrap_or(u64::MAX),
            max_message_bytes: self.settings.max_message_bytes,
            ice_servers: &ice_servers,
            ice_valid_ms,
            node: self.settings.reveal_nodes.then_some(self.settings.id.as_str()),
        };
        message.to_json()
    }

    /// Returns the `moved` message for a client from another node; empty if nodes are not revealed.
    fn moved(&self) -> Vec<u8> {
        if !self.settings.reveal_nodes {
            return Vec::new();
        }
        ServerMessage::Moved { node: self.settings.id.as_str() }.to_json()
    }

    /// Handles a `Detach`: ends the session of the slot, or the wait of its newcomer.
    pub(super) fn detach(&mut self, now: Instant, at: (TrunkKey, Slot), (cause, debts): (DetachReason, RateDebts)) {
        let Some(key) = self.trunks.session_at(at) else {
            self.directory.drop_newcomers(|trunk, slot| (trunk, slot) == at);
            return;
        };
        if let Some(session) = self.directory.get_mut(key) {
            session.detached = true;
            session.edge_reported_end = true;
            session.debts = debts;
        }
        self.lose(now, key, cause);
    }

    /// Ends a session whose socket is closed, or whose edge is lost. It lingers unless the cause is
    /// `Left`, its edge reported the end of a socket that it ends with, or there is no room.
    pub(super) fn lose(&mut self, now: Instant, key: SessionKey, cause: DetachReason) {
        let ends = |session: &Session| session.ends_with_socket && session.edge_reported_end;
        if cause == DetachReason::Left || self.directory.get(key).is_some_and(ends) {
            self.with_rooms(now, |rooms| rooms.queue_leave_all(key));
        } else {
            self.linger(now, key);
        }
        self.leave(now, key);
    }

    /// Ends the session's socket. Reroutes or holds messages owed to it; its own stay in custody.
    /// Its contender is admitted.
    pub(super) fn leave(&mut self, now: Instant, key: SessionKey) {
        self.finish_superseded(now, key);
        self.withdraw_from_owners(key);
        let Some(session) = self.directory.get_mut(key) else { return };
        let (client_id, id, reported_end) = (session.client_id.clone(), session.id, session.edge_reported_end);
        session.socket_ended = true;
        let (mut owed, credential) = (take_owed(session), session.credential.clone());
        if std::mem::take(&mut session.has_backlog) {
            let mut backlog = self.custody.holds.take(client_id.as_str());
            backlog.iter_mut().for_each(|message| message.reserved_for.clone_from(&credential));
            owed.extend(backlog);
        }
        let contender = session.contender.take();
        if self.directory.detach(key) {
            self.custody.routes_dirty = true;
        }
        for message in owed {
            self.deliver_or_hold(now, client_id.as_str(), message);
        }
        self.rooms.end_delay(now, id);
        if let Some(WaitingNewcomer { arrival, proven, proves, .. }) = contender.map(|contender| *contender) {
            match self.directory.lingering.remove(&client_id) {
                // Its edge is lost, which does not end the socket.
                lingering if proves && !reported_end => {
                    self.directory.lingering.extend(lingering.map(|lingering| (client_id, lingering)));
                    self.await_session(now, arrival, proven);
                }
                lingering => self.arrive(now, arrival, proven, lingering),
            }
        }
        self.remove_if_done(key);
    }

    /// Removes a session without a socket after its last frame, once all frames have outcomes.
    pub(super) fn remove_if_done(&mut self, key: SessionKey) {
        let Some(session) = self.directory.get(key) else { return };
        if !session.socket_ended || !session.detached || !session.is_settled() || self.rooms.unanswered(key) != (0, 0) {
            return;
        }
        self.trunks.unbind((session.trunk, session.slot));
        self.directory.sessions.remove(key);
    }

    /// Hands a session off to another node, with the messages owed to it. Its queues restart there.
    pub(super) fn release(&mut self, now: Instant, at: (TrunkKey, Slot), to: &str) {
        let Some(key) = self.trunks.session_at(at) else {
            // It waited here and was not served. It attaches to the next node as it did here.
            if self.directory.drop_newcomers(|trunk, slot| (trunk, slot) == at) {
                self.trunks.send(at.0, &ToEdge::Released { slot: at.1, state: &[] });
            }
            return;
        };
        let Some(session) = self.directory.get_mut(key) else { return };
        let state = self.rooms.state_of(session.id, session.resumed, session.delivered.runs().to_vec(), true);
        let (client_id, attachment) = (session.client_id.clone(), session.attachment());
        let was_here = !session.socket_ended;
        let queues = std::mem::take(&mut session.recipients);
        queues.into_values().for_each(|queue| drop(self.custody.queues.remove(queue)));
        if let Some(peer) = self.peers.key(to).filter(|_| was_here) {
            self.released_to(now, client_id, attachment, peer);
        }
        if let Some(session) = self.directory.get_mut(key) {
            session.outcomes = None;
            if let Some(contender) = session.contender.take() {
                self.send_on(&contender);
            }
        }
        self.leave(now, key);
        self.trunks.unbind(at);
        self.trunks.send(at.0, &ToEdge::Released { slot: at.1, state: &state });
        // Without a socket the seats stay with the lingering session, or the one that resumed it.
        if was_here {
            self.with_rooms(now, |rooms| rooms.release_seats((attachment.session, key)));
        }
        self.rooms.forget_socket(key);
        self.directory.sessions.remove(key);
    }
}
