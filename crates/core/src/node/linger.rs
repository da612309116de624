//! Lingering sessions. The owner of a client keeps its lingering session.

use std::time::{Duration, Instant};

use signaling_protocol::ClientId;
use signaling_rendezvous::KeyHash;
use signaling_wire::forward::{Attachment, Item};
use signaling_wire::{Credential, Rank, RateDebts, RemainingTtl, Seq, SessionId};

use super::delivered_ids::DeliveredIds;
use super::kicking::subject_of;
use super::session::Session;
use super::takeover::REPLACED_BY_NEWER;
use super::{NodeCore, PeerKey, SessionKey};
use crate::edge::KickName;

/// State of a session without a socket.
#[derive(Debug, Clone)]
pub(super) struct Lingering {
    /// Its last attachment to a node.
    pub(super) attachment: Attachment,
    /// Number of its latest known uplink frame.
    pub(super) seq: Seq,
    /// The client's credential. `None`: it has none.
    pub(super) credential: Option<Credential>,
    /// Subject of the client's token. `None`: it is the client's id, there is no token, or a peer
    /// sent this state.
    pub(super) subject: Option<KickName>,
    /// Its delivered signals.
    pub(super) delivered: DeliveredIds,
    /// Rates that the client had used when its socket was lost.
    pub(super) debts: RateDebts,
    /// Time until which it can be resumed.
    pub(super) until: Instant,
}

impl Lingering {
    /// Returns the state of a session that can be resumed until `until`.
    pub(super) fn of(session: &Session, until: Instant) -> Self {
        let Session { seq, ref credential, ref delivered, debts, .. } = *session;
        let (credential, delivered) = (credential.as_deref().copied(), delivered.clone());
        let subject = subject_of(session).filter(|subject| *subject != session.client_id.as_str()).map(KickName::new);
        Self { attachment: session.attachment(), seq, credential, subject, delivered, debts, until }
    }

    /// Returns `true` if it is of a later attachment, or has later frames of the same one.
    fn is_newer_than(&self, known: &Self) -> bool {
        self.attachment.is_later_than(known.attachment)
            || !known.attachment.is_later_than(self.attachment) && self.seq > known.seq
    }

    /// Returns the time in which its client can still resume it.
    pub(super) fn left(&self, now: Instant) -> Duration {
        self.until.saturating_duration_since(now)
    }

    /// Returns the rates that the client has used, if all nodes have the resume time `resume`.
    pub(super) fn debts_at(&self, now: Instant, resume: Duration) -> RateDebts {
        let lost = self.lost(resume).unwrap_or(now);
        self.debts.after(now.saturating_duration_since(lost).as_millis())
    }

    /// Returns the time at which its socket was lost, if all nodes have the resume time `resume`.
    /// `None`: this node's clock does not reach back so far.
    pub(super) fn lost(&self, resume: Duration) -> Option<Instant> {
        self.until.checked_sub(resume)
    }
}

impl NodeCore {
    /// Starts lingering of a session that loses its socket, unless it has lost it before, the
    /// resume time is 0, [`Rules::max_lingering`](super::Rules::max_lingering) others linger, or a
    /// peer has it by a later attachment. Sends a copy to the client's owner.
    pub(super) fn linger(&mut self, now: Instant, key: SessionKey) {
        let until = now + self.settings.resume;
        let Some(session) = self.directory.get(key).filter(|session| !session.socket_ended && until > now) else {
            return;
        };
        if self.is_outdated(session.client_id.as_str(), session.attachment()) {
            return;
        }
        if !self.directory.may_linger() {
            self.counts.lingering_refused += 1;
            return;
        }
        let (client, lingering) = (session.client_id.clone(), Lingering::of(session, until));
        self.counts.lingering_refused += self.directory.start_lingering(client.clone(), lingering);
        self.send_home(now, &client);
    }

