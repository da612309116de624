//! Clients with a session or location at this node: their sessions, lingering sessions, locations,
//! and waiting newcomers. [`NodeCore`](super::NodeCore) changes it as sessions attach and detach,
//! and looks up a client's session or node.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::Instant;

use rustc_hash::FxHashSet;
use signaling_protocol::ClientId;
use signaling_wire::trunk::Slot;
use signaling_wire::{Credential, MessageNumber, SessionId};
use slotmap::SlotMap;

use super::linger::Lingering;
use super::lingering_subjects::LingeringSubjects;
use super::location::Location;
use super::registry::Registry;
use super::session::{Session, WaitingNewcomer};
use super::{Rules, SessionKey, TrunkKey};

/// Number of undelivered signals of a session between two reports.
const REPORT_EVERY: u32 = 100;
/// Maximum pending reports. Further ones are not made.
const MAX_REPORTS: usize = 8;

/// A client with many signals that did not reach their recipients: a report at every 100.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UndeliveredSender {
    /// The client's id.
    pub client: ClientId,
    /// The client's session.
    pub session: SessionId,
    /// Number of the session's undelivered signals so far, in its present attachment to this node.
    pub messages: u32,
}

/// All clients with a session or location at this node.
#[derive(Debug, Default)]
pub(super) struct Directory {
    /// All sessions, also ones that only wait for outcomes. An attached one is detached first.
    pub(super) sessions: SlotMap<SessionKey, Session>,
    /// Attached sessions, each with a socket.
    attached: HashMap<ClientId, SessionKey>,
    /// Sessions that were detached, until [`Self::take_detached`].
    detached: Vec<SessionId>,
    pub(super) lingering: HashMap<ClientId, Lingering>,
    lingering_subjects: LingeringSubjects,
    max_lingering: usize,
    /// Clients at other nodes than the ranking names.
    pub(super) locations: HashMap<ClientId, Location>,
    /// Newcomers that wait for their sessions, at most one for each client.
    pub(super) pending_resumes: HashMap<ClientId, WaitingNewcomer>,
    /// Sessions with a contender now or at the last sweep.
    contended: BTreeSet<SessionKey>,
    /// Sessions that lost their id to another socket, with the end of their edges' time to confirm.
    superseded: Vec<(SessionKey, Instant)>,
    /// Sessions whose locations are not sent to their owners yet.
    pub(super) unannounced: VecDeque<SessionKey>,
    /// Time at which all locations are sent again. `None`: now.
    announce_again_at: Option<Instant>,
    /// Reports of clients with many undelivered signals.
    pub(super) undelivered: Vec<UndeliveredSender>,
    /// Clients that were attached or detached, for the registry of the journal. `None`: there is
    /// no journal.
    pub(super) registry: Option<Registry>,
}

impl Directory {
    /// `has_registry`: whether it records attached clients for a journal.
    pub(super) fn new(rules: &Rules, has_registry: bool) -> Self {
        let registry = has_registry.then(Registry::default);
        Self { max_lingering: rules.max_lingering, registry, ..Self::default() }
    }

    /// Returns a session, with or without a socket. `None`: it was removed.
    #[inline]
    pub(super) fn get(&self, session: SessionKey) -> Option<&Session> {
        self.sessions.get(session)
    }

    /// Returns a session. `None`: it was removed.
    #[inline]
    pub(super) fn get_mut(&mut self, session: SessionKey) -> Option<&mut Session> {
        self.sessions.get_mut(session)
    }

    /// Returns `true` if no session changes hands, and all ends and locations are announced.
    pub(super) fn is_settled(&self) -> bool {
        self.pending_resumes.is_empty()
            && self.contended.is_empty()
            && self.superseded.is_empty()
            && self.detached.is_empty()
            && self.unannounced.is_empty()
    }

    /// Adds a session that holds its client's id from now on.
    pub(super) fn attach(&mut self, session: Session) -> SessionKey {
        let client = session.client_id.clone();
        let key = self.sessions.insert(session);
        self.locations.remove(&client);
        if let Some(registry) = &mut self.registry {
            registry.mark(&client);
        }
        let former = self.attached.insert(client, key);
        debug_assert!(former.is_none(), "a client has two attached sessions");
        key
    }

    /// Ends a session's hold on its client's id. Returns `false` if it had none.
    pub(super) fn detach(&mut self, session: SessionKey) -> bool {
        let Some(Session { id, client_id, .. }) = self.sessions.get(session) else { return false };
        let is_attached = self.attached.get(client_id) == Some(&session);
        if is_attached {
            self.attached.remove(client_id);
            self.detached.push(*id);
            if let Some(registry) = &mut self.registry {
                registry.mark(client_id);
            }
        }
        is_attached
    }

    /// Takes at most `limit` of the sessions that were detached. Another socket may have resumed
    /// them.
    pub(super) fn take_detached(&mut self, limit: usize) -> Vec<SessionId> {
        self.detached.drain(..limit.min(self.detached.len())).collect()
    }

