//! Moves the rooms of a node that crashes to the other nodes, with the cores alone:
//!
//!     cargo run --release -p signaling-core --example rooms NODES ROOMS MEMBERS
//!
//! Each room gets MEMBERS members. The last node crashes, and its clients attach to other nodes.
//! Prints, for the joins and for the crash: the bytes on lanes, the CPU time of all nodes, and the
//! longest time of one call, which is the longest pause of a node.

#![allow(clippy::disallowed_methods)]

mod mesh;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use signaling_core::node::NodeCore;
use signaling_protocol::ClientId;
use signaling_rendezvous::Ranking;
use signaling_rooms::Rules;
use signaling_wire::lane::LENGTH_BYTES;

use self::mesh::{Lane, Mesh, TURN, owner, view};

/// Clients that connect, or join, in one turn.
const CLIENTS_PER_TURN: usize = 1_000;
/// Turns between two sweeps.
const SWEEP: u64 = 50;
/// Turns without work after which the mesh is at rest.
const REST: u64 = 2_000;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |name| arguments.next().with_context(|| format!("say {name}"))?.parse().with_context(|| name);
    let (nodes, rooms, members): (usize, usize, usize) = (number("NODES")?, number("ROOMS")?, number("MEMBERS")?);
    let ids: Vec<_> = (0..nodes).map(|node| format!("node-{node}")).collect();
    let rules = Rules { claimed: true, ..Rules::default() };
    let mesh = Mesh::new(&ids, |settings| settings.rooms.mesh = Some(rules))?;
    let mut bench = Bench { mesh, alive: (0..nodes).collect(), turns: 0, cost: Cost::default() };
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

struct Bench {
    mesh: Mesh,
    alive: BTreeSet<usize>,
    turns: u64,
    cost: Cost,
}

impl Bench {
    /// Calls the core of a node, and measures it.
    fn timed<T>(&mut self, what: &'static str, node: usize, call: impl FnOnce(&mut NodeCore, Instant) -> T) -> T {
        let start = Instant::now();
        let result = call(&mut self.mesh.nodes[node].core, self.mesh.now);
        let spent = start.elapsed();
        self.cost.cpu += spent;
        self.cost.longest = self.cost.longest.max((spent, what));
        result
    }

    /// One turn of all event loops. Returns `true` if a node had something to send.
    fn turn(&mut self) -> Result<bool> {
        self.mesh.now += TURN;
        self.turns += 1;
        let mut worked = false;
        let alive: Vec<_> = self.alive.iter().copied().collect();
        for &node in &alive {
            let (link, trunk) = (self.mesh.nodes[node].link, self.mesh.nodes[node].trunk);
            let batch = self.mesh.edge.take_batch(link);
            self.timed("trunk frames", node, |core, now| core.trunk_frames(now, trunk, &batch))?;
            if self.turns.is_multiple_of(SWEEP) {
                self.timed("sweep", node, NodeCore::sweep);
            }
            self.timed("room tasks", node, NodeCore::send_room_tasks);
        }
        for (from, to) in alive.iter().flat_map(|from| alive.iter().map(move |to| (*from, *to))) {
            let Some(&Lane { peer, exchange, inbound }) = self.mesh.lanes.get(&(from, to)) else { continue };
            while let Some(frame) =
                self.timed("lane frame", from, |core, now| core.take_lane_frame(now, peer, exchange))
            {
                self.cost.lane_bytes += frame.len();
                self.timed("batch", to, |core, now| core.batch(now, inbound, &frame[LENGTH_BYTES..]))?;
            }
            if let Some(number) =
                self.timed("acknowledgement", to, |core, now| core.take_acknowledgement(now, inbound.peer))
            {
                self.timed("acknowledged", from, |core, now| core.lane_acknowledged(now, peer, exchange, number));
            }
        }
        for &node in &alive {
            let (link, trunk) = (self.mesh.nodes[node].link, self.mesh.nodes[node].trunk);
            let batch = self.timed("trunk batch", node, |core, _| core.take_trunk_batch(trunk));
            worked |= !batch.is_empty();
            self.mesh.edge.link_frames(self.mesh.now, link, &batch)?;
        }
        self.mesh.open_sockets();
        self.mesh.write_all();
        Ok(worked)
    }

    /// Runs until no client has received anything for a while. Returns the time until then.
    fn rest(&mut self) -> Result<Duration> {
        let (start, mut last) = (self.mesh.now, self.mesh.now);
        let mut idle = 0;
        while idle < REST {
            match self.turn()? {
                true => (idle, last) = (0, self.mesh.now),
                false => idle += 1,
            }
        }
        Ok(last - start)
    }

    fn connect(&mut self, ids: &[String], clients: usize) -> Result<()> {
        let ranking = Ranking::new(0, ids);
        for client in 0..clients {
            let id = format!("client-{client}");
            let node = owner(&ranking, ids, &id).context("a client without an owner")?;
            self.mesh.connect(ClientId::new(&id)?, node, false);
            if client % CLIENTS_PER_TURN == 0 {
                self.turn()?;
            }
        }
        self.rest()?;
        Ok(())
    }

    fn join(&mut self, members: usize) -> Result<()> {
        for (number, client) in self.mesh.edge.clients().into_iter().enumerate() {
            let text = format!(r#"{{"type":"join","room":"room-{}","id":1}}"#, number / members);
            self.mesh.edge.heard(self.mesh.now, client);
            self.mesh.edge.client_text(self.mesh.now, client, text.as_bytes());
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
        let link = self.mesh.nodes[lost].link;
        let orphans: Vec<_> =
            self.mesh.edge.attached().filter(|(.., to)| *to == link).map(|(client, ..)| client).collect();
        self.mesh.edge.link_down(link);
        let (left, ranking) = (view(ids[..lost].iter().map(String::as_str))?, Ranking::new(0, &ids[..lost]));
        for node in 0..lost {
            self.timed("view", node, |core, now| core.set_view(now, left.clone()));
        }
        for client in orphans {
            let (id, _) = self.mesh.edge.identity(client).context("a client that is gone")?;
            let node = owner(&ranking, ids, id.as_str()).context("a client without an owner")?;
            self.mesh.edge.attach(self.mesh.now, client, self.mesh.nodes[node].link);
        }
        Ok(())
    }

    /// Waits for rest, prints the cost, and checks that each room has an owner and its members.
    fn check(&mut self, what: &str, rooms: usize, clients: usize) -> Result<()> {
        let time = self.rest()?;
        let Cost { lane_bytes, cpu, longest } = std::mem::take(&mut self.cost);
        let (mut owned, mut members, mut copies) = (0, 0, 0);
        for node in &self.alive {
            let core = &self.mesh.nodes[*node].core;
            copies += core.mesh_room_figures().map_or(0, |figures| figures.copies);
            for room in 0..rooms {
                let Some(room) = core.owned_room(&format!("room-{room}")) else { continue };
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