    /// Stores a lingering session for at most this node's resume time, and sends a copy to the
    /// client's owner. If a newcomer of the client waits, attaches the newcomer and sends no copy.
    ///
    /// Ignores the session if its client is attached, an equal or newer one lingers, or
    /// [`Rules::max_lingering`](super::Rules::max_lingering) linger. Two states of one session are
    /// merged: an edge attaches a closed socket again without its delivered signals.
    pub(super) fn store_lingering(&mut self, now: Instant, client: &ClientId, mut arrived: Lingering) {
        if let Some(known) = self.directory.lingering.get_mut(client) {
            let is_newer = arrived.is_newer_than(known);
            if known.attachment.session == arrived.attachment.session {
                known.delivered.merge(&arrived.delivered);
                if arrived.attachment.is_later_than(known.attachment) {
                    known.attachment = arrived.attachment;
                }
                (arrived.delivered, arrived.attachment) = (known.delivered.clone(), known.attachment);
            }
            if !is_newer {
                return;
            }
        }
        if self.directory.attached(client.as_str()).is_some() || !self.directory.may_linger() {
            return;
        }
        let until = arrived.until.min(now + self.settings.resume);
        let lingering = Lingering { until, ..arrived };
        self.counts.lingering_refused += self.directory.start_lingering(client.clone(), lingering);
        if !self.attach_pending_resume(now, client) {
            self.send_home(now, client);
        }
    }

    /// Sends lingering sessions to the present owners of their clients, as [`Self::send_home`].
    pub(super) fn send_lingering_home(&mut self, now: Instant) {
        let elsewhere = |client: &ClientId| self.peers.owner(KeyHash::of(client.as_str())).is_some();
        for client in self.directory.lingering_clients(elsewhere) {
            self.send_home(now, &client);
        }
    }

    /// Sends a copy of a lingering session to its client's owner. No effect if this node is the
    /// owner, the owner is suspect, or no session of the client lingers here.
    pub(super) fn send_home(&mut self, now: Instant, client: &ClientId) {
        let owner = self.peers.owner(KeyHash::of(client.as_str()));
        if let Some(owner) = owner.filter(|owner| !self.peers.is_suspect(*owner)) {
            self.send_lingering(now, owner, client);
        }
    }

    /// Sends a session to a peer where a newcomer presented its token. An older socket here closes.
    /// `newer` is the rank of the newcomer's socket. No effect if the session is not here.
    pub(super) fn session_requested(
        &mut self,
        now: Instant,
        peer: PeerKey,
        client: &ClientId,
        (session, newer): (SessionId, Rank),
    ) {
        let holder = self.directory.holder(client.as_str());
        if let Some((key, holder)) = holder.filter(|(_, holder)| holder.id == session && holder.rank < newer) {
            // The client has left this socket, since it presented the token on a newer one.
            let lingering = Lingering::of(holder, now + self.settings.resume);
            self.supersede(now, key, REPLACED_BY_NEWER);
            self.directory.lingering.insert(client.clone(), lingering);
        }
        if self.directory.lingering.get(client).is_some_and(|known| known.attachment.session == session) {
            self.send_lingering(now, peer, client);
        }
    }

    /// Sends a lingering session and its seats to a peer. They stay here too, since the peer may
    /// fail before it receives them.
    fn send_lingering(&mut self, now: Instant, peer: PeerKey, client: &ClientId) {
        let Some(known) = self.directory.lingering.get(client) else { return };
        let Lingering { attachment, seq, credential, ref delivered, debts, .. } = *known;
        let (client_id, delivered) = (client.as_str(), delivered.runs().to_vec());
        let ttl = RemainingTtl::from_duration(known.left(now));
        let mut items = Vec::new();
        Item::Lingering { client_id, attachment, seq, credential, delivered, debts, ttl }.append(&mut items);
        if let Some(seats) = self.rooms.lingering_seats(attachment.session) {
            seats.append(&mut items);
        }
        self.peers.note_bytes(peer, &items);
    }
}
