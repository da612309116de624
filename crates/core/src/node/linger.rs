//! Sessions without a socket: they wait for their clients to come back, at the node that owns them.

use std::time::{Duration, Instant};

use signaling_protocol::ClientId;
use signaling_rendezvous::KeyHash;
use signaling_wire::forward::Item;
use signaling_wire::{RemainingTtl, SessionId};

use super::session::Session;
use super::takeover::REPLACED_BY_NEWER;
use super::{NodeCore, PeerKey, Rules, SessionKey};

/// What is left of a session whose socket is gone.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lingering {
    pub(super) session: SessionId,
    pub(super) accepted_at_us: u64,
    seq: u64,
    until: Instant,
}

impl Lingering {
    /// The number after which a socket accepted at `born` goes on: above all that was ever used, even if this node knows
    /// an old state of the session only. No client sends a message a microsecond.
    pub(super) fn goes_on_after(seq: u64, accepted_at_us: u64, rules: &Rules) -> u64 {
        (seq + rules.numbers_ahead).max(accepted_at_us)
    }

    /// For how much longer its client may come back.
    pub(super) fn left(&self, now: Instant) -> Duration {
        self.until.saturating_duration_since(now)
    }

    /// Returns the time of the socket's loss, at this node or another. `resume` is the resume time,
    /// which is the same on all nodes.
    pub(super) fn lost(&self, resume: Duration) -> Option<Instant> {
        self.until.checked_sub(resume)
    }

    /// The latest number known of it.
    pub(super) fn seq(&self) -> u64 {
        self.seq
    }
}

impl NodeCore {
    /// Keeps what a client needs to resume.
    pub(super) fn linger(&mut self, now: Instant, key: SessionKey) {
        let until = now + self.settings.resume;
        let Some(session) = self.sessions.get(key).filter(|session| !session.gone) else { return };
        if until <= now {
            return;
        }
        if self.lingering.len() >= self.settings.rules.max_lingering {
            self.counts.lingering_refused += 1;
        } else {
            let Session { id, accepted_at_us, seq, ref client_id, .. } = *session;
            let client = client_id.clone();
            self.lingering.insert(client.clone(), Lingering { session: id, accepted_at_us, seq, until });
            self.send_home(now, &client);
        }
    }

    /// A session comes from the node that served it.
    pub(super) fn lingering_comes(
        &mut self,
        now: Instant,
        client: &ClientId,
        (session, accepted_at_us, seq): (SessionId, u64, u64),
        left: Duration,
    ) {
        let is_known =
            self.lingering.get(client).is_some_and(|known| (known.accepted_at_us, known.seq) >= (accepted_at_us, seq));
        if is_known
            || self.session_by_client.contains_key(client)
            || self.lingering.len() >= self.settings.rules.max_lingering
        {
            return;
        }
        let until = now + left.min(self.settings.resume);
        self.lingering.insert(client.clone(), Lingering { session, accepted_at_us, seq, until });
        if !self.meet_expected(now, client) {
            self.send_home(now, client);
        }
    }

    /// Hands lingering sessions that other nodes own now to those.
    pub(super) fn hand_over_lingering(&mut self, now: Instant) {
        let elsewhere = |client: &&ClientId| self.peers.owner(KeyHash::of(client.as_str())).is_some();
        let mut moving: Vec<_> = self.lingering.keys().filter(elsewhere).cloned().collect();
        moving.sort_unstable();
        moving.iter().for_each(|client| self.send_home(now, client));
    }

    /// Hands a lingering session to the node that owns it, if that is another.
    fn send_home(&mut self, now: Instant, client: &ClientId) {
        let owner = self.peers.owner(KeyHash::of(client.as_str()));
        if let Some(owner) = owner.filter(|owner| !self.peers.is_suspect(*owner)) {
            self.hand_over(now, owner, client);
        }
    }

    /// A peer has the client, and proof of its session.
    pub(super) fn hand_over_wanted(
        &mut self,
        now: Instant,
        peer: PeerKey,
        client: &ClientId,
        (session, newer): (SessionId, u64),
    ) {
        if let Some((key, holder)) =
            self.holder(client).filter(|(_, holder)| holder.id == session && holder.accepted_at_us < newer)
        {
            // Its socket is an old one: whoever has the proof has a newer one.
            let (accepted_at_us, seq, until) = (holder.accepted_at_us, holder.seq, now + self.settings.resume);
            self.supersede(now, key, REPLACED_BY_NEWER);
            self.lingering.insert(client.clone(), Lingering { session, accepted_at_us, seq, until });
        }
        if self.lingering.get(client).is_some_and(|known| known.session == session) {
            self.hand_over(now, peer, client);
        }
    }

    /// Keeps it too: the peer may be gone before it has it, and who comes here meanwhile is who they were.
    fn hand_over(&mut self, now: Instant, peer: PeerKey, client: &ClientId) {
        let Some(&Lingering { session, accepted_at_us, seq, until }) = self.lingering.get(client) else { return };
        let left = RemainingTtl::from_duration(until.saturating_duration_since(now));
        let item = Item::Lingering { client_id: client.as_str(), session, accepted_at_us, seq, left };
        let mut notes = Vec::new();
        item.append(&mut notes);
        if let Some(seats) = self.lingering_seats(client, session, accepted_at_us) {
            seats.append(&mut notes);
        }
        self.peers.note_bytes(peer, KeyHash::of(client.as_str()).get(), &notes);
    }

    pub(super) fn forget_lingering(&mut self, now: Instant) {
        self.lingering.retain(|_, known| known.until > now);
    }
}
