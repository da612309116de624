//! A new set of nodes: who owns what now, and what must take another way.

use std::sync::Arc;
use std::time::Instant;

use crate::{Member, View};
use signaling_protocol::NodeId;
use signaling_rendezvous::Ranking;

use super::peer::Peer;
use super::{NodeCore, PeerKey};

impl NodeCore {
    /// Routes by `view` from now on. Draining members stay reachable but own nothing, unless only such are left.
    pub fn set_view(&mut self, now: Instant, view: Arc<View>) {
        self.view = view;
        let gone: Vec<_> = self
            .peers
            .iter()
            .filter(|(_, peer)| self.view.get(peer.id.as_str()).is_none())
            .map(|(key, _)| key)
            .collect();
        for key in gone {
            if let Some(peer) = self.peers.remove(key) {
                self.peer_by_id.remove(&peer.id);
            }
        }
        let own = &self.settings.id;
        let others: Vec<_> =
            self.view.members().iter().map(|member| member.id.clone()).filter(|id| id != own).collect();
        for id in &others {
            self.peer_of(now, id);
        }
        let peer_by_id = &self.peer_by_id;
        self.received.retain(|sender| peer_by_id.contains_key(sender));
        self.forget_released();
        self.rank(now);
    }

    /// Returns `true` once discovery has named nodes. A node without a view cannot forward: edges
    /// and peer nodes must take it for one that is down.
    #[must_use]
    pub fn has_view(&self) -> bool {
        !self.view.is_empty()
    }

    /// Ranks the members anew.
    pub(super) fn rank(&mut self, now: Instant) {
        let Self { settings, draining, view, peer_by_id, .. } = self;
        let drains = |member: &Member| member.draining || (*draining && member.id == settings.id);
        let settled = view.members().iter().any(|member| !drains(member));
        let candidates = view.members().iter().filter(|member| !settled || !drains(member));
        self.ranking = Ranking::new(settings.hash_seed, candidates.map(|member| member.id.as_str()));
        let ranks = 0..self.ranking.len();
        self.peer_by_rank = ranks.map(|rank| peer_by_id.get(self.ranking.id(rank)).copied()).collect();
        self.count_suspects();
        self.rearrange(now);
    }

    /// Owners have changed: what waits, lingers or is in custody goes to them, and they hear whom this node serves.
    pub(super) fn rearrange(&mut self, now: Instant) {
        self.redirect(now);
        self.rehouse(now);
        self.hand_over_lingering(now);
        self.tell_all_owners(now);
    }

    /// Another node, made if need be: one may hear from a node before the view names it, and its fates wait here until it
    /// does, or until it sends again and takes them with the answer.
    pub(super) fn peer_of(&mut self, now: Instant, id: &NodeId) -> PeerKey {
        if let Some(peer) = self.peer_by_id.get(id) {
            return *peer;
        }
        let key = self.peers.insert(Peer::new(now, id.clone(), self.settings.rules.lanes));
        self.peer_by_id.insert(id.clone(), key);
        key
    }
}
