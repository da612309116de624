use std::time::Duration;

use crate::edge::{EdgeCore, Settings};
use crate::fixtures::view;
use signaling_membership::failure_detector::PROBATION;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn node(n: usize) -> NodeId {
    NodeId::new(&format!("n{n}")).unwrap()
}

/// A placement on `count` nodes, each with its link, and links to spare.
struct Nodes {
    placement: Placement,
    links: Vec<LinkKey>,
    now: Instant,
}

impl Nodes {
    fn new(count: usize) -> Self {
        let (mut core, now) = (EdgeCore::new(Settings::default()), Instant::now());
        let links = (0..count + 3).map(|_| core.link_up(now, now)).collect();
        let mut nodes = Self { placement: Placement::new(0), links, now };
        nodes.sees(&["n0", "n1", "n2"][..count]);
        (0..count).for_each(|n| nodes.up(n, n));
        nodes
    }

    /// Applies a view of `nodes`. The prefix `-` marks a draining node.
    fn sees(&mut self, nodes: &[&str]) {
        self.placement.set_view(self.now, view(nodes));
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
        self.placement.end_probations(self.now)
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
fn draining_node_owns_clients_only_if_all_nodes_drain() {
    let mut nodes = Nodes::new(2);
    nodes.sees(&["-n0", "n1"]);
    assert_eq!(nodes.used(), [1]);
    nodes.placement.set_draining(&node(1), nodes.links[1], true);
    assert_eq!(nodes.used(), [0, 1]);
}

#[test]
fn node_that_serves_again_after_draining_has_its_clients_back() {
    let mut nodes = Nodes::new(2);
    let before = nodes.owners();
    nodes.placement.set_draining(&node(1), nodes.links[1], true);
    assert_eq!(nodes.used(), [0]);
    nodes.placement.set_draining(&node(1), nodes.links[1], false);
    assert_eq!(nodes.owners(), before);
}

#[test]
fn node_outside_the_view_owns_no_client() {
    let mut nodes = Nodes::new(2);
    nodes.sees(&["n1"]);
    assert_eq!(nodes.used(), [1]);
    nodes.sees(&[]);
    assert_eq!(nodes.placement.choose(KeyHash::of("alice")), None);
}

#[test]
fn node_with_a_lost_trunk_is_on_probation_until_it_answers() {
    let mut nodes = Nodes::new(2);
    nodes.lost(1);
    nodes.now += SECOND;
    nodes.up(1, 2);
    nodes.placement.link_down(&node(1), nodes.links[2]);
    assert!(!nodes.placement.failed(nodes.now, &node(1)), "it is suspect already");
    nodes.up(1, 2);
    assert_eq!((nodes.used(), nodes.placement.suspect_ids().count()), (vec![0], 1));
    assert!(!nodes.passes(PROBATION - Duration::from_millis(1)));
    assert!(nodes.passes(Duration::from_millis(1)));
    assert!(!nodes.passes(PROBATION), "the change is reported once");
    assert_eq!((nodes.used(), nodes.placement.suspect_ids().count()), (vec![0, 2], 0));
}

#[test]
fn untried_node_is_trusted_when_its_trunk_is_up() {
    let mut nodes = Nodes::new(1);
    nodes.sees(&["n0", "n1", "n2"]);
    assert!(nodes.placement.failed(nodes.now, &node(2)));
    assert!(!nodes.placement.failed(nodes.now, &node(2)), "it is suspect already");
    nodes.up(1, 1);
    nodes.up(2, 2);
    assert_eq!(nodes.used(), [0, 1]);
    nodes.passes(PROBATION);
    assert_eq!(nodes.used(), [0, 1, 2]);
}

#[test]
fn failures_of_a_node_are_forgotten_when_it_leaves_the_view() {
    let mut nodes = Nodes::new(2);
    nodes.lost(1);
    nodes.sees(&["n0"]);
    assert_eq!(nodes.placement.suspect_ids().count(), 0);
    nodes.sees(&["n0", "n1"]);
    nodes.up(1, 2);
    assert_eq!(nodes.used(), [0, 2]);
}

#[test]
fn suspect_serves_when_all_nodes_are_suspect() {
    let mut nodes = Nodes::new(3);
    (0..3).for_each(|n| nodes.lost(n));
    assert_eq!(nodes.placement.usable_count(), 0);
    nodes.up(0, 0);
    nodes.placement.set_draining(&node(0), nodes.links[0], true);
    assert_eq!(nodes.used(), [0], "anything is better than nothing");
    nodes.up(1, 1);
    assert_eq!(nodes.used(), [1], "a suspect is better than one that drains");
}

#[test]
fn first_trusted_node_takes_no_clients_of_other_failed_nodes() {
    let mut nodes = Nodes::new(3);
    (0..3).for_each(|n| nodes.lost(n));
    nodes.up(0, 0);
    nodes.now += SECOND;
    nodes.up(1, 1);
    assert!(nodes.passes(PROBATION - SECOND));
    assert_eq!(nodes.used(), [0, 1]);
    nodes.up(2, 2);
    assert_eq!(nodes.used(), [0, 1], "its probation has begun only now");
}

#[test]
fn announced_end_of_a_trunk_is_no_failure() {
    let mut nodes = Nodes::new(2);
    nodes.placement.set_draining(&node(1), nodes.links[1], true);
    nodes.lost(1);
    assert!(!nodes.placement.failed(nodes.now, &node(1)), "nor is it that it cannot be reached meanwhile");
    nodes.up(1, 2);
    assert_eq!(nodes.used(), [0, 2]);
}

#[test]
fn end_of_an_old_trunk_keeps_the_new_one_to_the_same_node() {
    let mut nodes = Nodes::new(2);
    nodes.up(1, 2);
    assert_eq!(nodes.used(), [0, 2]);
    nodes.placement.set_draining(&node(1), nodes.links[1], true);
    nodes.lost(1);
    assert_eq!(nodes.used(), [0, 2]);
    assert!(!nodes.passes(PROBATION));
}

#[test]
fn node_keeps_its_trunk_when_it_returns_to_the_view() {
    let mut nodes = Nodes::new(2);
    let before = nodes.owners();
    nodes.sees(&["n0"]);
    nodes.sees(&["n0", "n1"]);
    nodes.up(1, 1);
    assert_eq!(nodes.owners(), before);
}

#[test]
fn draining_node_keeps_draining_when_it_is_named_again() {
    let mut nodes = Nodes::new(2);
    nodes.placement.set_draining(&node(1), nodes.links[1], true);
    nodes.sees(&["n0"]);
    nodes.sees(&["n0", "n1"]);
    nodes.up(1, 1);
    assert_eq!(nodes.used(), [0]);
}
