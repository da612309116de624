//! Moves the rooms of a node that crashes to the other nodes, with the cores alone:
//!
//!     cargo run --release -p signaling-core --example rooms NODES ROOMS MEMBERS
//!
//! Each room gets MEMBERS members. The last of NODES (at least 2) nodes crashes, and its clients
//! attach to other nodes.
//! Prints, for the joins and for the crash: the bytes on lanes, the CPU time of all nodes, and the
//! longest time of one call, which is the longest pause of a node.

#![allow(clippy::disallowed_methods)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, Result, ensure};
use signaling_core::edge::{ConnectRequest, EdgeCore, Effect, LinkKey, Newcomer, Settings as EdgeSettings};
use signaling_core::node::{InboundExchange, NodeCore, PeerKey, Settings, TrunkKey};
use signaling_membership::{NodeEntry, View};
use signaling_protocol::{ClientId, NodeId};
use signaling_rendezvous::{KeyHash, Ranking};
use signaling_wire::lane::HEAD_BYTES;
use signaling_wire::{ExchangeNumber, Incarnation, SessionId, SocketId, resume};

/// Simulated duration of one turn of the event loops.
const TURN: Duration = Duration::from_millis(1);
const INCARNATION: Incarnation = Incarnation([1; 8]);
/// Clients that connect, or join, in one turn.
const CLIENTS_PER_TURN: usize = 1_000;
/// Turns between two sweeps.
const SWEEP: u64 = 50;
/// Turns without work after which the mesh is at rest.
const REST: u64 = 2_000;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |name| arguments.next().with_context(|| format!("no {name}"))?.parse().with_context(|| name);
    let (nodes, rooms, members): (usize, usize, usize) = (number("NODES")?, number("ROOMS")?, number("MEMBERS")?);
    let ids: Vec<_> = (0..nodes).map(|node| format!("node-{node}")).collect();
    let mut bench = Bench::new(&ids)?;
    bench.connect(&ids, rooms * members)?;
    bench.cost = Cost::default();
    bench.join(members)?;
    bench.check("joined", rooms, rooms * members)?;
    bench.crash(&ids)?;
    bench.check("crashed", rooms, rooms * members)
}

/// Cost of a phase.
#[derive(Default)]
struct Cost {
    lane_bytes: usize,
    cpu: Duration,
    /// Longest time of one call, and its name.
    longest: (Duration, &'static str),
}

/// A node, and both ends of its trunk to the edge.
struct Node {
    core: NodeCore,
    trunk: TrunkKey,
    link: LinkKey,
}

/// The lane from one node to another, in an exchange that never ends.
#[derive(Clone, Copy)]
struct Lane {
    /// The receiver, at the sender.
    peer: PeerKey,
    exchange: ExchangeNumber,
    /// The exchange at the receiver.
    inbound: InboundExchange,
}

/// One edge, and nodes with a lane to each other.
struct Bench {
    now: Instant,
    edge: EdgeCore,
    nodes: Vec<Node>,
    /// Lanes by the positions of sender and receiver in `nodes`.
    lanes: BTreeMap<(usize, usize), Lane>,
    alive: BTreeSet<usize>,
    turns: u64,
    cost: Cost,
}

/// Returns the address of the node at a position in the view.
fn address(node: usize) -> String {
    format!("127.0.0.1:{}", node + 1)
}

/// Returns a view of nodes with these ids, at 127.0.0.1 with ports from 1.
fn view(ids: &[String]) -> Result<Arc<View>> {
    let member = |(node, id): (usize, &String)| {
        anyhow::Ok(NodeEntry { id: NodeId::new(id)?, address: address(node).parse()?, draining: false, zone: None })
    };
    Ok(Arc::new(View::new(ids.iter().enumerate().map(member).collect::<Result<Vec<_>>>()?)?))
}

/// Returns the position in `ids` of the node that owns a client.
fn owner(ranking: &Ranking, ids: &[String], client: &str) -> Result<usize> {
    let owner = ranking.owner(KeyHash::of(client)).map(|owner| ranking.id(owner));
    ids.iter().position(|id| Some(&**id) == owner).context("a client without an owner")
}

impl Bench {
    fn new(ids: &[String]) -> Result<Self> {
        let now = Instant::now();
        let view = view(ids)?;
        let mut edge = EdgeCore::new(EdgeSettings::default());
        let mut node = |id: &String| {
            let epoch = (now, SystemTime::now());
            let mut settings = Settings::new(NodeId::new(id)?, INCARNATION, resume::Key::new([1; 32]), epoch);
            // The machine's memory is the limit.
            settings.rooms.max_bytes = usize::MAX;
            let mut core = NodeCore::new(settings);
            core.set_view(now, Arc::clone(&view));
            let trunk = core.trunk_up(now);
            anyhow::Ok(Node { core, trunk, link: edge.link_up(now, now) })
        };
        let nodes = ids.iter().map(&mut node).collect::<Result<Vec<_>>>()?;
        let (lanes, alive, cost) = (BTreeMap::new(), (0..ids.len()).collect(), Cost::default());
        let mut bench = Self { now, edge, nodes, lanes, alive, turns: 0, cost };
        for from in 0..ids.len() {
            for to in (0..ids.len()).filter(|to| *to != from) {
                bench.open_lane(from, to)?;
            }
        }
        Ok(bench)
    }

