//! Nodes that own rooms, with lanes in memory instead of a network.

use std::sync::Arc;
use std::time::{Duration, Instant, UNIX_EPOCH};

use signaling_core::node::{NodeCore, Settings};
use signaling_membership::{NodeEntry, View};
use signaling_protocol::{NodeId, RoomName};
use signaling_rooms::{OpResult, Request, RoomSettings, Rules};
use signaling_wire::{BatchNumber, Incarnation, forward, lane, resume};

use crate::test_room::START_MS;

/// Nodes in one view. They do not sweep, so a room changes by operations alone.
pub(crate) struct Mesh {
    nodes: Vec<NodeCore>,
    rules: Rules,
    /// The present time, in milliseconds since 1970.
    now_ms: u64,
    start: Instant,
    /// Number of processes so far.
    processes: u8,
    requests: usize,
    draining: Option<usize>,
}

impl Mesh {
    /// Starts nodes whose rooms have `rules`.
    pub(crate) fn new(nodes: usize, rules: Rules) -> Self {
        let (now_ms, start) = (START_MS, Instant::now());
        let mut mesh = Self { nodes: Vec::new(), rules, now_ms, start, processes: 0, requests: 0, draining: None };
        for index in 0..nodes {
            let node = mesh.start_node(index);
            mesh.nodes.push(node);
        }
        mesh.adopt_view();
        mesh
    }

    /// Lets time pass until `now_ms`. The nodes answer each other all the time.
    pub(crate) fn pass_until(&mut self, now_ms: u64) {
        while self.now_ms < now_ms {
            self.now_ms = now_ms.min(self.now_ms + 1_900);
            self.exchange_batches();
        }
    }

    /// Applies an operation that one node requests, each time another one. Returns the epoch and
    /// the result, without the epoch.
    pub(crate) fn apply(&mut self, request: &Request) -> (u64, OpResult) {
        self.requests += 1;
        let from = self.requests % self.nodes.len();
        self.nodes[from].rooms_mut().request_for_operator(0, request.clone());
        self.settle();
        let (_, answer) = self.nodes[from].rooms_mut().take_operator_answers().pop().expect("the owner answers");
        let commits: Vec<_> = self.nodes.iter_mut().flat_map(|node| node.rooms_mut().take_commits()).collect();
        let commit = commits.into_iter().rfind(|commit| commit.op.as_ref() == Some(&request.op));
        let announced = commit.expect("a node announces the result").result;
        let received = OpResult { changes: Vec::new(), nodes: Vec::new(), queue_moved: false, ..announced.clone() };
        assert_eq!(answer, Ok(received));
        (announced.epoch, OpResult { epoch: 0, base: 0, ..announced })
    }

    /// Gives a room to another node, or takes its owner's data. Returns `false` without an owner.
    pub(crate) fn replace_owner(&mut self, room: &RoomName, is_crash: bool) -> bool {
        let owner = self.nodes.iter().position(|node| node.rooms().owned(room.as_str()).is_some());
        let Some(owner) = owner.filter(|_| self.nodes.len() > 1) else { return false };
        if is_crash {
            self.nodes[owner] = self.start_node(owner);
        } else {
            self.draining = self.draining.is_none().then_some(owner);
        }
        self.adopt_view();
        true
    }

    fn start_node(&mut self, index: usize) -> NodeCore {
        self.processes += 1;
        let incarnation = Incarnation([self.processes; 8]);
        let epoch = (self.start, UNIX_EPOCH + Duration::from_millis(START_MS));
        let rooms = RoomSettings { rules: self.rules, records_commits: true, ..RoomSettings::default() };
        let settings = Settings::new(id_of(index), incarnation, resume::Key::new([1; 32]), epoch);
        NodeCore::new(Settings { rooms, ..settings })
    }

    fn adopt_view(&mut self) {
        let (now, draining) = (self.now(), self.draining);
        let member = |index| NodeEntry {
            id: id_of(index),
            address: address_of(index).parse().unwrap(),
            draining: draining == Some(index),
            zone: None,
        };
        let view = Arc::new(View::new((0..self.nodes.len()).map(member)).unwrap());
        self.nodes.iter_mut().for_each(|node| node.set_view(now, Arc::clone(&view)));
        self.settle();
    }

    fn now(&self) -> Instant {
        self.start + Duration::from_millis(self.now_ms - START_MS)
    }

    /// Carries batches until there are no more.
    fn settle(&mut self) {
        let is_quiet = (0..50).any(|_| !self.exchange_batches());
        assert!(is_quiet, "the nodes do not come to rest");
    }

    /// Returns `true` if there was a batch.
    fn exchange_batches(&mut self) -> bool {
        let (now, mut has_sent) = (self.now(), false);
        for from in 0..self.nodes.len() {
            self.nodes[from].send_room_tasks(now);
            let place = |address: &str| (0..self.nodes.len()).find(|index| address_of(*index) == address).unwrap();
            let peers = self.nodes[from].peers().addressed().filter_map(|(key, address)| Some((key, place(address?))));
            let peers: Vec<_> = peers.collect();
            for (peer, to) in peers {
                let [sender, recipient] = self.nodes.get_disjoint_mut([from, to]).unwrap();
                let opening = sender.peers_mut().open_lane(now, peer).unwrap();
                let inbound = recipient.accept_lane(now, &opening).unwrap().unwrap();
                sender.lane_opened(now, peer, opening.exchange, recipient.settings().incarnation);
                let mut last = BatchNumber::default();
                while let Some(frame) = sender.peers_mut().take_lane_frame(now, peer, opening.exchange) {
                    let batch = &frame[lane::HEAD_BYTES..];
                    last = forward::open(&mut &*batch).unwrap().0;
                    recipient.batch(now, inbound, batch).unwrap();
                    has_sent = true;
                }
                let of = lane::Acknowledgement { number: last, names_you: true };
                sender.lane_acknowledged(now, peer, opening.exchange, (of, recipient.number(now))).unwrap();
            }
        }
        has_sent
    }
}

fn id_of(index: usize) -> NodeId {
    NodeId::new(&format!("node-{index}")).unwrap()
}

fn address_of(index: usize) -> String {
    format!("node-{index}:1")
}
