//! Servers of a scenario: real cores on a clock that the scenario advances.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant, UNIX_EPOCH};

use signaling_core::edge::{self, EdgeCore};
use signaling_core::node::{self, NodeCore};
use signaling_membership::{NodeEntry, View};
use signaling_protocol::NodeId;
use signaling_rendezvous::{KeyHash, Ranking};
use signaling_wire::{Incarnation, resume};

use crate::clients::{Client, Who};
use crate::wires::{Lane, Trunk};

/// Hold time of messages to absent recipients.
pub(crate) const HOLD: Duration = Duration::from_secs(20);
const TICK: Duration = node::SWEEP_INTERVAL;

/// A mesh in which every immediately possible event has happened.
pub(crate) struct Mesh {
    pub(crate) now: Instant,
    epoch: Instant,
    pub(crate) nodes: BTreeMap<String, NodeCore>,
    pub(crate) edges: BTreeMap<String, EdgeCore>,
    /// Trunks by edge and node.
    pub(crate) trunks: BTreeMap<(String, String), Trunk>,
    /// Open lanes by sending and receiving node.
    pub(crate) lanes: BTreeMap<(String, String), Lane>,
    /// Pairs of servers whose messages stay in flight. Acknowledgements have pairs of their own.
    pub(crate) held_back: BTreeSet<(String, String)>,
    pub(crate) answers_held_back: BTreeSet<(String, String)>,
    pub(crate) paused: BTreeSet<String>,
    pub(crate) clients: Vec<Client>,
    processes: u8,
}

impl Mesh {
    /// Creates nodes that all see each other, and edges with a trunk to each node.
    pub(crate) fn new(nodes: &[&str], edges: &[&str]) -> Self {
        let now = Instant::now();
        let edge_core = |edge: &&str| ((*edge).to_owned(), EdgeCore::new(edge::Settings::default()));
        let mut mesh = Self {
            now,
            epoch: now,
            nodes: BTreeMap::new(),
            edges: edges.iter().map(edge_core).collect(),
            trunks: BTreeMap::new(),
            lanes: BTreeMap::new(),
            held_back: BTreeSet::new(),
            answers_held_back: BTreeSet::new(),
            paused: BTreeSet::new(),
            clients: Vec::new(),
            processes: 0,
        };
        nodes.iter().for_each(|node| mesh.starts(node));
        nodes.iter().for_each(|node| mesh.sees(node, nodes));
        for edge in edges {
            nodes.iter().for_each(|node| mesh.trunk_is_up(edge, node));
        }
        // The lanes open.
        mesh.pass(Duration::from_secs(1));
        mesh
    }

    /// Creates a mesh with edges e and f. Returns it and an id of bob with this ranking of nodes.
    pub(crate) fn with_bob(candidates: &[&str]) -> (Self, String) {
        let mut nodes = candidates.to_vec();
        nodes.sort_unstable();
        (Self::new(&nodes, &["e", "f"]), named("bob", candidates))
    }

    /// Creates such a mesh with anna's socket at e, attached to this node.
    pub(crate) fn with_anna(candidates: &[&str], node: &str) -> (Self, String, Who) {
        let (mut mesh, bob_id) = Self::with_bob(candidates);
        let anna = mesh.connects("anna", "e", node);
        (mesh, bob_id, anna)
    }

    /// Creates such a mesh with anna's socket at e and bob's at f, attached to these nodes.
    pub(crate) fn with_pair(candidates: &[&str], annas: &str, bobs: &str) -> (Self, String, Who, Who) {
        let (mut mesh, bob_id, anna) = Self::with_anna(candidates, annas);
        let bob = mesh.connects(&bob_id, "f", bobs);
        (mesh, bob_id, anna, bob)
    }

    /// Creates such a mesh with bob's socket at e, attached to node a.
    pub(crate) fn with_bob_at_a(candidates: &[&str]) -> (Self, String, Who) {
        let (mut mesh, bob_id) = Self::with_bob(candidates);
        let bob = mesh.connects(&bob_id, "e", "a");
        (mesh, bob_id, bob)
    }

