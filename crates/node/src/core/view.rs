//! A new set of nodes: who owns what now, and what must take another way.

use std::sync::Arc;
use std::time::Instant;

use signaling_discovery::View;
use signaling_protocol::NodeId;
use signaling_rendezvous::Ranking;

use super::peer::Peer;
use super::{NodeCore, PeerKey};

impl NodeCore {
    /// Routes by `view` from now on. Draining members stay reachable but own nothing, unless only such are left.
    pub fn set_view(&mut self, now: Instant, view: Arc<View>) {
        self.view = view;
        let own = &self.settings.id;
        let members = || self.view.members().iter();
        let settled = members().filter(|member| !member.draining).count() > 0;
        let candidates = members().filter(|member| !settled || !member.draining);
        self.ranking = Ranking::new(self.settings.hash_seed, candidates.map(|member| member.id.as_str()));
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
        let others: Vec<_> = members().map(|member| member.id.clone()).filter(|id| id != own).collect();
        for id in &others {
            self.peer_of(id);
        }
        let peer_by_id = &self.peer_by_id;
        let ranks = 0..self.ranking.len();
        self.peer_by_rank = ranks.map(|rank| peer_by_id.get(self.ranking.id(rank)).copied()).collect();
        self.received.retain(|sender| peer_by_id.contains_key(sender));
        // Since then they may have moved again, and the view says where to.
        self.departed.clear();
        self.redirect(now);
        self.rehouse(now);
    }

    /// Another node, made if need be: one may hear from a node before the view names it, and its fates wait here until it
    /// does, or until it sends again and takes them with the answer.
    pub(super) fn peer_of(&mut self, id: &NodeId) -> PeerKey {
        if let Some(peer) = self.peer_by_id.get(id) {
            return *peer;
        }
        let key = self.peers.insert(Peer::new(id.clone()));
        self.peer_by_id.insert(id.clone(), key);
        key
    }

    /// Looks again at what waits for clients that another node owns now.
    fn rehouse(&mut self, now: Instant) {
        let elsewhere = self.holds.recipients(|key| self.owner(key).is_some());
        for to in elsewhere {
            for parcel in self.holds.take(to.as_str()) {
                self.place(now, &to, parcel);
            }
        }
    }
}
