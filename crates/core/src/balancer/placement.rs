//! Assignment of clients to nodes: the best-ranked node that takes clients. The balancer's backend
//! and the simulation report links, failures and views, and query owners.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use crate::edge::{ClientKey, LinkKey};
use signaling_membership::{FailureDetector, View};
use signaling_protocol::NodeId;
use signaling_rendezvous::{KeyHash, Ranking};

/// The nodes with their links and states as seen by one balancer, and the clients without a node.
///
/// Members of the view with a link take clients if they neither drain nor are suspect. Without one,
/// all suspect members with a link do; without these, all draining ones.
#[derive(Debug, Default)]
pub struct Placement {
    hash_seed: u64,
    view: Arc<View>,
    ranking: Ranking,
    /// Members, and dropped members to which a trunk still leads.
    node_by_id: HashMap<NodeId, Node>,
    /// By rank in `ranking`: the link of a node that takes clients.
    link_by_rank: Vec<Option<LinkKey>>,
    unplaced: Vec<ClientKey>,
}

#[derive(Debug)]
struct Node {
    link: Option<LinkKey>,
    trust: FailureDetector,
    /// The node itself reported that it drains, perhaps before the view does.
    reports_draining: bool,
}

impl Node {
    fn new(now: Instant) -> Self {
        Self { link: None, trust: FailureDetector::new(now), reports_draining: false }
    }
}

/// The quality of a node, best first. Only nodes of the best grade take clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Grade {
    Reliable,
    Suspect,
    Draining,
}

impl Placement {
    /// Returns a placement without nodes. All servers must have the same seed.
    pub fn new(hash_seed: u64) -> Self {
        Self { hash_seed, ..Self::default() }
    }

    /// Replaces the view. The failures of nodes outside of it are forgotten, and the nodes too if
    /// they have no trunk.
    pub fn set_view(&mut self, now: Instant, view: Arc<View>) {
        self.ranking = Ranking::new(self.hash_seed, view.members().iter().map(|member| member.id.as_str()));
        self.node_by_id.retain(|id, node| {
            let is_member = view.get(id.as_str()).is_some();
            if !is_member {
                node.trust = FailureDetector::new(now);
            }
            is_member || node.link.is_some()
        });
        for member in view.members() {
            self.node_by_id.entry(member.id.clone()).or_insert_with(|| Node::new(now));
        }
        self.view = view;
        self.update_links();
    }

    /// Records that a trunk to a node is up. It replaces an earlier one, and counts as an answer.
    pub fn link_up(&mut self, now: Instant, id: NodeId, link: LinkKey) {
        let node = self.node_by_id.entry(id).or_insert_with(|| Node::new(now));
        if node.link.replace(link) != Some(link) {
            node.reports_draining = false;
        }
        node.trust.answered(now);
        self.update_links();
    }

    /// Records the loss of a trunk, unless another one has replaced it.
    pub fn link_down(&mut self, id: &NodeId, link: LinkKey) {
        let Some(node) = self.at(id, link) else { return };
        node.link = None;
        if self.view.get(id.as_str()).is_none() {
            self.node_by_id.remove(id);
        }
        self.update_links();
    }

    /// Records that a trunk to a node was lost or could not be opened. Returns `true` if the node
    /// becomes suspect. One that is unknown or suspect, has a trunk, or reports draining does not.
    pub fn failed(&mut self, now: Instant, id: &NodeId) -> bool {
        let Some(node) = self.node_by_id.get_mut(id) else { return false };
        let was_suspect = node.trust.is_suspect();
        node.link.is_none() && !node.reports_draining && node.trust.failed(now) && !was_suspect
    }

    /// Returns `true` if the node reported over its trunk that it drains. The view does not count.
    pub fn has_reported_draining(&self, id: &NodeId) -> bool {
        self.node_by_id.get(id).is_some_and(|node| node.reports_draining)
    }

    /// Records the report of a node over its trunk that it drains, or that it serves again. A
    /// report over a replaced trunk has no effect.
    pub fn set_draining(&mut self, id: &NodeId, link: LinkKey, draining: bool) {
        if let Some(node) = self.at(id, link) {
            node.reports_draining = draining;
            self.update_links();
        }
    }

