//! Servers with the very core of the real ones, their clients, a front, and what lies between, on a simulated clock.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use signaling_server::crowding::core::{ANSWER_WITHIN, Crowding, Decision, Heard, Own, Peer, Standing};

use super::scenario::{Outcome, Scenario, Trouble};
use super::tally::Tally;

const STEP_MS: u64 = 100;
const JOIN_AT_MS: u64 = 10_000;
const DEATH_AT_MS: u64 = 60_000;
/// Until discovery shows a server to its peers, or does not any more.
const SHOWN_AFTER_MS: (u64, u64) = (200, 3_000);
const GONE_AFTER_MS: u64 = 15_000;

pub(crate) struct World<'a> {
    scenario: &'a Scenario,
    rng: StdRng,
    start: Instant,
    now: u64,
    servers: Vec<Server>,
    agenda: BinaryHeap<Reverse<(u64, u64, Event)>>,
    planned: u64,
    /// The front: whose turn it is.
    turn: usize,
    tally: Tally,
}

pub(crate) struct Server {
    id: String,
    pub(crate) clients: u64,
    core: Option<Crowding>,
    /// What it has said last.
    connections: u64,
    pub(crate) standing: Standing,
    peers: BTreeMap<usize, Option<Heard>>,
    pub(crate) is_alive: bool,
    runs_again_at: u64,
    failures: u32,
    /// The front goes by this; before it was listed once it does not count as unready.
    pub(crate) is_listed: bool,
    pub(crate) was_listed: bool,
    /// The newest of what is on its way to the front.
    newest_listing: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Starts(usize),
    Asks(usize),
    IsAsked { by: usize, at: u64, whom: usize, back_ms: u64 },
    Answers { to: usize, at: u64, from: usize, connections: u64, standing: u8 },
    Looks { who: usize, next: u64 },
    IsProbed(usize),
    IsListed { who: usize, number: u64, ready: bool },
    IsShown { to: usize, whom: usize, there: bool },
    Pauses,
    Dies(usize),
}

const STANDINGS: [Standing; 4] = [Standing::Ready, Standing::Leaning, Standing::Crowded, Standing::Returning];

impl<'a> World<'a> {
    /// Runs the scenario from a seed.
    pub(crate) fn run(scenario: &'a Scenario, seed: u64) -> Outcome {
        let mut world = Self {
            scenario,
            rng: StdRng::seed_from_u64(seed),
            start: Instant::now(),
            now: 0,
            servers: Vec::new(),
            agenda: BinaryHeap::new(),
            planned: 0,
            turn: 0,
            tally: Tally::default(),
        };
        for n in 0..scenario.servers {
            world.plan(0, Event::Starts(n));
        }
        for n in 0..scenario.joins {
            world.plan(JOIN_AT_MS + 1_000 * n as u64, Event::Starts(scenario.servers + n));
        }
        match scenario.trouble {
            Trouble::None => {}
            Trouble::Death => world.plan(DEATH_AT_MS, Event::Dies(0)),
            Trouble::Pauses => world.plan(1_000, Event::Pauses),
        }
        let enough = scenario.until * scenario.held as f64;
        while (world.tally.came as f64) < enough && world.now < scenario.longest_s * 1_000 {
            world.step();
        }
        world.tally.outcome(world.now - JOIN_AT_MS, scenario)
    }

    fn step(&mut self) {
        self.now += STEP_MS;
        while let Some(Reverse((at, _, event))) = self.agenda.peek().copied().filter(|entry| entry.0.0 <= self.now) {
            self.agenda.pop();
            self.happens(at, event);
        }
        self.clients_come_and_go();
        if self.now >= JOIN_AT_MS {
            self.tally.look(&self.servers, self.scenario);
        }
    }

    fn plan(&mut self, at: u64, event: Event) {
        self.planned += 1;
        self.agenda.push(Reverse((at, self.planned, event)));
    }

    fn between(&mut self, (low, high): (u64, u64)) -> u64 {
        self.rng.random_range(low..=high)
    }

