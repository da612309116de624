//! Which node serves a client: the best candidate of the rendezvous hash that a trunk leads to and that can be relied on.
//! Pure.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use signaling_discovery::{Trust, View};
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
    /// Members, and nodes that the view has dropped as long as a trunk leads to them.
    node_by_id: HashMap<NodeId, Node>,
    /// By place in `ranking`: the link of a node that takes clients.
    link_by_rank: Vec<Option<LinkKey>>,
    /// Clients that no node serves.
    homeless: Vec<ClientKey>,
}

/// What is known of one node beside the view.
#[derive(Debug)]
struct Node {
    link: Option<LinkKey>,
    trust: Trust,
    /// It has said itself that it will stop, though the view may not know yet.
    said_draining: bool,
}

impl Node {
    fn new(now: Instant) -> Self {
        Self { link: None, trust: Trust::new(now), said_draining: false }
    }
}

/// How good a node is, better ones first. Only the best there are take clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Grade {
    Reliable,
    Suspect,
    Draining,
}

impl Placement {
    /// No node yet. The seed is the same on all servers.
    #[must_use]
    pub fn new(hash_seed: u64) -> Self {
        Self {
            hash_seed,
            view: Arc::default(),
            ranking: Ranking::new(hash_seed, std::iter::empty::<&str>()),
            node_by_id: HashMap::new(),
            link_by_rank: Vec::new(),
            homeless: Vec::new(),
        }
    }

    /// Another set of nodes. What was thought of a node that it does not name is forgotten.
    pub fn set_view(&mut self, now: Instant, view: Arc<View>) {
        self.ranking = Ranking::new(self.hash_seed, view.members().iter().map(|member| member.id.as_str()));
        self.node_by_id.retain(|id, node| {
            let is_member = view.get(id.as_str()).is_some();
            if !is_member {
                node.trust = Trust::new(now);
            }
            is_member || node.link.is_some()
        });
        for member in view.members() {
            self.node_by_id.entry(member.id.clone()).or_insert_with(|| Node::new(now));
        }
        self.view = view;
        self.reckon();
    }

    /// A trunk leads to the node, in place of any earlier one.
    pub fn link_up(&mut self, now: Instant, id: NodeId, link: LinkKey) {
        let node = self.node_by_id.entry(id).or_insert_with(|| Node::new(now));
        if node.link.replace(link) != Some(link) {
            node.said_draining = false;
        }
        node.trust.answered(now);
        self.reckon();
    }

    /// That trunk is gone. Another one may lead to the node already.
    pub fn link_down(&mut self, id: &NodeId, link: LinkKey) {
        let Some(node) = self.at(id, link) else { return };
        node.link = None;
        if self.view.get(id.as_str()).is_none() {
            self.node_by_id.remove(id);
        }
        self.reckon();
    }

    /// A trunk to the node was lost, or could not be opened. Says whether the node is suspect from now on. It is not as long
    /// as another trunk leads there, and what has said that it will stop may do so.
    pub fn failed(&mut self, now: Instant, id: &NodeId) -> bool {
        let Some(node) = self.node_by_id.get_mut(id) else { return false };
        node.link.is_none() && !node.said_draining && node.trust.failed(now)
    }

    /// The node behind that trunk has said that it will stop.
    pub fn said_draining(&mut self, id: &NodeId, link: LinkKey) {
        self.say_draining(id, link, true);
    }

    /// The node behind that trunk has said that it takes clients again.
    pub fn said_serving(&mut self, id: &NodeId, link: LinkKey) {
        self.say_draining(id, link, false);
    }

    fn say_draining(&mut self, id: &NodeId, link: LinkKey, draining: bool) {
        if let Some(node) = self.at(id, link) {
            node.said_draining = draining;
            self.reckon();
        }
    }

    /// Lets time pass. Says whether a node is trusted again, so that clients may have to move.
    pub fn look(&mut self, now: Instant) -> bool {
        let none_was_reliable = self.best() != Some(Grade::Reliable);
        let mut changed = false;
        for node in self.node_by_id.values_mut() {
            changed |= node.trust.look(now);
        }
        // All were suspect and served nevertheless: the first to be trusted must not draw all clients away from the others.
        if changed && none_was_reliable {
            for node in self.node_by_id.values_mut().filter(|node| node.link.is_some() && node.trust.is_suspect()) {
                node.trust = Trust::new(now);
            }
        }
        if changed {
            self.reckon();
        }
        changed
    }

    /// How many nodes can take clients.
    #[must_use]
    pub fn usable(&self) -> usize {
        self.link_by_rank.iter().flatten().count()
    }

    /// Whether clients may be sent to that link.
    #[must_use]
    pub fn uses(&self, link: LinkKey) -> bool {
        self.link_by_rank.contains(&Some(link))
    }

    /// The link to the client's owner among the usable nodes.
    #[must_use]
    pub fn choose(&self, key: KeyHash) -> Option<LinkKey> {
        self.link(self.owner(key)?)
    }

