//! Carries messages and their outcomes through the cores, edge to node to node to edge and back,
//! without I/O. It measures the cost of custody, under callgrind and without the set-up:
//!
//!     valgrind --tool=callgrind --toggle-collect='*Mesh*round*' \
//!         target/release/examples/message ROUNDS BATCH [reliable]
//!
//! A round carries BATCH messages of as many senders: BATCH messages share a trunk's write.

#![allow(clippy::disallowed_methods)]

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, Result};
use signaling_core::edge::{ClientKey, ConnectRequest, EdgeCore, Effect, LinkKey, Newcomer, Settings as EdgeSettings};
use signaling_core::node::{InboundExchange, NodeCore, PeerKey, Settings, TrunkKey};
use signaling_core::{Member, View};
use signaling_protocol::{ClientId, NodeId};
use signaling_rendezvous::{KeyHash, Ranking};
use signaling_wire::lane::LENGTH_BYTES;
use signaling_wire::{ExchangeNumber, Incarnation, SessionId};

const NODES: [&str; 2] = ["node-a", "node-b"];
/// A round is a turn of the event loops.
const TURN: Duration = Duration::from_millis(1);

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |name| arguments.next().with_context(|| format!("say {name}"))?.parse().with_context(|| name);
    let (rounds, batch): (usize, usize) = (number("ROUNDS")?, number("BATCH")?);
    let reliable = arguments.next().is_some_and(|word| word == "reliable");
    let mut mesh = Mesh::new(batch, reliable)?;
    for _ in 0..rounds {
        mesh.round()?;
    }
    let counts = mesh.edge.counts();
    println!(
        "{} messages sent, {} written, {} outcomes",
        counts.ups,
        counts.downs,
        mesh.nodes[0].core.counts().delivered
    );
    Ok(())
}

struct Node {
    core: NodeCore,
    trunk: TrunkKey,
    /// The edge's end of the trunk.
    link: LinkKey,
}

/// The lane from one of the nodes to the other, in an exchange that never ends.
#[derive(Clone, Copy)]
struct Lane {
    peer: PeerKey,
    exchange: ExchangeNumber,
    inbound: InboundExchange,
}

struct Pair {
    sender: ClientKey,
    recipient: ClientKey,
    recipient_id: ClientId,
}

struct Mesh {
    now: Instant,
    reliable: bool,
    edge: EdgeCore,
    /// The senders' node and the recipients'.
    nodes: [Node; 2],
    /// The lane from each node.
    lanes: [Lane; 2],
    pairs: Vec<Pair>,
    rounds: u64,
}

fn open_lane(now: Instant, nodes: &mut [Node; 2], from: usize) -> Result<Lane> {
    let peer = nodes[from].core.peers().next().context("a node without a peer")?.0;
    let opening = nodes[from].core.open_lane(now, peer).context("an unknown peer")?;
    let inbound = nodes[1 - from].core.lane_comes(now, &opening)?.context("a later exchange")?;
    nodes[from].core.lane_opened(now, peer, opening.exchange, Incarnation([1; 8]));
    Ok(Lane { peer, exchange: opening.exchange, inbound })
}

