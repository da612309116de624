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

/// Time of one turn of the event loops.
pub(crate) const TURN: Duration = Duration::from_millis(1);
const INCARNATION: Incarnation = Incarnation([1; 8]);

pub(crate) struct Node {
    pub(crate) core: NodeCore,
    pub(crate) trunk: TrunkKey,
    /// The edge's end of the trunk.
    pub(crate) link: LinkKey,
}

/// The lane from one node to another, in an exchange that never ends.
#[derive(Clone, Copy)]
pub(crate) struct Lane {
    pub(crate) peer: PeerKey,
    pub(crate) exchange: ExchangeNumber,
    pub(crate) inbound: InboundExchange,
}

pub(crate) struct Mesh {
    pub(crate) now: Instant,
    pub(crate) edge: EdgeCore,
    pub(crate) nodes: Vec<Node>,
    /// Lanes by sender and receiver.
    pub(crate) lanes: BTreeMap<(usize, usize), Lane>,
}

/// Returns the address of a node by its number.
fn address(node: usize) -> String {
    format!("127.0.0.1:{}", node + 1)
}

/// Returns a view of nodes, numbered from 0.
pub(crate) fn view<'a>(nodes: impl IntoIterator<Item = &'a str>) -> Result<Arc<View>> {
    let member =
        |(node, id)| anyhow::Ok(Member { id: NodeId::new(id)?, address: address(node).parse()?, draining: false });
    Ok(Arc::new(View::new(nodes.into_iter().enumerate().map(member).collect::<Result<Vec<_>>>()?)?))
}

/// Returns the position in `ids` of the node that owns a client.
pub(crate) fn owner(ranking: &Ranking, ids: &[String], client: &str) -> Option<usize> {
    let owner = ranking.id(ranking.owner(KeyHash::of(client))?);
    ids.iter().position(|id| id == owner)
}

impl Mesh {
    /// Creates a mesh whose nodes see each other. `adjust` changes their settings.
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

    /// Connects a client to a node through the edge.
    pub(crate) fn connect(&mut self, client_id: ClientId, node: usize, reliable: bool) -> ClientKey {
        let accepted_at_us = 1 + self.edge.len() as u64;
        let session = SessionId(u128::from(KeyHash::of(client_id.as_str()).get()).to_le_bytes());
        let request = ConnectRequest::default();
        let client = self.edge.connect(self.now, Newcomer { client_id, session, accepted_at_us, reliable, request });
        self.edge.attach(self.now, client, self.nodes[node].link);
        client
    }

    /// Opens the sockets of admitted clients.
    pub(crate) fn open_sockets(&mut self) {
        while let Some(effect) = self.edge.next_effect() {
            if let Effect::Accept(client) = effect {
                self.edge.socket_opened(self.now, client);
            }
        }
    }

    /// The sockets take everything.
    pub(crate) fn write_all(&mut self) {
        for client in self.edge.take_clients_with_output() {
            let count = self.edge.output(client).len();
            self.edge.wrote(self.now, client, count);
        }
    }
}