    /// Remembers a client that no node can serve now.
    pub fn keep_homeless(&mut self, client: ClientKey) {
        self.homeless.push(client);
    }

    /// The clients that no node could serve.
    pub fn take_homeless(&mut self) -> Vec<ClientKey> {
        std::mem::take(&mut self.homeless)
    }

    /// The owner of a client that `link` serves, if that is another node, or the same by another link.
    #[must_use]
    pub fn owner_elsewhere(&self, key: KeyHash, link: LinkKey) -> Option<&str> {
        let rank = self.owner(key)?;
        (self.link(rank) != Some(link)).then(|| self.ranking.id(rank))
    }

    /// The clients that another node owns than the one that serves them.
    pub fn misplaced(&self, core: &EdgeCore) -> impl Iterator<Item = ClientKey> {
        let placed = core.placed();
        placed.filter_map(|(client, key, link)| self.owner_elsewhere(key, link).map(|_| client))
    }

    fn owner(&self, key: KeyHash) -> Option<usize> {
        self.ranking.owner_where(key, |rank| self.link(rank).is_some())
    }

    fn link(&self, rank: usize) -> Option<LinkKey> {
        self.link_by_rank.get(rank).copied().flatten()
    }

    /// The node, if it is this link that leads to it now.
    fn at(&mut self, id: &NodeId, link: LinkKey) -> Option<&mut Node> {
        self.node_by_id.get_mut(id).filter(|node| node.link == Some(link))
    }

    /// The link and grade of a member that a trunk leads to.
    fn graded(&self, id: &str) -> Option<(LinkKey, Grade)> {
        let member = self.view.get(id)?;
        let node = self.node_by_id.get(&member.id)?;
        let grade = match (member.draining || node.said_draining, node.trust.is_suspect()) {
            (true, _) => Grade::Draining,
            (false, true) => Grade::Suspect,
            (false, false) => Grade::Reliable,
        };
        Some((node.link?, grade))
    }

    fn best(&self) -> Option<Grade> {
        self.ranking.ids().iter().filter_map(|id| self.graded(id)).map(|(_, grade)| grade).min()
    }