    fn open_lane(&mut self, from: usize, to: usize) -> Result<()> {
        let peer = self.nodes[from].core.peers().addressed().find(|(_, peer)| *peer == Some(&*address(to)));
        let (peer, _) = peer.context("a node without a peer")?;
        let opening = self.nodes[from].core.peers_mut().open_lane(self.now, peer).context("an unknown peer")?;
        let inbound = self.nodes[to].core.accept_lane(self.now, &opening)?.context("a later exchange")?;
        self.nodes[from].core.lane_opened(self.now, peer, opening.exchange, INCARNATION);
        self.lanes.insert((from, to), Lane { peer, exchange: opening.exchange, inbound });
        Ok(())
    }

    /// Calls the core of a node, and measures it.
    fn timed<T>(&mut self, what: &'static str, node: usize, call: impl FnOnce(&mut NodeCore, Instant) -> T) -> T {
        let start = Instant::now();
        let result = call(&mut self.nodes[node].core, self.now);
        let spent = start.elapsed();
        self.cost.cpu += spent;
        self.cost.longest = self.cost.longest.max((spent, what));
        result
    }

    /// One turn of all event loops. Returns `true` if a node had something to send.
    fn turn(&mut self) -> Result<bool> {
        self.now += TURN;
        self.turns += 1;
        let mut worked = false;
        let alive: Vec<_> = self.alive.iter().copied().collect();
        for &node in &alive {
            let (link, trunk) = (self.nodes[node].link, self.nodes[node].trunk);
            let batch = self.edge.take_batch(link);
            self.timed("trunk frames", node, |core, now| core.trunk_frames(now, trunk, &batch))?;
            if self.turns.is_multiple_of(SWEEP) {
                self.timed("sweep", node, NodeCore::sweep);
            }
            self.timed("room tasks", node, NodeCore::send_room_tasks);
        }
        for (from, to) in alive.iter().flat_map(|from| alive.iter().map(move |to| (*from, *to))) {
            let Some(&Lane { peer, exchange, inbound }) = self.lanes.get(&(from, to)) else { continue };
            while let Some(frame) =
                self.timed("lane frame", from, |core, now| core.peers_mut().take_lane_frame(now, peer, exchange))
            {
                self.cost.lane_bytes += frame.len();
                self.timed("batch", to, |core, now| core.batch(now, inbound, &frame[HEAD_BYTES..]))?;
            }
            if let Some(number) =
                self.timed("acknowledgement", to, |core, now| core.take_acknowledgement(now, inbound.peer))
            {
                self.timed("acknowledged", from, |core, now| {
                    core.lane_acknowledged(now, peer, exchange, (number, core.number(now)))
                })?;
            }
        }
        for &node in &alive {
            let (link, trunk) = (self.nodes[node].link, self.nodes[node].trunk);
            let batch = self.timed("trunk batch", node, |core, _| core.take_trunk_batch(trunk));
            worked |= !batch.is_empty();
            self.edge.link_frames(self.now, link, &batch)?;
        }
        // Opens the sockets of admitted clients, which take all output.
        while let Some(effect) = self.edge.next_effect() {
            if let Effect::Accept(client) = effect {
                self.edge.socket_opened(self.now, client);
            }
        }
        for client in self.edge.take_clients_with_output() {
            let count = self.edge.output(client).len();
            self.edge.wrote(self.now, client, count);
        }
        Ok(worked)
    }

