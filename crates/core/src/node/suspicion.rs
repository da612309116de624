//! Which nodes can be relied on, by what this one has seen of them, and who owns what if suspects are left out.

use std::time::Instant;

use signaling_protocol::NodeId;
use signaling_rendezvous::KeyHash;

use super::{NodeCore, PeerKey};

impl NodeCore {
    /// The other node that owns the key, suspects left out as long as anybody else is there; none if this one does, or no
    /// view has come yet.
    pub(super) fn owner(&self, key: KeyHash) -> Option<PeerKey> {
        if self.suspects == 0 {
            return self.owner_by_view(key);
        }
        match self.ranking.owner_where(key, |rank| self.peer_at(rank).is_none_or(|peer| !self.is_suspect(peer))) {
            Some(rank) => self.peer_at(rank),
            None => self.owner_by_view(key),
        }
    }

    /// The same, whatever is thought of that node.
    pub(super) fn owner_by_view(&self, key: KeyHash) -> Option<PeerKey> {
        self.ranking.owner(key).and_then(|rank| self.peer_at(rank))
    }

    /// Where a copy goes too, if this node owns the key only because it cannot rely on the owner: to the owner itself if that
    /// answers by now, else to somebody who may reach it.
    pub(super) fn detour(&self, key: KeyHash, avoid: impl Fn(&NodeId) -> bool) -> Option<PeerKey> {
        if self.suspects == 0 || !self.owner_by_view(key).is_some_and(|owner| self.is_suspect(owner)) {
            return None;
        }
        let is_open =
            |peer: PeerKey| self.peers.get(peer).is_some_and(|peer| peer.trust.is_answering() && !avoid(&peer.id));
        let rank = self.ranking.owner_where(key, |rank| self.peer_at(rank).is_some_and(is_open))?;
        self.peer_at(rank)
    }

    /// Whether this node owns the client by the view.
    pub(super) fn owns_by_view(&self, client: &str) -> bool {
        self.owner_by_view(KeyHash::of(client)).is_none()
    }

    pub(super) fn is_suspect(&self, peer: PeerKey) -> bool {
        self.peers.get(peer).is_none_or(|peer| peer.trust.is_suspect())
    }

    fn peer_at(&self, rank: usize) -> Option<PeerKey> {
        self.peer_by_rank.get(rank).copied().flatten()
    }

    /// The nodes that this one does not rely on now.
    pub fn suspects(&self) -> impl Iterator<Item = &NodeId> {
        self.peers.values().filter(|peer| peer.trust.is_suspect()).map(|peer| &peer.id)
    }

    /// Whether the view says that the node will stop.
    #[must_use]
    pub fn is_leaving(&self, node: &NodeId) -> bool {
        self.view.get(node.as_str()).is_some_and(|member| member.draining)
    }

    /// A peer does not take connections.
    pub fn refused(&mut self, now: Instant, peer: PeerKey) {
        if self.peers.get_mut(peer).is_some_and(|peer| peer.trust.failed(now)) {
            self.trust_changed(now);
        }
    }

    /// A peer has answered, whatever it said.
    pub(super) fn answered(&mut self, now: Instant, peer: PeerKey) {
        let Some(peer) = self.peers.get_mut(peer) else { return };
        peer.heard = now;
        if peer.trust.answered(now) {
            self.rehouse(now);
            self.tell_all_owners(now);
        }
    }

    /// Pings peers that are silent, and gives up relying on those that stay so.
    pub(super) fn watch_peers(&mut self, now: Instant) {
        let Self { peers, view, settings, .. } = self;
        let mut changed = false;
        for peer in peers.values_mut().filter(|peer| view.get(peer.id.as_str()).is_some()) {
            let silence = now.saturating_duration_since(peer.heard);
            if silence >= settings.rules.ping_after {
                peer.ping();
            }
            if silence >= settings.rules.suspect_after {
                changed |= peer.trust.failed(now);
            }
            changed |= peer.trust.look(now);
        }
        if changed {
            self.trust_changed(now);
        }
    }

    /// This server did nothing for so long that others have given it up: what it thinks of them is as old.
    pub fn jumped(&mut self, now: Instant) {
        self.peers.values_mut().for_each(|peer| peer.heard = now);
        self.hang_up(now);
    }

    fn trust_changed(&mut self, now: Instant) {
        self.count_suspects();
        self.rearrange(now);
    }

    pub(super) fn count_suspects(&mut self) {
        self.suspects = self.peer_by_rank.iter().flatten().filter(|peer| self.is_suspect(**peer)).count();
    }
}
