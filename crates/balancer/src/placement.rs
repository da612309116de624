//! Which node serves a client: the best candidate of the rendezvous hash that a trunk leads to. Pure.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use signaling_discovery::View;
use signaling_edge::core::{ClientKey, EdgeCore, LinkKey};
use signaling_protocol::NodeId;
use signaling_rendezvous::{KeyHash, Ranking};

/// What the balancer knows of the nodes.
#[derive(Debug)]
pub struct Placement {
    hash_seed: u64,
    view: Arc<View>,
    /// All members: candidates are those among them that can be used now.
    ranking: Ranking,
    link_by_node: HashMap<NodeId, LinkKey>,
    /// Nodes that have said themselves that they will stop, though the view may not know yet.
    said_draining: HashSet<NodeId>,
    /// By place in `ranking`: the link of a node that takes clients.
    link_by_rank: Vec<Option<LinkKey>>,
    /// Clients that no node serves.
    homeless: Vec<ClientKey>,
}

impl Placement {
    /// No node yet. The seed is the same on all servers.
    #[must_use]
    pub fn new(hash_seed: u64) -> Self {
        Self {
            hash_seed,
            view: Arc::default(),
            ranking: Ranking::new(hash_seed, std::iter::empty::<&str>()),
            link_by_node: HashMap::new(),
            said_draining: HashSet::new(),
            link_by_rank: Vec::new(),
            homeless: Vec::new(),
        }
    }

    /// Another set of nodes.
    pub fn set_view(&mut self, view: Arc<View>) {
        self.ranking = Ranking::new(self.hash_seed, view.members().iter().map(|member| member.id.as_str()));
        self.said_draining.retain(|node| view.get(node.as_str()).is_some());
        self.view = view;
        self.reckon();
    }

    /// A trunk leads to the node.
    pub fn link_up(&mut self, node: NodeId, link: LinkKey) {
        self.said_draining.remove(&node);
        self.link_by_node.insert(node, link);
        self.reckon();
    }

    /// No trunk leads to the node any more.
    pub fn link_down(&mut self, node: &NodeId) {
        self.link_by_node.remove(node);
        self.reckon();
    }

    /// All trunks are given up, through no fault of their nodes.
    pub fn forget_links(&mut self) {
        self.link_by_node.clear();
        self.reckon();
    }

    /// The node has said that it will stop.
    pub fn said_draining(&mut self, node: NodeId) {
        self.said_draining.insert(node);
        self.reckon();
    }

    /// How many nodes can take clients.
    #[must_use]
    pub fn usable(&self) -> usize {
        self.link_by_rank.iter().flatten().count()
    }

    /// The link to the client's owner among the usable nodes.
    #[must_use]
    pub fn choose(&self, key: KeyHash) -> Option<LinkKey> {
        let rank = self.ranking.owner_where(key, |rank| self.link(rank).is_some())?;
        self.link(rank)
    }

    /// Remembers a client that no node can serve now.
    pub fn keep_homeless(&mut self, client: ClientKey) {
        self.homeless.push(client);
    }

    /// The clients that no node could serve.
    pub fn take_homeless(&mut self) -> Vec<ClientKey> {
        std::mem::take(&mut self.homeless)
    }

    /// The clients whose owner is another than who serves them, each with its owner.
    #[must_use]
    pub fn moves(&self, core: &EdgeCore) -> Vec<(ClientKey, NodeId)> {
        let wanted = core.placed().filter_map(|(client, key, link)| {
            let rank = self.ranking.owner_where(key, |rank| self.link(rank).is_some())?;
            let owner = NodeId::new(self.ranking.id(rank)).ok()?;
            (self.link(rank) != Some(link)).then_some((client, owner))
        });
        wanted.collect()
    }

    fn link(&self, rank: usize) -> Option<LinkKey> {
        self.link_by_rank.get(rank).copied().flatten()
    }

    fn reckon(&mut self) {
        let settled =
            |id: &str| self.view.get(id).is_some_and(|member| !member.draining) && !self.said_draining.contains(id);
        let links = |wanted: &dyn Fn(&str) -> bool| -> Vec<Option<LinkKey>> {
            let link = |id: &str| self.link_by_node.get(id).copied().filter(|_| wanted(id));
            self.ranking.ids().iter().map(|id| link(id)).collect()
        };
        let settled = links(&settled);
        // If only draining nodes are left, they are used.
        self.link_by_rank = if settled.iter().any(Option::is_some) { settled } else { links(&|_| true) };
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use signaling_discovery::Member;
    use signaling_edge::core::Settings;

    use super::*;

    fn node(n: usize) -> NodeId {
        NodeId::new(&format!("node-{n}")).unwrap()
    }

    fn view(nodes: &[usize], draining: &[usize]) -> Arc<View> {
        let member = |&n: &usize| Member {
            id: node(n),
            address: "127.0.0.1:1".parse().unwrap(),
            draining: draining.contains(&n),
        };
        Arc::new(View::new(nodes.iter().map(member)).unwrap())
    }

    fn placement(links: usize) -> (Placement, Vec<LinkKey>) {
        let mut core = EdgeCore::new(Settings::default());
        let mut placement = Placement::new(0);
        let links: Vec<_> = (0..links).map(|_| core.link_up()).collect();
        for (n, link) in links.iter().enumerate() {
            placement.link_up(node(n), *link);
        }
        (placement, links)
    }

    fn owners(placement: &Placement) -> Vec<Option<LinkKey>> {
        (0..1000).map(|n| placement.choose(KeyHash::of(&format!("client-{n}")))).collect()
    }

    #[test]
    fn clients_go_to_their_owner_and_only_those_of_a_lost_node_move() {
        let (mut placement, links) = placement(3);
        placement.set_view(view(&[0, 1, 2], &[]));
        let before = owners(&placement);
        placement.link_down(&node(1));
        for (before, after) in before.iter().zip(owners(&placement)) {
            assert!(after.is_some() && after != Some(links[1]));
            assert!(*before == after || *before == Some(links[1]));
        }
    }

    #[test]
    fn a_draining_node_takes_nobody_unless_only_such_are_left() {
        let (mut placement, links) = placement(2);
        placement.set_view(view(&[0, 1], &[0]));
        assert!(owners(&placement).iter().all(|owner| *owner == Some(links[1])));
        placement.said_draining(node(1));
        assert_eq!(placement.usable(), 2);
    }

    #[test]
    fn a_node_outside_the_view_takes_nobody() {
        let (mut placement, links) = placement(2);
        assert_eq!(placement.usable(), 0);
        placement.set_view(view(&[1], &[]));
        assert!(owners(&placement).iter().all(|owner| *owner == Some(links[1])));
        placement.set_view(view(&[], &[]));
        assert_eq!(placement.choose(KeyHash::of("alice")), None);
    }
}
