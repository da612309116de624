//! Where an edge serves its clients: the owner among the nodes it has a trunk to.

use std::collections::BTreeMap;

use signaling_discovery::View;
use signaling_edge::core::LinkKey;
use signaling_rendezvous::{KeyHash, Ranking};

/// What an edge knows of nodes.
#[derive(Debug)]
pub(crate) struct Placement {
    members: Ranking,
    /// By place in `members`.
    draining: Vec<bool>,
    /// Trunks that are up, by node id, and whether the node has said on it that it drains.
    up_by_node: BTreeMap<String, (LinkKey, bool)>,
}

impl Placement {
    pub(crate) fn new() -> Self {
        Self { members: Ranking::new(0, [""; 0]), draining: Vec::new(), up_by_node: BTreeMap::new() }
    }

    pub(crate) fn set_view(&mut self, view: &View) {
        self.members = Ranking::new(0, view.members().iter().map(|member| member.id.as_str()));
        self.draining = view.members().iter().map(|member| member.draining).collect();
    }

    pub(crate) fn link_up(&mut self, node: &str, link: LinkKey) {
        self.up_by_node.insert(node.to_owned(), (link, false));
    }

    pub(crate) fn link_down(&mut self, node: &str) {
        self.up_by_node.remove(node);
    }

    /// The node has said that it will stop.
    pub(crate) fn said_draining(&mut self, node: &str) {
        if let Some((_, draining)) = self.up_by_node.get_mut(node) {
            *draining = true;
        }
    }

    /// The best node with a trunk, one that drains only if there is no other.
    pub(crate) fn owner(&self, key: KeyHash) -> Option<(&str, LinkKey)> {
        let up = |index: usize| self.up_by_node.get(self.members.id(index));
        let drains = |index: usize| self.draining.get(index) == Some(&true) || up(index).is_some_and(|(_, said)| *said);
        let best = self.members.owner_where(key, |index| up(index).is_some() && !drains(index));
        let index = best.or_else(|| self.members.owner_where(key, |index| up(index).is_some()))?;
        Some((self.members.id(index), up(index)?.0))
    }
}
