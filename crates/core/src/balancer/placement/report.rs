//! Why a client is where it is, for operators.

use crate::edge::LinkKey;
use signaling_admin::explain::{Candidate, scores};
use signaling_admin::placement::{BalancerExplanation, EdgeSession, PlaceState};
use signaling_admin::servers::ViewName;
use signaling_protocol::{ClientId, NodeId};
use signaling_rendezvous::KeyHash;

use super::Placement;

impl Placement {
    /// What this balancer sees of the mesh.
    #[must_use]
    pub fn view_name(&self) -> ViewName {
        ViewName::new(self.view.hash(), self.view.len())
    }

    /// Where a client belongs and why, with the sessions that the edge has of it and the links that they are on.
    #[must_use]
    pub fn explain(
        &self,
        asked: &NodeId,
        client: &ClientId,
        sessions: Vec<(EdgeSession, Option<LinkKey>)>,
    ) -> BalancerExplanation {
        let key = KeyHash::of(client.as_str());
        let owner = self.owner(key).map(|rank| self.ranking.id(rank).to_owned());
        let placed = |(session, link): (EdgeSession, Option<LinkKey>)| {
            let is_home = link.is_none_or(|link| self.owner_elsewhere(key, link).is_none());
            let moves = session.place == PlaceState::Leaving || !is_home;
            let node = link.and_then(|link| self.node_at(link)).map(|node| node.as_str().to_owned());
            EdgeSession { node, moving_to: owner.clone().filter(|_| moves), ..session }
        };
        let members = self.ranking.ids().iter().map(|id| &**id);
        let mut explanation = BalancerExplanation {
            client_id: client.as_str().to_owned(),
            asked: asked.as_str().to_owned(),
            view: self.view_name(),
            why: String::new(),
            ranking: scores(self.hash_seed, members, client.as_str())
                .into_iter()
                .map(|(node, score)| self.candidate(node, score))
                .collect(),
            sessions: sessions.into_iter().map(placed).collect(),
            owner,
        };
        explanation.why = explanation.sentence();
        explanation
    }

    fn candidate(&self, node: String, score: String) -> Candidate {
        let known = self.node_by_id.get(node.as_str());
        let said_draining = known.is_some_and(|known| known.said_draining);
        Candidate {
            eligible: self.ranking.index_of(&node).is_some_and(|rank| self.link(rank).is_some()),
            draining: said_draining || self.view.get(&node).is_some_and(|member| member.draining),
            suspect: known.is_some_and(|known| known.trust.is_suspect()),
            trunk: Some(known.is_some_and(|known| known.link.is_some())),
            node,
            score,
        }
    }
}
