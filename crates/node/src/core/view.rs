//! A new set of nodes: who owns what now, and what must take another way.

use std::sync::Arc;
use std::time::Instant;

use signaling_discovery::View;
use signaling_rendezvous::Ranking;

use super::NodeCore;
use super::peer::Peer;

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
        for member in self.view.members() {
            if member.id != *own && !self.peer_by_id.contains_key(&member.id) {
                let key = self.peers.insert(Peer::new(member.id.clone()));
                self.peer_by_id.insert(member.id.clone(), key);
            }
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