impl Mesh {
    fn new(pairs: usize, reliable: bool) -> Result<Self> {
        let now = Instant::now();
        let member = |id| anyhow::Ok(Member { id: NodeId::new(id)?, address: "127.0.0.1:1".parse()?, draining: false });
        let view = Arc::new(View::new(NODES.into_iter().map(member).collect::<Result<Vec<_>>>()?)?);
        let mut edge = EdgeCore::new(EdgeSettings::default());
        let mut node = |id| {
            let (id, epoch) = (NodeId::new(id)?, (now, SystemTime::now()));
            let mut core = NodeCore::new(Settings::new(id, Incarnation([1; 8]), b"0123456789abcdef", epoch));
            core.set_view(now, Arc::clone(&view));
            let trunk = core.trunk_up();
            anyhow::Ok(Node { core, trunk, link: edge.link_up() })
        };
        let mut nodes = [node(NODES[0])?, node(NODES[1])?];
        let lanes = [open_lane(now, &mut nodes, 0)?, open_lane(now, &mut nodes, 1)?];
        let mut mesh = Self { now, reliable, edge, nodes, lanes, pairs: Vec::new(), rounds: 0 };
        let ids = |owner: &'static str| {
            let ranking = Ranking::new(0, NODES);
            let is_owned =
                move |id: &String| ranking.owner(KeyHash::of(id)).is_some_and(|index| ranking.id(index) == owner);
            (0..).map(|number| format!("client-{number}")).filter(is_owned).take(pairs)
        };
        for (sender, recipient) in ids(NODES[0]).zip(ids(NODES[1])) {
            let (sender, recipient_id) = (ClientId::new(&sender)?, ClientId::new(&recipient)?);
            let recipient = mesh.connect(recipient_id.clone(), 1)?;
            let sender = mesh.connect(sender, 0)?;
            mesh.pairs.push(Pair { sender, recipient, recipient_id });
        }
        Ok(mesh)
    }

    fn connect(&mut self, client_id: ClientId, node: usize) -> Result<ClientKey> {
        let accepted_at_us = 1 + self.edge.len() as u64;
        let session = SessionId(u128::from(KeyHash::of(client_id.as_str()).get()).to_le_bytes());
        let request = ConnectRequest::default();
        let client = self
            .edge
            .connect(self.now, Newcomer { client_id, session, accepted_at_us, reliable: self.reliable, request });
        self.edge.attach(self.now, client, self.nodes[node].link);
        self.up(node)?;
        self.down(node)?;
        while let Some(effect) = self.edge.next_effect() {
            if let Effect::Accept(client) = effect {
                self.edge.socket_opened(self.now, client);
            }
        }
        self.write_all();
        Ok(client)
    }

    /// Every sender sends one message, and its outcome comes back.
    #[inline(never)]
    fn round(&mut self) -> Result<()> {
        self.now += TURN;
        self.rounds += 1;
        for pair in &self.pairs {
            let text = format!(
                r#"{{"type":"signal","to":"{}","id":{},"data":{{"candidate":"{:200}"}}}}"#,
                pair.recipient_id.as_str(),
                self.rounds,
                "candidate:842163049 1 udp 1677729535 198.51.100.7 46154 typ srflx"
            );
            self.edge.heard(self.now, pair.sender);
            self.edge.client_text(self.now, pair.sender, text.as_bytes());
        }
        self.up(0)?;
        self.forward(0, 1)?;
        self.down(1)?;
        self.write_all();
        if self.reliable {
            let text = format!(r#"{{"type":"received","n":{}}}"#, self.rounds);
            for pair in &self.pairs {
                self.edge.heard(self.now, pair.recipient);
                self.edge.client_text(self.now, pair.recipient, text.as_bytes());
            }
        }
        self.up(1)?;
        self.forward(1, 0)?;
        self.down(0)?;
        self.write_all();
        Ok(())
    }

    fn up(&mut self, node: usize) -> Result<()> {
        let node = &mut self.nodes[node];
        let batch = self.edge.take_batch(node.link);
        Ok(node.core.trunk_frames(self.now, node.trunk, &batch)?)
    }

    fn down(&mut self, node: usize) -> Result<()> {
        let node = &mut self.nodes[node];
        let batch = node.core.take_trunk_batch(node.trunk);
        self.edge.link_frames(self.now, node.link, &batch)?;
        Ok(())
    }

    fn forward(&mut self, from: usize, to: usize) -> Result<()> {
        let Lane { peer, exchange, inbound } = self.lanes[from];
        while let Some(frame) = self.nodes[from].core.take_lane_frame(self.now, peer, exchange) {
            self.nodes[to].core.batch(self.now, inbound, &frame[LENGTH_BYTES..])?;
        }
        if let Some(number) = self.nodes[to].core.take_acknowledgement(self.now, inbound.peer) {
            self.nodes[from].core.lane_acknowledged(self.now, peer, exchange, number);
        }
        Ok(())
    }

    /// The sockets take everything.
    fn write_all(&mut self) {
        for client in self.edge.take_clients_with_output() {
            let count = self.edge.output(client).len();
            self.edge.wrote(self.now, client, count);
        }
    }
}
