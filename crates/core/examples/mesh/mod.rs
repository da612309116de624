//! A mesh of cores on one thread, without I/O: one edge, and nodes with a lane to each other.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, Result};
use signaling_core::edge::{ClientKey, ConnectRequest, EdgeCore, Effect, LinkKey, Newcomer, Settings as EdgeSettings};
use signaling_core::node::{InboundExchange, NodeCore, PeerKey, Settings, TrunkKey};
use signaling_core::{Member, View};
use signaling_protocol::{ClientId, NodeId};
use signaling_rendezvous::{KeyHash, Ranking};
use signaling_wire::{ExchangeNumber, Incarnation, SessionId};

/// Simulated duration of one turn of the event loops.
pub(crate) const TURN: Duration = Duration::from_millis(1);
const INCARNATION: Incarnation = Incarnation([1; 8]);

/// A node, and its trunk to the edge.
pub(crate) struct Node {
    pub(crate) core: NodeCore,
    /// The node's end of the trunk.
    pub(crate) trunk: TrunkKey,
    /// The edge's end of the trunk.
    pub(crate) link: LinkKey,
}

/// The lane from one node to another, in an exchange that never ends.
#[derive(Clone, Copy)]
pub(crate) struct Lane {
    /// The receiver, at the sender.
    pub(crate) peer: PeerKey,
    /// Number of the exchange, at the sender.
    pub(crate) exchange: ExchangeNumber,
    /// The exchange at the receiver.
    pub(crate) inbound: InboundExchange,
}

/// An edge and nodes, with their clock.
pub(crate) struct Mesh {
    /// Time of all cores. The caller advances it.
    pub(crate) now: Instant,
    pub(crate) edge: EdgeCore,
    pub(crate) nodes: Vec<Node>,
    /// Lanes by the positions of sender and receiver in `nodes`.
    pub(crate) lanes: BTreeMap<(usize, usize), Lane>,
}

/// Returns the address of the node at a position in the view.
fn address(node: usize) -> String {
    format!("127.0.0.1:{}", node + 1)
}

/// Returns a view of nodes with these ids, at 127.0.0.1 with ports from 1. Fails if an id is
/// invalid or occurs twice.
pub(crate) fn view<'a>(nodes: impl IntoIterator<Item = &'a str>) -> Result<Arc<View>> {
    let member =
        |(node, id)| anyhow::Ok(Member { id: NodeId::new(id)?, address: address(node).parse()?, draining: false });
    Ok(Arc::new(View::new(nodes.into_iter().enumerate().map(member).collect::<Result<Vec<_>>>()?)?))
}

/// Returns the position in `ids` of the node that owns a client. `None`: the ranking is empty, or
/// `ids` lacks the owner.
pub(crate) fn owner(ranking: &Ranking, ids: &[String], client: &str) -> Option<usize> {
    let owner = ranking.id(ranking.owner(KeyHash::of(client))?);
    ids.iter().position(|id| id == owner)
}

impl Mesh {
    /// Creates a mesh of nodes with these ids, a trunk from the edge to each and a lane between any
    /// two. `adjust` changes the settings of each node. Fails if an id is invalid or occurs twice.
    pub(crate) fn new(ids: &[String], adjust: impl Fn(&mut Settings)) -> Result<Self> {
        let now = Instant::now();
        let view = view(ids.iter().map(String::as_str))?;
        let mut edge = EdgeCore::new(EdgeSettings::default());
        let mut node = |id: &String| {
            let epoch = (now, SystemTime::now());
            let mut settings = Settings::new(NodeId::new(id)?, INCARNATION, b"0123456789abcdef", epoch);
            adjust(&mut settings);
            let mut core = NodeCore::new(settings);
            core.set_view(now, Arc::clone(&view));
            let trunk = core.trunk_up();
            anyhow::Ok(Node { core, trunk, link: edge.link_up() })
        };
        let nodes = ids.iter().map(&mut node).collect::<Result<Vec<_>>>()?;
        let mut mesh = Self { now, edge, nodes, lanes: BTreeMap::new() };
        for from in 0..ids.len() {
            for to in (0..ids.len()).filter(|to| *to != from) {
                mesh.open_lane(from, to)?;
            }
        }
        Ok(mesh)
    }

    fn open_lane(&mut self, from: usize, to: usize) -> Result<()> {
        let mut peers = self.nodes[from].core.peers();
        let (peer, _) = peers.find(|(_, peer)| *peer == address(to)).context("a node without a peer")?;
        drop(peers);
        let opening = self.nodes[from].core.open_lane(self.now, peer).context("an unknown peer")?;
        let inbound = self.nodes[to].core.lane_comes(self.now, &opening)?.context("a later exchange")?;
        self.nodes[from].core.lane_opened(self.now, peer, opening.exchange, INCARNATION);
        self.lanes.insert((from, to), Lane { peer, exchange: opening.exchange, inbound });
        Ok(())
    }

    /// Connects a client through the edge to the node at the position `node`. Returns its key at
    /// the edge. The caller carries the frames.
    pub(crate) fn connect(&mut self, client_id: ClientId, node: usize, reliable: bool) -> ClientKey {
        let accepted_at_us = 1 + self.edge.len() as u64;
        let session = SessionId(u128::from(KeyHash::of(client_id.as_str()).get()).to_le_bytes());
        let request = ConnectRequest::default();
        let client = self.edge.connect(self.now, Newcomer { client_id, session, accepted_at_us, reliable, request });
        self.edge.attach(self.now, client, self.nodes[node].link);
        client
    }

    /// Opens the sockets of admitted clients. Drops other effects of the edge.
    pub(crate) fn open_sockets(&mut self) {
        while let Some(effect) = self.edge.next_effect() {
            if let Effect::Accept(client) = effect {
                self.edge.socket_opened(self.now, client);
            }
        }
    }

    /// Lets the sockets take all pending output of the clients.
    pub(crate) fn write_all(&mut self) {
        for client in self.edge.take_clients_with_output() {
            let count = self.edge.output(client).len();
            self.edge.wrote(self.now, client, count);
        }
    }
}