    fn clients_come_and_go(&mut self) {
        let step_s = STEP_MS as f64 / 1_000.0;
        let Scenario { held, servers, pace_s, leaving, .. } = *self.scenario;
        if leaving {
            let stay_s = pace_s * servers as f64;
            for server in &mut self.servers {
                let go = poisson(&mut self.rng, server.clients as f64 * step_s / stay_s);
                server.clients = server.clients.saturating_sub(go);
            }
        }
        for _ in 0..poisson(&mut self.rng, held as f64 / pace_s * step_s) {
            self.tally.came += u64::from(self.now >= JOIN_AT_MS);
            match self.front_picks() {
                Some(n) => self.servers[n].clients += 1,
                None => self.tally.turned_away += 1,
            }
        }
    }

    /// A server that does not take the connection is passed over.
    fn front_picks(&mut self) -> Option<usize> {
        let count = self.servers.len();
        let is_there = |n: &usize| self.servers[*n].is_listed && self.servers[*n].is_alive;
        if self.scenario.random {
            let there: Vec<usize> = (0..count).filter(is_there).collect();
            return (!there.is_empty()).then(|| there[self.rng.random_range(0..there.len())]);
        }
        self.turn = (1..=count).map(|n| (self.turn + n) % count).find(is_there)?;
        Some(self.turn)
    }

    fn happens(&mut self, at: u64, event: Event) {
        match event {
            Event::Starts(n) => self.starts(n),
            Event::Dies(n) => self.dies(n),
            Event::Pauses => {
                let (whom, until) = (self.rng.random_range(0..self.servers.len()), at + self.between((3_000, 8_000)));
                self.servers[whom].runs_again_at = until;
                let next = at + self.between((5_000, 30_000));
                self.plan(next, Event::Pauses);
            }
            Event::IsShown { to, whom, there: true } => {
                self.servers[to].peers.entry(whom).or_insert(None);
            }
            Event::IsShown { to, whom, there: false } => {
                self.servers[to].peers.remove(&whom);
            }
            Event::Asks(n) => self.asks(at, n),
            Event::IsAsked { by, at: asked_at, whom, back_ms } => {
                let Server { connections, standing, .. } = self.servers[whom];
                let standing = STANDINGS.iter().position(|one| *one == standing).unwrap_or_default() as u8;
                if self.runs(at, whom) && at + back_ms - asked_at <= ANSWER_WITHIN.as_millis() as u64 {
                    let answer = Event::Answers { to: by, at: asked_at, from: whom, connections, standing };
                    self.plan(at + back_ms, answer);
                }
            }
            Event::Answers { to, at, from, connections, standing } => {
                let asked_at = self.start + Duration::from_millis(at);
                let heard = Heard { asked_at, connections, standing: STANDINGS[usize::from(standing)] };
                if let Some(peer) = self.servers[to].peers.get_mut(&from) {
                    *peer = Some(heard);
                }
            }
            Event::Looks { who, next } => self.looks(at, who, next),
            Event::IsProbed(n) => self.is_probed(at, n),
            Event::IsListed { who, number, ready } => {
                let server = &mut self.servers[who];
                if number == server.newest_listing {
                    server.is_listed = ready;
                    server.was_listed |= ready;
                }
            }
        }
    }

    fn runs(&self, at: u64, n: usize) -> bool {
        self.servers[n].is_alive && at >= self.servers[n].runs_again_at
    }

    /// At the start all know one another and the front knows all; those that join are shown as discovery and probes do.
    fn starts(&mut self, n: usize) {
        let is_first = n < self.scenario.servers;
        let id = format!("server-{n}");
        let peers = (0..if is_first { self.scenario.servers } else { 0 }).filter(|other| *other != n);
        self.servers.push(Server {
            core: self.scenario.settings.map(|settings| Crowding::new(&id, settings)),
            id,
            clients: if is_first { self.scenario.held } else { 0 },
            connections: 0,
            standing: Standing::Ready,
            peers: peers.map(|other| (other, None)).collect(),
            is_alive: true,
            runs_again_at: 0,
            failures: 0,
            is_listed: is_first,
            was_listed: is_first,
            newest_listing: 0,
        });
        if !is_first {
            for other in 0..n {
                for (to, whom) in [(n, other), (other, n)] {
                    let at = self.now + self.between(SHOWN_AFTER_MS);
                    self.plan(at, Event::IsShown { to, whom, there: true });
                }
            }
        }
        let (asks, probed) = (self.between((0, 1_000)), self.between((0, self.scenario.probes.period_ms)));
        self.plan(self.now + asks, Event::Asks(n));
        self.plan(self.now + probed, Event::IsProbed(n));
    }