    /// Runs until no client has received anything for a while. Returns the time until then.
    fn rest(&mut self) -> Result<Duration> {
        let (start, mut last) = (self.now, self.now);
        let mut idle = 0;
        while idle < REST {
            match self.turn()? {
                true => (idle, last) = (0, self.now),
                false => idle += 1,
            }
        }
        Ok(last - start)
    }

    fn connect(&mut self, ids: &[String], clients: usize) -> Result<()> {
        let ranking = Ranking::new(0, ids);
        for client in 0..clients {
            let client_id = ClientId::new(&format!("client-{client}"))?;
            let node = owner(&ranking, ids, client_id.as_str())?;
            let hash = KeyHash::of(client_id.as_str()).get();
            let (session, socket) = (SessionId(u128::from(hash).to_le_bytes()), SocketId(hash.to_le_bytes()));
            let request = ConnectRequest::default();
            let newcomer = Newcomer { client_id, session, socket, since_ms: 0, reliable: false, request };
            let key = self.edge.connect(self.now, newcomer, None);
            self.edge.attach(self.now, key, self.nodes[node].link);
            if client % CLIENTS_PER_TURN == 0 {
                self.turn()?;
            }
        }
        self.rest()?;
        Ok(())
    }

    fn join(&mut self, members: usize) -> Result<()> {
        for (number, client) in self.edge.clients().into_iter().enumerate() {
            let text = format!(r#"{{"type":"join","room":"room-{}","id":1}}"#, number / members);
            self.edge.heard(self.now, client);
            self.edge.client_text(self.now, client, text.as_bytes());
            if number % CLIENTS_PER_TURN == 0 {
                self.turn()?;
            }
        }
        self.rest()?;
        Ok(())
    }

    /// Has the last node crash, and its clients attach elsewhere.
    fn crash(&mut self, ids: &[String]) -> Result<()> {
        let lost = ids.len() - 1;
        self.alive.remove(&lost);
        let link = self.nodes[lost].link;
        let orphans: Vec<_> = self.edge.attached().filter(|(.., to)| *to == link).map(|(client, ..)| client).collect();
        self.edge.link_down(link);
        let (left, ranking) = (view(&ids[..lost])?, Ranking::new(0, &ids[..lost]));
        for node in 0..lost {
            self.timed("view", node, |core, now| core.set_view(now, left.clone()));
        }
        for client in orphans {
            let (id, _) = self.edge.identity(client).context("a client that is gone")?;
            let node = owner(&ranking, ids, id.as_str())?;
            self.edge.attach(self.now, client, self.nodes[node].link);
        }
        Ok(())
    }

    /// Waits for rest, prints the cost, and checks that each room has an owner and its members.
    fn check(&mut self, what: &str, rooms: usize, clients: usize) -> Result<()> {
        let time = self.rest()?;
        let Cost { lane_bytes, cpu, longest } = std::mem::take(&mut self.cost);
        let (mut owned, mut members, mut copies) = (0, 0, 0);
        for node in &self.alive {
            let core = &self.nodes[*node].core;
            copies += core.rooms().mesh_figures().copies;
            for room in 0..rooms {
                let Some(room) = core.rooms().owned(&format!("room-{room}")) else { continue };
                owned += 1;
                members += room.counts().0;
            }
        }
        println!(
            "{what}: {owned} rooms with {members} members and {copies} copies; lanes {:.1} MB, CPU of all nodes {:.2} s, \
             longest call {:.1} ms ({}), at rest after {:.2} s of simulated time",
            lane_bytes as f64 / 1e6,
            cpu.as_secs_f64(),
            longest.0.as_secs_f64() * 1e3,
            longest.1,
            time.as_secs_f64()
        );
        ensure!(owned == rooms && members == clients as u64, "rooms or members are missing");
        Ok(())
    }
}