    /// Returns the attached session of a client. `None`: it has none here.
    #[inline]
    pub(super) fn attached(&self, client: &str) -> Option<SessionKey> {
        self.attached.get(client).copied()
    }

    /// Returns the attached session of a client, with its key. `None`: it has none here.
    pub(super) fn holder(&self, client: &str) -> Option<(SessionKey, &Session)> {
        let key = self.attached(client)?;
        Some((key, self.sessions.get(key)?))
    }

    /// Returns the attached clients, in no order.
    pub(super) fn attached_clients(&self) -> impl ExactSizeIterator<Item = &ClientId> + Clone {
        self.attached.keys()
    }

    /// Returns `true` if one more session can linger.
    pub(super) fn may_linger(&self) -> bool {
        self.lingering.len() < self.max_lingering
    }

    /// Stores a session that lingers from now on. Ends the oldest one of its subject if that has
    /// too many. Returns the number of ended sessions.
    pub(super) fn start_lingering(&mut self, client: ClientId, it: Lingering) -> u64 {
        let (subject, session) = (it.subject.clone(), it.attachment.session);
        self.lingering.insert(client.clone(), it);
        let Some(subject) = subject else { return 0 };
        let lingers = is_lingering(&self.lingering);
        let oldest = self.lingering_subjects.add(subject, (client, session), lingers);
        u64::from(oldest.is_some_and(|oldest| self.lingering.remove(&oldest).is_some()))
    }

    /// Returns a session of a client if it lingers.
    pub(super) fn lingering_session(&self, client: &ClientId, session: SessionId) -> Option<&Lingering> {
        self.lingering.get(client).filter(|lingering| lingering.attachment.session == session)
    }

    /// Returns the clients with a lingering session that `wanted` accepts, sorted.
    pub(super) fn lingering_clients(&self, wanted: impl Fn(&ClientId) -> bool) -> Vec<ClientId> {
        let mut clients: Vec<_> = self.lingering.keys().filter(|client| wanted(client)).cloned().collect();
        clients.sort_unstable();
        clients
    }

    /// Records a delivered signal of a reliable client, also for the socket or lingering session
    /// that continues its session.
    pub(super) fn record_delivered(&mut self, key: SessionKey, number: MessageNumber) {
        let Some(session) = self.sessions.get_mut(key).filter(|session| session.known_id.is_some()) else { return };
        if !session.socket_ended {
            session.delivered.insert(number.0);
            return;
        }
        let id = session.id;
        if let Some(later) = self.attached.get(&session.client_id).copied() {
            if let Some(later) = self.sessions.get_mut(later).filter(|later| later.id == id) {
                later.delivered.insert(number.0);
            }
        } else if let Some(lingering) =
            self.lingering.get_mut(&session.client_id).filter(|it| it.attachment.session == id)
        {
            lingering.delivered.insert(number.0);
        }
    }

    /// Returns the session of a client, attached or lingering. `None`: there is none here.
    pub(super) fn session_id(&self, client: &ClientId) -> Option<SessionId> {
        let attached = self.holder(client.as_str()).map(|(_, session)| session.id);
        attached.or_else(|| self.lingering.get(client).map(|lingering| lingering.attachment.session))
    }

    /// Returns the session of a client with this credential, attached or lingering. `None`: there
    /// is none here.
    pub(super) fn session_of(&self, client: &ClientId, credential: &Credential) -> Option<SessionId> {
        let attached = self.holder(client.as_str()).filter(|(_, it)| it.credential.as_deref() == Some(credential));
        let lingering = self.lingering.get(client).filter(|it| it.credential.as_ref() == Some(credential));
        attached.map(|(_, session)| session.id).or_else(|| lingering.map(|lingering| lingering.attachment.session))
    }

    /// Forgets expired lingering sessions and locations. Returns `true` if a location expired.
    pub(super) fn sweep(&mut self, now: Instant) -> bool {
        let before = self.locations.len();
        self.locations.retain(|_, known| known.until > now);
        self.lingering.retain(|_, known| !known.left(now).is_zero());
        self.lingering_subjects.sweep(is_lingering(&self.lingering));
        self.locations.len() < before
    }

    /// Takes the newcomers whose wait for their sessions is over, sorted by client id.
    pub(super) fn take_overdue_resumes(&mut self, now: Instant) -> impl Iterator<Item = WaitingNewcomer> + use<> {
        let overdue = self.pending_resumes.extract_if(|_, newcomer| newcomer.until <= now);
        overdue.collect::<BTreeMap<_, _>>().into_values()
    }

    /// Adds a contender for the id of a session, which must not have another contender. No effect
    /// if the session is gone.
    pub(super) fn contend(&mut self, holder: SessionKey, contender: WaitingNewcomer) {
        if let Some(session) = self.sessions.get_mut(holder) {
            session.contender = Some(Box::new(contender));
            self.contended.insert(holder);
        }
    }

