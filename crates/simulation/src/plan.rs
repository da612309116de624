//! The plan of one run, drawn from its seed before the run begins.

use clap::builder::RangedU64ValueParser;
use clap::{ArgAction, Args, Parser, ValueEnum};
use signaling_protocol::CloseCode;

use crate::agenda::{Act, MS, Micros, SECOND};
use crate::event::{ClientIx, Exit};
use crate::mutant::Mutant;
use crate::rng::Rng;
use crate::world::World;

/// Size of a world and the faults in it.
#[derive(Debug, Clone, Args)]
pub struct Size {
    /// Number of nodes at the start.
    #[arg(long, default_value_t = 3)]
    pub nodes: usize,
    /// Number of zones, which nodes are in by turns; by default discovery names no zones.
    #[arg(long, default_value_t = 0)]
    pub zones: usize,
    /// Number of edges, at least 1.
    #[arg(long, default_value_t = 2, value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    pub edges: usize,
    /// Number of native clients. Worlds with rooms have 14 clients of dialects more.
    #[arg(long, default_value_t = 20)]
    pub clients: usize,
    /// Number of planned messages; none with fewer than two clients.
    #[arg(long, default_value_t = 500)]
    pub messages: usize,
    /// Maximum number of faults; one that finds no target does not occur.
    #[arg(long, default_value_t = 5)]
    pub faults: usize,
    /// Kinds of faults; by default all but short-pause, crash-zone, isolate, isolate-pair and dead.
    #[arg(long, value_name = "KIND,...", value_delimiter = ',', action = ArgAction::Set)]
    pub kinds: Vec<FaultKind>,
    /// Percentage of messages with a TTL of 1 s to 8 s.
    #[arg(long = "hasty", default_value_t = 5)]
    pub hasty_percent: u64,
    /// Native clients connect once, stay connected and read all output.
    #[arg(long = "steady")]
    pub steady_clients: bool,
    /// Percentage of worlds with rooms.
    #[arg(long = "rooms", default_value_t = 60)]
    pub rooms_percent: u64,
    /// Nodes of worlds with rooms write a journal, which may be away, slow, emptied or set back.
    #[arg(long)]
    pub journal: bool,
    /// Seconds by which the wall clock of each process differs from the true time, at most. Each
    /// start of a process sets it anew.
    #[arg(long = "skew", value_name = "SECONDS", default_value_t = 0)]
    pub skew_seconds: u64,
    /// Number of requests of operators that remove or block clients, or close rooms.
    #[arg(long = "operators", default_value_t = 0)]
    pub operator_requests: usize,
    /// `true` if edges of all worlds have the normal limits for senders and output; `false` if one
    /// world of six has small ones.
    #[arg(skip)]
    pub roomy_edges: bool,
    /// Rule that servers break; none by default. Enough seeds then show a violation or other
    /// counts.
    #[arg(long, value_name = "RULE")]
    pub mutant: Option<Mutant>,
}

impl Size {
    /// Returns the size by these flags, separated by spaces. Ends the process at an invalid one.
    pub fn of(flags: &str) -> Self {
        #[derive(Parser)]
        struct Flags {
            #[command(flatten)]
            size: Size,
        }
        Flags::parse_from([""].into_iter().chain(flags.split_whitespace())).size
    }

    /// Returns the kinds of faults that may happen: the usual ones if none are named.
    pub(crate) fn kinds(&self) -> Vec<FaultKind> {
        if self.kinds.is_empty() { FaultKind::usual().collect() } else { self.kinds.clone() }
    }
}

impl Default for Size {
    /// As a command line without flags.
    fn default() -> Self {
        Self::of("")
    }
}