    fn dies(&mut self, n: usize) {
        self.servers[n].is_alive = false;
        self.servers[n].clients = 0;
        for to in (0..self.servers.len()).filter(|to| *to != n) {
            let at = self.now + GONE_AFTER_MS + self.between(SHOWN_AFTER_MS);
            self.plan(at, Event::IsShown { to, whom: n, there: false });
        }
    }

    fn asks(&mut self, at: u64, n: usize) {
        let Some(settings) = self.scenario.settings else { return };
        if !self.runs(at, n) {
            let again = self.servers[n].runs_again_at.max(at + 1);
            return if self.servers[n].is_alive {
                self.plan(again, Event::Asks(n));
            };
        }
        let longest = ANSWER_WITHIN.as_millis() as u64;
        let mut looks = at;
        for whom in self.servers[n].peers.keys().copied().collect::<Vec<_>>() {
            let (out_ms, back_ms) =
                (self.between(self.scenario.answers.delay_ms), self.between(self.scenario.answers.delay_ms));
            let is_lost = self.rng.random_range(0..100) < self.scenario.answers.lost_percent;
            if is_lost || !self.runs(at + out_ms, whom) || out_ms + back_ms > longest {
                looks = at + longest;
            } else {
                looks = looks.max(at + out_ms + back_ms);
            }
            if !is_lost {
                self.plan(at + out_ms, Event::IsAsked { by: n, at, whom, back_ms });
            }
        }
        let next = looks.max(at + settings.period.as_millis() as u64);
        // Behind what arrives at the same moment.
        self.plan(looks + 1, Event::Looks { who: n, next });
    }

    fn looks(&mut self, at: u64, n: usize, next: u64) {
        if !self.runs(at, n) {
            let again = self.servers[n].runs_again_at.max(at + 1);
            return if self.servers[n].is_alive {
                self.plan(again, Event::Looks { who: n, next: next.max(again) });
            };
        }
        let ids: Vec<String> = self.servers.iter().map(|server| server.id.clone()).collect();
        let now = self.start + Duration::from_millis(at);
        let server = &mut self.servers[n];
        let peers: Vec<_> = server.peers.iter().map(|(peer, heard)| Peer { id: &ids[*peer], heard: *heard }).collect();
        let own = Own { connections: server.clients, standing: Standing::Ready };
        if let Some(core) = &mut server.core {
            let Decision { standing, connections, .. } = core.look(now, own, &peers);
            let begins = standing == Standing::Crowded && server.standing != Standing::Crowded;
            self.tally.turns += u64::from(begins);
            (server.standing, server.connections) = (standing, connections);
        }
        self.plan(next, Event::Asks(n));
    }

    fn is_probed(&mut self, at: u64, n: usize) {
        let probes = self.scenario.probes;
        let says_ready = self.runs(at, n) && self.servers[n].standing != Standing::Crowded;
        // A pause is shorter than a probe's time limit here: it is the readiness by load that is looked at.
        let counts = says_ready || self.servers[n].standing == Standing::Crowded || !self.servers[n].is_alive;
        if counts {
            let server = &mut self.servers[n];
            let before = server.failures;
            server.failures = if says_ready { 0 } else { before + 1 };
            let news = if says_ready {
                before >= probes.failures || !server.was_listed
            } else {
                server.failures == probes.failures
            };
            if news {
                let number = self.planned + 1;
                server.newest_listing = number;
                let seen = at + self.between(probes.spread_ms);
                self.plan(seen, Event::IsListed { who: n, number, ready: says_ready });
            }
        }
        self.plan(at + probes.period_ms, Event::IsProbed(n));
    }
}

/// How many of events that happen so often on average: Knuth's way, in parts, since the mean may be large.
fn poisson(rng: &mut StdRng, mean: f64) -> u64 {
    let mut left = mean;
    let mut count = 0;
    while left > 0.0 {
        let part = left.min(20.0);
        left -= part;
        let limit = (-part).exp();
        let mut product = rng.random::<f64>();
        while product > limit {
            product *= rng.random::<f64>();
            count += 1;
        }
    }
    count
}
