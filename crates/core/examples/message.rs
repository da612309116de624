//! Carries messages and their outcomes through the cores, edge to node to node to edge and back,
//! without I/O. It measures the cost of custody, under callgrind and without the set-up:
//!
//!     valgrind --tool=callgrind --toggle-collect='*Mesh*round*' \
//!         target/release/examples/message ROUNDS BATCH [reliable]
//!
//! A round carries BATCH messages of as many senders: BATCH messages share a trunk's write.

#![allow(clippy::disallowed_methods)]

mod mesh;

use anyhow::{Context as _, Result};
use signaling_core::edge::ClientKey;
use signaling_protocol::ClientId;
use signaling_rendezvous::Ranking;
use signaling_wire::lane::LENGTH_BYTES;

use self::mesh::{Lane, Mesh, TURN, owner};

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |name| arguments.next().with_context(|| format!("say {name}"))?.parse().with_context(|| name);
    let (rounds, batch): (usize, usize) = (number("ROUNDS")?, number("BATCH")?);
    let reliable = arguments.next().is_some_and(|word| word == "reliable");
    let mut mesh = MessageMesh::new(batch, reliable)?;
    for _ in 0..rounds {
        mesh.round()?;
    }
    let counts = mesh.mesh.edge.counts();
    let delivered = mesh.mesh.nodes[0].core.counts().delivered;
    println!("{} messages sent, {} written, {delivered} outcomes", counts.ups, counts.downs);
    Ok(())
}

struct Pair {
    sender: ClientKey,
    recipient: ClientKey,
    recipient_id: ClientId,
}

/// Two nodes: that of the senders, and that of the recipients.
struct MessageMesh {
    mesh: Mesh,
    reliable: bool,
    pairs: Vec<Pair>,
    rounds: u64,
}

impl MessageMesh {
    fn new(pairs: usize, reliable: bool) -> Result<Self> {
        let ids = ["node-a", "node-b"].map(str::to_owned);
        let mut mesh = Self { mesh: Mesh::new(&ids, |_| ())?, reliable, pairs: Vec::new(), rounds: 0 };
        let ranking = Ranking::new(0, &ids);
        let clients = |node| {
            let is_owned = |id: &String| owner(&ranking, &ids, id) == Some(node);
            (0..).map(|number| format!("client-{number}")).filter(is_owned).take(pairs).collect::<Vec<_>>()
        };
        for (sender, recipient) in clients(0).into_iter().zip(clients(1)) {
            let (sender, recipient_id) = (ClientId::new(&sender)?, ClientId::new(&recipient)?);
            let recipient = mesh.connect(recipient_id.clone(), 1)?;
            let sender = mesh.connect(sender, 0)?;
            mesh.pairs.push(Pair { sender, recipient, recipient_id });
        }
        Ok(mesh)
    }

    fn connect(&mut self, client_id: ClientId, node: usize) -> Result<ClientKey> {
        let client = self.mesh.connect(client_id, node, self.reliable);
        self.up(node)?;
        self.down(node)?;
        self.mesh.open_sockets();
        self.mesh.write_all();
        Ok(client)
    }

    /// Every sender sends one message, and its outcome comes back.
    #[inline(never)]
    fn round(&mut self) -> Result<()> {
        self.mesh.now += TURN;
        self.rounds += 1;
        for pair in &self.pairs {
            let text = format!(
                r#"{{"type":"signal","to":"{}","id":{},"data":{{"candidate":"{:200}"}}}}"#,
                pair.recipient_id.as_str(),
                self.rounds,
                "candidate:842163049 1 udp 1677729535 198.51.100.7 46154 typ srflx"
            );
            self.mesh.edge.heard(self.mesh.now, pair.sender);
            self.mesh.edge.client_text(self.mesh.now, pair.sender, text.as_bytes());
        }
        self.up(0)?;
        self.forward(0, 1)?;
        self.down(1)?;
        self.mesh.write_all();
        if self.reliable {
            let text = format!(r#"{{"type":"received","n":{}}}"#, self.rounds);
            for pair in &self.pairs {
                self.mesh.edge.heard(self.mesh.now, pair.recipient);
                self.mesh.edge.client_text(self.mesh.now, pair.recipient, text.as_bytes());
            }
        }
        self.up(1)?;
        self.forward(1, 0)?;
        self.down(0)?;
        self.mesh.write_all();
        Ok(())
    }

    /// Carries what the edge has for a node.
    fn up(&mut self, node: usize) -> Result<()> {
        let node = &mut self.mesh.nodes[node];
        let batch = self.mesh.edge.take_batch(node.link);
        Ok(node.core.trunk_frames(self.mesh.now, node.trunk, &batch)?)
    }

    /// Carries what a node has for the edge.
    fn down(&mut self, node: usize) -> Result<()> {
        let node = &mut self.mesh.nodes[node];
        let batch = node.core.take_trunk_batch(node.trunk);
        self.mesh.edge.link_frames(self.mesh.now, node.link, &batch)?;
        Ok(())
    }

    /// Carries what a node has for another one, and the acknowledgement.
    fn forward(&mut self, from: usize, to: usize) -> Result<()> {
        let Lane { peer, exchange, inbound } = self.mesh.lanes[&(from, to)];
        while let Some(frame) = self.mesh.nodes[from].core.take_lane_frame(self.mesh.now, peer, exchange) {
            self.mesh.nodes[to].core.batch(self.mesh.now, inbound, &frame[LENGTH_BYTES..])?;
        }
        if let Some(number) = self.mesh.nodes[to].core.take_acknowledgement(self.mesh.now, inbound.peer) {
            self.mesh.nodes[from].core.lane_acknowledged(self.mesh.now, peer, exchange, number);
        }
        Ok(())
    }
}