    /// Takes the contenders whose wait is over, with their ids' holders.
    pub(super) fn take_overdue_contenders(&mut self, now: Instant) -> Vec<(SessionKey, WaitingNewcomer)> {
        let Self { sessions, contended, .. } = self;
        let mut overdue = Vec::new();
        contended.retain(|holder| {
            let Some(contender) = sessions.get_mut(*holder).map(|session| &mut session.contender) else { return false };
            overdue.extend(contender.take_if(|it| it.until <= now).map(|contender| (*holder, *contender)));
            contender.is_some()
        });
        overdue
    }

    /// Takes the newcomer of a client in this slot that waits for its own client's answer. `None`:
    /// none does.
    pub(super) fn take_prover(&mut self, at: (TrunkKey, Slot), client: &str) -> Option<WaitingNewcomer> {
        let is_it = |it: &WaitingNewcomer| it.proves && (it.arrival.trunk, it.arrival.slot) == at;
        let holder = self.attached(client).and_then(|holder| self.sessions.get_mut(holder));
        let contender = holder.and_then(|holder| holder.contender.take_if(|it| is_it(it)));
        contender.map(|it| *it).or_else(|| {
            self.pending_resumes.get(client).filter(|it| is_it(it))?;
            self.pending_resumes.remove(client)
        })
    }

    /// Drops the newcomers that wait for an id or a session, if `unwanted` accepts their trunk and
    /// slot. Returns `false` if there is none.
    pub(super) fn drop_newcomers(&mut self, unwanted: impl Fn(TrunkKey, Slot) -> bool) -> bool {
        let before = self.pending_resumes.len();
        self.pending_resumes.retain(|_, newcomer| !unwanted(newcomer.arrival.trunk, newcomer.arrival.slot));
        let mut dropped = self.pending_resumes.len() < before;
        for holder in &self.contended {
            if let Some(session) = self.sessions.get_mut(*holder) {
                dropped |= session.contender.take_if(|it| unwanted(it.arrival.trunk, it.arrival.slot)).is_some();
            }
        }
        dropped
    }

    /// Allows a session's edge to confirm until `until`, though another socket has the id.
    pub(super) fn supersede(&mut self, session: SessionKey, until: Instant) {
        self.superseded.push((session, until));
    }

    /// Ends the time to confirm. Returns `false` if the session was not superseded.
    pub(super) fn end_superseded(&mut self, session: SessionKey) -> bool {
        let before = self.superseded.len();
        self.superseded.retain(|(key, _)| *key != session);
        self.superseded.len() < before
    }

    /// Returns `true` if the session is superseded and its edge may still confirm.
    pub(super) fn is_superseded(&self, session: SessionKey) -> bool {
        self.superseded.iter().any(|(key, _)| *key == session)
    }

    /// Returns `true` if a superseded session of the client may still confirm.
    pub(super) fn has_superseded(&self, client: &str) -> bool {
        let mut superseded = self.superseded.iter().filter_map(|(former, _)| self.sessions.get(*former));
        superseded.any(|former| former.client_id.as_str() == client)
    }

    /// Returns the superseded sessions whose time to confirm is over.
    pub(super) fn overdue_superseded(&self, now: Instant) -> Vec<SessionKey> {
        self.superseded.iter().filter(|(_, until)| *until <= now).map(|(key, _)| *key).collect()
    }

    /// Returns the attached session that waits for the confirms of a former one. `None`: none does.
    pub(super) fn successor(&self, former: SessionKey) -> Option<SessionKey> {
        let (key, successor) = self.holder(self.sessions.get(former)?.client_id.as_str())?;
        (successor.waits_for == Some(former)).then_some(key)
    }

    /// Returns `true` if all locations are due to be sent again.
    pub(super) fn is_announcement_due(&self, now: Instant) -> bool {
        self.announce_again_at.is_none_or(|at| now >= at)
    }

    /// Queues all sessions after the queued ones, until `again_at`. In another order a full lane
    /// would leave out the same sessions each time.
    pub(super) fn announce_all(&mut self, again_at: Instant) {
        self.announce_again_at = Some(again_at);
        let waiting: FxHashSet<_> = self.unannounced.iter().copied().collect();
        let here = self.sessions.iter().filter(|(key, session)| !session.socket_ended && !waiting.contains(key));
        self.unannounced.extend(here.map(|(key, _)| key));
    }

    /// Counts a signal of the session that did not reach its recipient. Every 100th adds a report.
    pub(super) fn count_undelivered(&mut self, session: SessionKey) {
        let Some(session) = self.sessions.get_mut(session) else { return };
        session.undelivered = session.undelivered.saturating_add(1);
        if session.undelivered.is_multiple_of(REPORT_EVERY) && self.undelivered.len() < MAX_REPORTS {
            let (client, session, messages) = (session.client_id.clone(), session.id, session.undelivered);
            self.undelivered.push(UndeliveredSender { client, session, messages });
        }
    }
}

fn is_lingering(lingering: &HashMap<ClientId, Lingering>) -> impl Fn(&ClientId, SessionId) -> bool {
    |client, session| lingering.get(client).is_some_and(|known| known.attachment.session == session)
}
