#![allow(clippy::unwrap_used)]

use super::*;
use crate::files::DiscoveredNode;
use ServerId::{Balancer, Node};

#[test]
fn node_is_listed_when_it_is_ready() {
    let mut roster = Roster::default();
    let run = roster.begin_start(Node(0), addresses(0)).unwrap();
    roster.started(Node(0), run, 100);
    assert_eq!((listed(&roster), running(&roster)), (vec![], vec![]));

    assert!(roster.ready(Node(0), run, None));
    start(&mut roster, Balancer(0));

    assert_eq!(listed(&roster), ["node-0"]);
    assert_eq!(running(&roster), ["node-0", "balancer-0"]);
}

#[test]
fn killed_node_stays_listed_until_the_notice() {
    let mut roster = nodes(2);

    let run = roster.begin_kill(Node(1)).unwrap();
    let exit = roster.exited(Node(1), run, killed());
    assert_eq!(exit, Exit::Killed);
    assert_eq!((listed(&roster), running(&roster)), (vec!["node-0".into(), "node-1".into()], vec!["node-0".into()]));
    assert_eq!(roster.ending(Node(1), run), None);
    roster.noticed(Node(1), run);

    assert_eq!(listed(&roster), ["node-0"]);
    assert_eq!(roster.ending(Node(1), run), Some(&killed()));
}

#[test]
fn late_notice_is_ignored_after_a_restart() {
    let mut roster = nodes(1);
    let first = roster.begin_kill(Node(0)).unwrap();
    roster.exited(Node(0), first, killed());

    start(&mut roster, Node(0));
    roster.noticed(Node(0), first);

    assert_eq!(listed(&roster), ["node-0"]);
}

#[test]
fn server_is_not_ready_when_it_ends_during_its_start() {
    let mut roster = Roster::default();
    let run = roster.begin_start(Node(0), addresses(0)).unwrap();
    roster.exited(Node(0), run, killed());

    assert!(!roster.ready(Node(0), run, None));
    assert_eq!(listed(&roster), Vec::<String>::new());
}

#[test]
fn scaling_up_takes_the_lowest_free_numbers() {
    let mut roster = nodes(3);
    let run = roster.begin_drain(Node(1)).unwrap();
    assert_eq!(roster.plan_scale(4).start, [Node(3), Node(4)]);
    roster.exited(Node(1), run, clean());

    assert_eq!(roster.plan_scale(4), ScalePlan { start: vec![Node(1), Node(3)], drain: vec![] });
}

#[test]
fn scaling_down_drains_the_highest_numbers() {
    let roster = nodes(12);

    assert_eq!(roster.plan_scale(9), ScalePlan { start: vec![], drain: vec![Node(11), Node(10), Node(9)] });
    assert_eq!(roster.plan_scale(12), ScalePlan::default());
}

#[test]
fn paused_server_can_be_killed_but_not_drained() {
    let mut roster = nodes(1);
    roster.pause(Node(0)).unwrap();

    assert_eq!(roster.begin_drain(Node(0)).unwrap_err().to_string(), "cannot drain node-0: it is paused");
    assert!(roster.begin_kill(Node(0)).is_ok());
}

#[test]
fn replaced_node_drains_when_its_successor_is_ready() {
    let mut roster = nodes(3);
    let newcomer = roster.plan_replacement(Node(1)).unwrap();
    let run = roster.begin_start(newcomer, addresses(0)).unwrap();
    assert_eq!((newcomer, listed(&roster)), (Node(3), vec!["node-0".into(), "node-1".into(), "node-2".into()]));

    assert!(roster.ready(newcomer, run, Some(Node(1))));

    assert_eq!(listed(&roster), ["node-0", "node-1 draining", "node-2", "node-3"]);
    assert!(roster.draining(Node(1)).is_ok());
}

#[test]
fn replacement_is_refused_unless_the_node_is_ready() {
    let mut roster = nodes(1);
    start(&mut roster, Balancer(0));
    roster.pause(Node(0)).unwrap();

    let refused = |roster: &mut Roster, id| roster.plan_replacement(id).unwrap_err().to_string();
    assert_eq!(refused(&mut roster, Balancer(0)), "cannot replace balancer-0: it is not a node");
    assert_eq!(refused(&mut roster, Node(0)), "cannot replace node-0: it is paused");
}

#[test]
fn unknown_server_is_refused_with_the_known_ones() {
    let mut roster = nodes(2);

    assert_eq!(roster.pause(Node(7)).unwrap_err().to_string(), "node-7 does not exist; use one of: node-0, node-1");
}

fn nodes(count: u32) -> Roster {
    let mut roster = Roster::default();
    for number in 0..count {
        start(&mut roster, Node(number));
    }
    roster
}

fn start(roster: &mut Roster, id: ServerId) {
    let run = roster.begin_start(id, addresses(0)).unwrap();
    roster.started(id, run, 100);
    assert!(roster.ready(id, run, None));
}

fn addresses(port: u16) -> Addresses {
    Addresses { internal: ([127, 0, 0, 1], port).into(), public: ([127, 0, 0, 1], port).into() }
}

fn clean() -> Ending {
    Ending { clean: true, text: "exited".into() }
}

fn killed() -> Ending {
    Ending { clean: false, text: "killed by signal 9".into() }
}

fn listed(roster: &Roster) -> Vec<String> {
    let line = |node: DiscoveredNode| if node.draining { format!("{} draining", node.id) } else { node.id };
    roster.discovery().into_iter().map(line).collect()
}

fn running(roster: &Roster) -> Vec<String> {
    roster.mesh_file().servers().map(|server| server.id.to_owned()).collect()
}