/// Kind of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FaultKind {
    /// A node is killed and restarts later under its name.
    Crash,
    /// A node's process is paused.
    PauseNode,
    /// An edge's process is paused.
    PauseEdge,
    /// No packet passes between an edge and a node. Bytes in flight are lost or late.
    CutTrunk,
    /// The connection of a lane breaks with all bytes in flight, or delivers them late: up to 30 s,
    /// if no later connection overtakes it.
    CutLane,
    /// No packet passes between two nodes.
    CutNodes,
    /// No packet passes from one node to another.
    CutOneWay,
    /// A node is added.
    Join,
    /// A node drains and exits.
    Drain,
    /// Discovery removes a node and adds it again later.
    Flap,
    /// An edge is killed and restarts.
    CrashEdge,
    /// An edge disconnects its clients one by one and exits; another starts in its place.
    DrainEdge,
    /// Discovery sends no view to any server. A node restarts meanwhile and has none.
    Silence,
    /// A node's process is paused for 1.2 s to 1.99 s, which it does not detect. On resume its
    /// timers run before its inputs.
    ShortPause,
    /// All nodes of a zone are killed at once, and restart later under their names.
    CrashZone,
    /// No packet passes between a node and all other nodes, and edges still reach it. Discovery
    /// drops it at some time or not at all, and often sends it no view.
    Isolate,
    /// As `Isolate`, for two nodes that still reach each other, of at least five.
    IsolatePair,
    /// A node's machine dies: connections to it get no answer and no refusal. Discovery may drop
    /// it. It restarts later.
    Dead,
}

impl FaultKind {
    /// Returns the kinds that happen if none are named. Without the others a seed keeps its run.
    pub(crate) fn usual() -> impl Iterator<Item = Self> {
        let others = [Self::ShortPause, Self::CrashZone, Self::Isolate, Self::IsolatePair, Self::Dead];
        Self::value_variants().iter().copied().filter(move |kind| !others.contains(kind))
    }

    /// Returns its name in flags, logs and counters.
    pub fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}

/// One fault. Its target is drawn when it begins, from the servers of that moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fault {
    pub(crate) kind: FaultKind,
    /// Time at which it begins.
    pub(crate) at: Micros,
    pub(crate) lasts: Micros,
}

/// Properties of a client.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Traits {
    /// Bytes of output that its socket accepts at once, and the pause after them. `None`: all.
    pub(crate) takes: Option<(usize, Micros)>,
    /// `true` if it resumes with unanswered requests, and confirms messages by `received`.
    pub(crate) reliable: bool,
}

/// A planned message: its time, sender, recipient, TTL (`None`: the hold time) and extra bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sending {
    pub(crate) at: Micros,
    pub(crate) from: ClientIx,
    pub(crate) to: ClientIx,
    pub(crate) ttl_ms: Option<u64>,
    pub(crate) padding: usize,
}

/// All decisions before a run: clients, messages, other acts and faults.
pub(crate) struct Plan {
    pub(crate) traits: Vec<Traits>,
    pub(crate) sendings: Vec<Sending>,
    pub(crate) acts: Vec<(Micros, Act<World>)>,
    pub(crate) faults: Vec<Fault>,
    /// Hold time of the mesh.
    pub(crate) hold: Micros,
    /// Frames that an edge buffers for a reliable client.
    pub(crate) store_frames: usize,
}

const FIRST_SEND: Micros = SECOND;
const LAST_SEND: Micros = 30 * SECOND;
const FAULTS_FROM: Micros = 3 * SECOND;
const FAULTS_UNTIL: Micros = 26 * SECOND;
const MAX_FAULT: Micros = 8 * SECOND;
/// Longer than any view delay and any wait for a node that discovery dropped.
const MAX_ISOLATION: Micros = 18 * SECOND;
/// Longer than a restart, a probation, and the time after which the ledger excuses no fault.
const SILENCE_LASTS: Micros = 16 * SECOND;
const RELIABLE_PERCENT: u64 = 30;

/// Returns an exit that keeps the session, as of browsers, SDKs and networks.
fn keeping_exit(drawn: u64) -> Exit {
    match drawn % 6 {
        0 => Exit::Close(None),
        1 => Exit::Close(Some(CloseCode::GOING_AWAY)),
        2 => Exit::Close(Some(CloseCode::SOCKET_LEFT)),
        _ => Exit::Break,
    }
}

impl Plan {
    /// Draws the clients, messages and faults of a run.
    pub(crate) fn draw(rng: &mut Rng, size: &Size) -> Self {
        let mut plan = Self {
            traits: vec![Traits::default(); size.clients],
            sendings: Vec::new(),
            acts: Vec::new(),
            faults: Vec::new(),
            hold: rng.pick(&[12, 20, 20]).unwrap_or(20) * SECOND,
            store_frames: rng.pick(&[16, 48, 256]).unwrap_or(256),
        };
        for client in 0..size.clients {
            plan.client(rng, client, size);
        }
        plan.sendings(rng, size);
        for _ in 0..size.faults {
            let Some(kind) = rng.pick(&size.kinds()) else { continue };
            let at = rng.within(FAULTS_FROM, FAULTS_UNTIL);
            let lasts = match kind {
                FaultKind::Silence => SILENCE_LASTS + rng.within(300 * MS, MAX_FAULT),
                FaultKind::ShortPause => rng.within(1_200 * MS, 1_990 * MS),
                FaultKind::Isolate | FaultKind::IsolatePair | FaultKind::Dead => rng.within(SECOND, MAX_ISOLATION),
                _ => rng.within(300 * MS, MAX_FAULT),
            };
            plan.faults.push(Fault { kind, at, lasts });
        }
        plan
    }