    fn reckon(&mut self) {
        let best = self.best();
        let link = |id: &str| self.graded(id).filter(|(_, grade)| Some(*grade) == best).map(|(link, _)| link);
        self.link_by_rank = self.ranking.ids().iter().map(|id| link(id)).collect();
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::time::Duration;

    use signaling_discovery::Member;
    use signaling_discovery::trust::PROBATION;
    use signaling_edge::core::Settings;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

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

    /// A placement on `count` nodes, each with its link, and links to spare.
    struct Nodes {
        placement: Placement,
        links: Vec<LinkKey>,
        now: Instant,
    }

    impl Nodes {
        fn new(count: usize) -> Self {
            let mut core = EdgeCore::new(Settings::default());
            let links = (0..count + 3).map(|_| core.link_up()).collect();
            let mut nodes = Self { placement: Placement::new(0), links, now: Instant::now() };
            nodes.sees(&(0..count).collect::<Vec<_>>(), &[]);
            (0..count).for_each(|n| nodes.up(n, n));
            nodes
        }

        fn sees(&mut self, nodes: &[usize], draining: &[usize]) {
            self.placement.set_view(self.now, view(nodes, draining));
        }

        fn up(&mut self, n: usize, link: usize) {
            self.placement.link_up(self.now, node(n), self.links[link]);
        }

        fn lost(&mut self, n: usize) {
            self.placement.link_down(&node(n), self.links[n]);
            self.placement.failed(self.now, &node(n));
        }

        fn passes(&mut self, time: Duration) -> bool {
            self.now += time;
            self.placement.look(self.now)
        }

        fn owners(&self) -> Vec<Option<LinkKey>> {
            (0..1000).map(|n| self.placement.choose(KeyHash::of(&format!("client-{n}")))).collect()
        }

        /// The numbers of the links that clients go to.
        fn used(&self) -> Vec<usize> {
            let owners = self.owners();
            (0..self.links.len()).filter(|&n| owners.contains(&Some(self.links[n]))).collect()
        }
    }

    #[test]
    fn clients_go_to_their_owner_and_only_those_of_a_lost_node_move() {
        let mut nodes = Nodes::new(3);
        let before = nodes.owners();
        nodes.lost(1);
        for (before, after) in before.iter().zip(nodes.owners()) {
            assert!(after.is_some() && after != Some(nodes.links[1]));
            assert!(*before == after || *before == Some(nodes.links[1]));
        }
    }

    #[test]
    fn a_draining_node_takes_nobody_unless_only_such_are_left() {
        let mut nodes = Nodes::new(2);
        nodes.sees(&[0, 1], &[0]);
        assert_eq!(nodes.used(), [1]);
        nodes.placement.said_draining(&node(1), nodes.links[1]);
        assert_eq!(nodes.used(), [0, 1]);
    }

    #[test]
    fn a_node_that_serves_again_after_draining_has_its_clients_back() {
        let mut nodes = Nodes::new(2);
        let before = nodes.owners();
        nodes.placement.said_draining(&node(1), nodes.links[1]);
        assert_eq!(nodes.used(), [0]);
        nodes.placement.said_serving(&node(1), nodes.links[1]);
        assert_eq!(nodes.owners(), before);
    }

    #[test]
    fn a_node_outside_the_view_takes_nobody() {
        let mut nodes = Nodes::new(2);
        nodes.sees(&[1], &[]);
        assert_eq!(nodes.used(), [1]);
        nodes.sees(&[], &[]);
        assert_eq!(nodes.placement.choose(KeyHash::of("alice")), None);
    }

    #[test]
    fn a_node_whose_trunk_was_lost_is_passed_over_until_it_has_answered_for_a_while() {
        let mut nodes = Nodes::new(2);
        nodes.lost(1);
        nodes.now += SECOND;
        nodes.up(1, 2);
        assert_eq!(nodes.used(), [0]);
        assert!(!nodes.passes(PROBATION - Duration::from_millis(1)));
        assert!(nodes.passes(Duration::from_millis(1)));
        assert!(!nodes.passes(PROBATION), "the news is told once");
        assert_eq!(nodes.used(), [0, 2]);
    }

    #[test]
    fn a_node_that_was_never_tried_is_trusted_as_soon_as_its_trunk_is_up() {
        let mut nodes = Nodes::new(1);
        nodes.sees(&[0, 1, 2], &[]);
        assert!(nodes.placement.failed(nodes.now, &node(2)));
        assert!(!nodes.placement.failed(nodes.now, &node(2)), "it is suspect already");
        nodes.up(1, 1);
        nodes.up(2, 2);
        assert_eq!(nodes.used(), [0, 1]);
        nodes.passes(PROBATION);
        assert_eq!(nodes.used(), [0, 1, 2]);
    }

    #[test]
    fn a_view_that_drops_a_node_clears_its_name() {
        let mut nodes = Nodes::new(2);
        nodes.lost(1);
        nodes.sees(&[0], &[]);
        nodes.sees(&[0, 1], &[]);
        nodes.up(1, 2);
        assert_eq!(nodes.used(), [0, 2]);
    }

    #[test]
    fn a_suspect_serves_where_there_is_nobody_better() {
        let mut nodes = Nodes::new(3);
        (0..3).for_each(|n| nodes.lost(n));
        assert_eq!(nodes.placement.usable(), 0);
        nodes.up(0, 0);
        nodes.placement.said_draining(&node(0), nodes.links[0]);
        assert_eq!(nodes.used(), [0], "anything is better than nothing");
        nodes.up(1, 1);
        assert_eq!(nodes.used(), [1], "a suspect is better than one that drains");
    }

    #[test]
    fn of_nodes_that_all_failed_the_first_to_be_trusted_does_not_take_the_clients_of_the_others() {
        let mut nodes = Nodes::new(3);
        (0..3).for_each(|n| nodes.lost(n));
        nodes.up(0, 0);
        nodes.now += SECOND;
        nodes.up(1, 1);
        assert!(nodes.passes(PROBATION - SECOND));
        assert_eq!(nodes.used(), [0, 1]);
        nodes.up(2, 2);
        assert_eq!(nodes.used(), [0, 1], "it has yet to answer for a while");
    }

    #[test]
    fn a_trunk_that_ends_after_its_node_said_so_is_no_failure() {
        let mut nodes = Nodes::new(2);
        nodes.placement.said_draining(&node(1), nodes.links[1]);
        nodes.lost(1);
        assert!(!nodes.placement.failed(nodes.now, &node(1)), "nor is it that it cannot be reached meanwhile");
        nodes.up(1, 2);
        assert_eq!(nodes.used(), [0, 2]);
    }

    #[test]
    fn the_end_of_an_old_trunk_leaves_the_new_one_to_the_same_node_alone() {
        let mut nodes = Nodes::new(2);
        nodes.up(1, 2);
        assert_eq!(nodes.used(), [0, 2]);
        nodes.placement.said_draining(&node(1), nodes.links[1]);
        nodes.lost(1);
        assert_eq!(nodes.used(), [0, 2]);
        assert!(!nodes.passes(PROBATION));
    }

    #[test]
    fn a_node_that_was_dropped_and_is_named_again_still_has_its_trunk() {
        let mut nodes = Nodes::new(2);
        let before = nodes.owners();
        nodes.sees(&[0], &[]);
        nodes.sees(&[0, 1], &[]);
        nodes.up(1, 1);
        assert_eq!(nodes.owners(), before);
    }

    #[test]
    fn a_node_that_drains_is_not_taken_for_another_because_it_is_named_again() {
        let mut nodes = Nodes::new(2);
        nodes.placement.said_draining(&node(1), nodes.links[1]);
        nodes.sees(&[0], &[]);
        nodes.sees(&[0, 1], &[]);
        nodes.up(1, 1);
        assert_eq!(nodes.used(), [0]);
    }
}