    /// Ends probations that are over. Returns `true` if a node is reliable again: clients may move.
    /// If no node was reliable before, all suspects with a link become reliable with it.
    pub fn end_probations(&mut self, now: Instant) -> bool {
        let none_was_reliable = self.best() != Some(Grade::Reliable);
        let mut changed = false;
        for node in self.node_by_id.values_mut() {
            changed |= node.trust.end_probation(now);
        }
        // All were suspect and served. The first reliable one must not get all clients.
        if changed && none_was_reliable {
            for node in self.node_by_id.values_mut().filter(|node| node.link.is_some() && node.trust.is_suspect()) {
                node.trust = FailureDetector::new(now);
            }
        }
        if changed {
            self.update_links();
        }
        changed
    }

    /// Returns the number of nodes that take clients.
    pub fn usable_count(&self) -> usize {
        self.link_by_rank.iter().flatten().count()
    }

    /// Returns the suspect nodes, in no order.
    pub fn suspect_ids(&self) -> impl Iterator<Item = &NodeId> {
        self.node_by_id.iter().filter(|(_, node)| node.trust.is_suspect()).map(|(id, _)| id)
    }

    /// Returns the view whose members get clients.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// Returns the node at the end of a link. `None`: the link is lost or replaced.
    pub fn node_at(&self, link: LinkKey) -> Option<&NodeId> {
        self.node_by_id.iter().find(|(_, node)| node.link == Some(link)).map(|(id, _)| id)
    }

    /// Returns `true` if the link leads to a node that takes clients.
    pub fn uses(&self, link: LinkKey) -> bool {
        self.link_by_rank.contains(&Some(link))
    }

    /// Returns the link to the client's owner among the nodes that take clients. `None`: none does.
    pub fn choose(&self, key: KeyHash) -> Option<LinkKey> {
        self.link(self.owner(key)?)
    }

    /// Returns the client's owner among the nodes that take clients. `None`: none does.
    pub fn owner_id(&self, key: KeyHash) -> Option<&str> {
        Some(self.ranking.id(self.owner(key)?))
    }

    /// Adds a client that no node can serve now. The caller assigns it after a later change.
    pub fn keep_unplaced(&mut self, client: ClientKey) {
        self.unplaced.push(client);
    }

    /// Takes all clients that no node could serve.
    pub fn take_unplaced(&mut self) -> Vec<ClientKey> {
        std::mem::take(&mut self.unplaced)
    }

    /// Returns the owner of a client. `None`: `link` leads to it, or no node takes clients.
    pub fn owner_elsewhere(&self, key: KeyHash, link: LinkKey) -> Option<&str> {
        let rank = self.owner(key)?;
        (self.link(rank) != Some(link)).then(|| self.ranking.id(rank))
    }

    fn owner(&self, key: KeyHash) -> Option<usize> {
        self.ranking.owner_where(key, |rank| self.link(rank).is_some())
    }

    fn link(&self, rank: usize) -> Option<LinkKey> {
        self.link_by_rank.get(rank).copied().flatten()
    }

    /// Returns the node if `link` is its current link.
    fn at(&mut self, id: &NodeId, link: LinkKey) -> Option<&mut Node> {
        self.node_by_id.get_mut(id).filter(|node| node.link == Some(link))
    }

    fn graded(&self, id: &str) -> Option<(LinkKey, Grade)> {
        let member = self.view.get(id)?;
        let node = self.node_by_id.get(&member.id)?;
        let grade = match (member.draining || node.reports_draining, node.trust.is_suspect()) {
            (true, _) => Grade::Draining,
            (false, true) => Grade::Suspect,
            (false, false) => Grade::Reliable,
        };
        Some((node.link?, grade))
    }

    fn best(&self) -> Option<Grade> {
        self.ranking.ids().iter().filter_map(|id| self.graded(id)).map(|(_, grade)| grade).min()
    }

    fn update_links(&mut self) {
        let best = self.best();
        let link = |id: &str| self.graded(id).filter(|(_, grade)| Some(*grade) == best).map(|(link, _)| link);
        self.link_by_rank = self.ranking.ids().iter().map(|id| link(id)).collect();
    }
}

#[cfg(test)]
mod tests;