    fn client(&mut self, rng: &mut Rng, client: ClientIx, size: &Size) {
        let early = rng.within(100 * MS, 800 * MS);
        self.traits[client].reliable = rng.percent(RELIABLE_PERCENT);
        // The first three are always connected, so that most messages have a recipient.
        let kind = if !size.steady_clients && client >= 3 { rng.within(0, 100) } else { 0 };
        match kind {
            0..=49 => self.connect(early, client),
            50..=59 => self.connect(rng.within(2 * SECOND, 16 * SECOND), client),
            60..=64 => {}
            65..=84 => self.come_and_go(rng, client, early),
            _ => {
                self.connect(early, client);
                if rng.percent(50) {
                    self.traits[client].takes = Some((rng.index(4_000) + 200, rng.within(MS, 20 * MS)));
                }
                for _ in 0..rng.within(1, 4) {
                    let lasts = rng.within(100 * MS, 8 * SECOND);
                    let stall = move |world: &mut World| world.client_stalls(client, lasts);
                    self.acts.push((rng.within(2 * SECOND, 20 * SECOND), Box::new(stall)));
                }
            }
        }
    }

    fn connect(&mut self, at: Micros, client: ClientIx) {
        self.acts.push((at, Box::new(move |world| world.client_connects(client))));
    }

    fn come_and_go(&mut self, rng: &mut Rng, client: ClientIx, early: Micros) {
        let mut at = early;
        for _ in 0..rng.within(1, 5) {
            self.connect(at, client);
            at += rng.within(2 * SECOND, 10 * SECOND);
            let (is_goodbye, noticed_after) = match rng.within(0, 3) {
                0 => (true, rng.delay()),
                1 => (false, rng.delay()),
                // A network that stalls holds back a close frame too.
                _ => (false, rng.within(SECOND, 10 * SECOND)),
            };
            let exit = if is_goodbye { Exit::GOODBYE } else { keeping_exit(noticed_after) };
            self.acts.push((at, Box::new(move |world| world.client_disconnects(client, exit, noticed_after))));
            at += match rng.within(0, 4) {
                0 => rng.within(10 * MS, 200 * MS),
                1 => rng.within(200 * MS, 2 * SECOND),
                2 => rng.within(2 * SECOND, 6 * SECOND),
                // Long enough for another node to own it by then.
                _ => rng.within(8 * SECOND, 20 * SECOND),
            };
        }
        if rng.percent(80) {
            self.connect(at, client);
        }
    }

    fn sendings(&mut self, rng: &mut Rng, size: &Size) {
        while self.sendings.len() < size.messages && size.clients > 1 {
            let from = rng.index(size.clients);
            // A client has few recipients, so that most pairs have an order that could break.
            let to = (from + 1 + rng.index(3.min(size.clients - 1))) % size.clients;
            let mut at = rng.within(FIRST_SEND, LAST_SEND);
            let burst = match rng.within(0, 20) {
                0 => rng.within(40, 90),
                1..=9 => rng.within(2, 12),
                _ => 1,
            };
            let every = rng.pick(&[0, MS, 20 * MS, 200 * MS]).unwrap_or(0);
            let padding = if rng.percent(3) { rng.index(20_000) } else { rng.index(100) };
            let ttl_ms = rng.percent(size.hasty_percent).then(|| rng.within(1_000, 8_000));
            for _ in 0..burst.min((size.messages - self.sendings.len()) as u64) {
                let to = if rng.percent(90) { to } else { (from + 1) % size.clients };
                self.sendings.push(Sending { at: at.min(LAST_SEND), from, to, ttl_ms, padding });
                at += every;
            }
        }
        // The numbers of a sender's messages then have the order in which it sends them.
        self.sendings.sort_by_key(|sending| sending.at);
    }
}