    /// Starts a node's process with empty state.
    pub(crate) fn starts(&mut self, id: &str) {
        self.processes += 1;
        let epoch = (self.epoch, UNIX_EPOCH + Duration::from_secs(1_700_000_000));
        let (name, incarnation) = (NodeId::new(id).unwrap(), Incarnation([self.processes; 8]));
        let settings = node::Settings::new(name, incarnation, resume::Key::new([1; 32]), epoch);
        self.nodes.insert(id.to_owned(), NodeCore::new(node::Settings { hold: HOLD, ..settings }));
    }

    /// Kills a node's process. Edges detect it.
    pub(crate) fn is_killed(&mut self, id: &str) {
        self.nodes.remove(id);
        self.end_lanes(|from, to| from == id || to == id);
        for ((edge, _), trunk) in self.trunks.extract_if(.., |(_, node), _| node == id) {
            self.edges.get_mut(&edge).unwrap().link_down(trunk.link);
        }
        self.flow();
    }

    /// Gives a node a view with `members`. Members with the prefix `-` drain.
    pub(crate) fn sees(&mut self, node: &str, members: &[&str]) {
        let member = |marked: &&str| {
            let id = marked.trim_start_matches('-');
            let address = format!("{id}:1").parse().unwrap();
            NodeEntry { id: NodeId::new(id).unwrap(), address, draining: marked.starts_with('-'), zone: None }
        };
        let view = Arc::new(View::new(members.iter().map(member)).unwrap());
        self.nodes.get_mut(node).unwrap().set_view(self.now, view);
        self.flow();
    }

    pub(crate) fn all_see(&mut self, members: &[&str]) {
        let nodes: Vec<_> = self.nodes.keys().cloned().collect();
        nodes.iter().for_each(|node| self.sees(node, members));
    }

    /// Starts the drain of a node.
    pub(crate) fn drains(&mut self, node: &str) {
        self.nodes.get_mut(node).unwrap().drain(self.now);
        self.flow();
    }

    /// Pauses a server. Its inputs wait.
    pub(crate) fn is_paused(&mut self, server: &str) {
        self.paused.insert(server.to_owned());
    }

    /// Resumes a server after a pause that it has detected.
    pub(crate) fn wakes(&mut self, server: &str) {
        self.paused.remove(server);
        match self.nodes.get_mut(server) {
            Some(node) => {
                node.on_process_pause(self.now);
                self.end_lanes(|_, to| to == server);
            }
            None => {
                self.edges.get_mut(server).unwrap().on_process_pause(self.now);
                self.trunks_stay_unread(server);
            }
        }
    }

    /// Returns the bytes held for absent recipients at a node.
    pub(crate) fn held_at(&self, node: &str) -> usize {
        self.nodes[node].held_bytes()
    }

    /// Advances the clock and runs all resulting events.
    pub(crate) fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.now += TICK;
            for (_, core) in self.nodes.iter_mut().filter(|(id, _)| !self.paused.contains(*id)) {
                core.sweep(self.now);
            }
            if (self.now - self.epoch).as_millis().is_multiple_of(edge::SWEEP_INTERVAL.as_millis()) {
                for (_, core) in self.edges.iter_mut().filter(|(id, _)| !self.paused.contains(*id)) {
                    core.sweep(self.now);
                }
            }
            self.acknowledge();
            self.flow();
        }
    }

    /// Runs every immediately possible event.
    pub(crate) fn flow(&mut self) {
        while self.serve_clients() | self.gather() | self.carry() {}
    }
}

/// Returns a client id with this ranking of nodes.
fn named(front: &str, candidates: &[&str]) -> String {
    let ranking = Ranking::new(0, candidates);
    let ranked = |id: &String| {
        ranking.candidates(KeyHash::of(id)).iter().map(|at| ranking.id(*at)).eq(candidates.iter().copied())
    };
    (0..).map(|n| format!("{front}-{n}")).find(ranked).unwrap()
}
