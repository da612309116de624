//! A node: the real core with a simulated shell around it. `world` passes its inputs.

use std::collections::BTreeMap;

use signaling_core::node::{IDLE_SWEEP_INTERVAL, NodeCore, PeerKey, SWEEP_INTERVAL, Settings, TrunkKey};

use crate::agenda::{MS, Micros, micros};
use crate::counters::Counters;
use crate::event::{ConnId, ExchangeId, Host, Kind};
use crate::mutant::Mutant;
use crate::trunks::End;
use crate::world::{Server, World};

/// One node, over all its processes.
pub(crate) struct NodeHost {
    pub(crate) server: Server,
    pub(crate) core: NodeCore,
    /// The open connection of each trunk.
    pub(crate) conns: BTreeMap<TrunkKey, ConnId>,
    /// Index of each peer node.
    pub(crate) peers: BTreeMap<PeerKey, usize>,
    /// The last exchange of the lane to each peer.
    pub(crate) lanes: BTreeMap<PeerKey, ExchangeId>,
    /// Failures in a row to open the lane to each peer.
    pub(crate) failures: BTreeMap<PeerKey, u32>,
    /// The open exchange of the lane from each peer.
    pub(crate) inbound_lanes: BTreeMap<PeerKey, ExchangeId>,
    /// Highest number of a batch to any peer.
    pub(crate) last_batch: u64,
    /// Time of the last sweep, and `true` if the core was idle after it.
    swept: (Micros, bool),
}

/// Adds the counts of a node's core to the counters of the run.
pub(crate) fn count(counters: &mut Counters, core: &NodeCore) {
    let counts = core.counts();
    counters.add("nodes: envelopes relayed", counts.relayed);
    counters.add("nodes: retransmissions", counts.retransmissions);
    counters.add("nodes: sessions resumed", counts.resumed);
    counters.add("nodes: lingering sessions moved", counts.lingering_moved);
    counters.add("nodes: holds expired", counts.expired);
    counters.add("nodes: detours", counts.detours);
    let counts = core.rooms().counts();
    counters.add("rooms: operations without a result", counts.failures);
    counters.add("rooms: resyncs", counts.resyncs);
    counters.add("rooms: seats restored", counts.restored);
    let counts = core.rooms().mesh_counts();
    counters.add("rooms: taken over", counts.taken_over);
    counters.add("rooms: rebuilt", counts.rebuilt);
    counters.add("rooms: copies sent", counts.copied);
    counters.add("rooms: requests without an answer in time", counts.timeouts);
}

impl NodeHost {
    fn new(server: Server, settings: Settings) -> Self {
        Self {
            server,
            core: NodeCore::new(settings),
            conns: BTreeMap::new(),
            peers: BTreeMap::new(),
            lanes: BTreeMap::new(),
            failures: BTreeMap::new(),
            inbound_lanes: BTreeMap::new(),
            last_batch: 0,
            swept: (0, false),
        }
    }
}

impl World {
    /// Starts a node under a new name. Discovery does not have it yet.
    pub(crate) fn add_node(&mut self, index: usize) {
        let settings = self.node_settings(index);
        self.nodes.push(NodeHost::new(Server::start(0), settings));
        self.node_sweeps_after(index, MS);
        self.journal_starts(index);
    }

    /// Starts a new process under the same name, which gets the latest view.
    pub(crate) fn restart_node(&mut self, index: usize) {
        let settings = self.node_settings(index);
        let node = &mut self.nodes[index];
        *node = NodeHost::new(Server::start(node.server.generation), settings);
        self.node_sweeps_after(index, MS);
        self.journal_starts(index);
        self.gets_latest_view(Host::Node(index));
    }

    /// Ends the process, drops its state and closes its ends of trunks and lanes.
    pub(crate) fn kill_node(&mut self, index: usize) {
        let settings = self.node_settings(index);
        let node = &mut self.nodes[index];
        count(&mut self.counters, &node.core);
        *node = NodeHost::new(node.server.killed(), settings);
        self.reset_conns(Host::Node(index));
        self.reset_lanes(index);
    }

    fn node_sweeps_after(&mut self, index: usize, delay: Micros) {
        self.later_as(Kind::Timer, Host::Node(index), delay, move |world| world.node_sweep(index));
    }

    fn node_sweep(&mut self, index: usize) {
        let (now, node) = (self.agenda.now(), &mut self.nodes[index]);
        let (last, was_idle) = node.swept;
        if self.mutant == Some(Mutant::Backups) {
            node.peers.keys().for_each(|peer| node.core.refused(self.agenda.instant(), *peer));
        }
        if !was_idle || !node.core.is_idle() || now - last >= micros(IDLE_SWEEP_INTERVAL) {
            node.core.sweep(self.agenda.instant());
            node.swept = (now, node.core.is_idle());
            self.acknowledge_all(index);
        }
        let conns: Vec<_> = self.nodes[index].conns.values().copied().collect();
        conns.into_iter().for_each(|conn| self.keep_alive(conn, End::Node));
        self.node_sweeps_after(index, micros(SWEEP_INTERVAL));
    }

    /// Handles bytes of an edge that arrive at a node. Bytes that it cannot read are a violation.
    pub(crate) fn node_frames(&mut self, id: ConnId, bytes: &[u8]) {
        let conn = &self.conns[id];
        let (index, trunk) = (conn.node, conn.trunk);
        if self.arrives(id, End::Node)
            && let Some(trunk) = trunk
            && let Err(error) = self.nodes[index].core.trunk_frames(self.agenda.instant(), trunk, bytes)
        {
            self.trunk_fails(id, End::Node, &error);
        }
    }

    /// Sends the output of the core to trunks and lanes, and checks its operations on rooms.
    pub(crate) fn node_turn(&mut self, index: usize) {
        let conns: Vec<_> = self.nodes[index].conns.values().copied().collect();
        self.nodes[index].core.send_room_tasks(self.agenda.instant());
        conns.into_iter().for_each(|conn| self.flush(conn, End::Node, false));
        self.lanes_turn(index);
        self.check_commits(index);
    }

    /// Returns `true` if the node has no view and thus refuses trunks and lanes.
    pub(crate) fn lacks_view(&self, index: usize) -> bool {
        self.mutant != Some(Mutant::MissingView) && !self.nodes[index].core.peers().has_view()
    }

    /// Accepts a trunk, or refuses it if the node has no view. A severed one gets no answer.
    pub(crate) fn node_connected(&mut self, id: ConnId) {
        let conn = &self.conns[id];
        let (index, edge) = (conn.node, conn.edge);
        if conn.severed {
            return;
        }
        if self.lacks_view(index) {
            self.counters.add("silence: trunks refused", u64::from(self.silences > 0));
            let delay = self.rng.delay();
            return self.later(Host::Edge(edge), delay, move |world| world.connect_failed(id));
        }
        self.trouble.opening(conn.began, self.agenda.now());
        let (conn, node) = (&mut self.conns[id], &mut self.nodes[index]);
        let trunk = node.core.trunk_up(self.agenda.instant());
        node.conns.insert(trunk, id);
        conn.trunk = Some(trunk);
        let side = conn.side(End::Node);
        side.open = true;
        side.heard = self.agenda.now();
        self.answer_connect(id);
    }
}
