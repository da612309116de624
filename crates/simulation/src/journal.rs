//! A model of the journal: a Redis that is away, slow, emptied or set back, and the shells of nodes
//! that write it. A write of a slow Redis arrives though its node has given it up.

use std::collections::{BTreeMap, BTreeSet};

use signaling_protocol::{ClientId, RoomName};
use signaling_rooms::{
    JournalBans, JournalBeat, JournalClient, JournalOutcome, JournalRead, JournalRoom, JournalState, JournalSummary,
    JournalWrite, Registrations, Seat,
};
use signaling_wire::Incarnation;

use crate::agenda::{MS, Micros, SECOND};
use crate::event::{Host, Kind};
use crate::mutant::Mutant;
use crate::rng::Rng;
use crate::world::World;

/// As in the shell of a node.
const WRITE_INTERVAL: Micros = 100 * MS;
const MAX_BYTES: usize = 1024 * 1024;
const MAX_REGISTRATIONS: usize = 5_000;
const RETRY_INTERVAL: Micros = 5 * SECOND;
const BEAT_INTERVAL: Micros = 60 * SECOND;
const TIMEOUT: Micros = 2 * SECOND;
const STALE: Micros = 150 * SECOND;
/// Age of a sign of life from which on a former process of a node counts as dead.
const FORMER: Micros = 70 * SECOND;
/// Maximum delay of a request to a slow journal. Its node gives it up before.
const MAX_SLOW: Micros = 4 * TIMEOUT;
/// Time after a fault in which the journal is right again: a late request, a sign of life that
/// shows the difference, and its repair.
const REPAIR: Micros = MAX_SLOW + BEAT_INTERVAL + RETRY_INTERVAL;
/// Interval of the snapshots that a Redis is set back to.
const SNAPSHOT_INTERVAL: Micros = SECOND;
const MAX_SNAPSHOTS: usize = 5;
/// Times of faults of the journal.
const FIRST_FAULT: Micros = 2 * SECOND;
const LAST_FAULT: Micros = 20 * SECOND;

/// A process of a node: its index and its incarnation.
type Process = (usize, Incarnation);

/// State of the journal and of the nodes' connections to it.
#[derive(Default)]
pub(crate) struct JournalWorld {
    /// `false`: nodes have no journal.
    pub(crate) is_on: bool,
    rng: Rng,
    redis: Redis,
    snapshots: Vec<Redis>,
    away_until: Micros,
    slow_until: Micros,
    /// Time of the last fault.
    disturbed_at: Micros,
    /// The connection of each node, with the generation of its process.
    links: BTreeMap<usize, (u32, Link)>,
}

/// The connection of one process.
#[derive(Debug, Clone, Copy, Default)]
struct Link {
    is_busy: bool,
    /// Time of the next attempt, while the journal is down.
    down_until: Option<Micros>,
    beat_at: Micros,
}

/// Content of the model.
#[derive(Debug, Clone, Default)]
struct Redis {
    rooms: BTreeMap<RoomName, Entry>,
    registry: BTreeMap<ClientId, Process>,
    clients: BTreeMap<Process, BTreeSet<ClientId>>,
    heard: BTreeMap<Process, Micros>,
}

#[derive(Debug, Clone, Default)]
struct Entry {
    epoch: u64,
    number: u64,
    summary: JournalSummary,
    /// Bans as they were written, and when.
    bans: (JournalBans, Micros),
    seats: BTreeMap<ClientId, Seat>,
    is_partial: bool,
}

/// Kind of a fault of the journal.
#[derive(Debug, Clone, Copy)]
enum Fault {
    Away,
    Slow,
    Emptied,
    SetBack,
}

impl Entry {
    fn counts(&self) -> (u64, u64) {
        let members = self.seats.values().filter(|seat| seat.status.is_member()).count() as u64;
        (members, self.seats.len() as u64 - members)
    }
}

impl Redis {
    /// Applies a write as the script does. `Err` describes a broken rule.
    fn apply(&mut self, mutant: Option<Mutant>, now: Micros, write: &JournalWrite) -> Result<JournalOutcome, String> {
        let known = self.rooms.get(&write.room).cloned();
        let is_refused = known.as_ref().filter(|known| known.epoch > write.epoch);
        if let Some(known) = is_refused {
            if mutant != Some(Mutant::JournalFence) {
                return Ok(JournalOutcome::Refused(known.epoch));
            }
            return Err(format!("a write of epoch {} replaces {} of {}", write.epoch, known.epoch, write.room));
        }
        let is_next = |after| known.as_ref().is_some_and(|known| (known.epoch, known.number) == (write.epoch, after));
        let has_chain = mutant != Some(Mutant::JournalChain);
        if has_chain && write.after.is_some_and(|after| !is_next(after)) {
            return Ok(JournalOutcome::Lost);
        }
        let mut entry = known.filter(|_| write.after.is_some()).unwrap_or_default();
        (entry.epoch, entry.number) = (write.epoch, write.number);
        let mut outcome = JournalOutcome::Written;
        match &write.state {
            None => entry = Entry { epoch: entry.epoch, number: entry.number, ..Entry::default() },
            Some(JournalState { summary, bans, counts, clients, is_partial, beat }) => {
                entry.summary = *summary;
                if let Some(bans) = bans {
                    entry.bans = (bans.clone(), now);
                }
                entry.is_partial = *is_partial;
                for JournalClient { client, seat, .. } in clients {
                    match seat {
                        Some(seat) => drop(entry.seats.insert(client.clone(), seat.clone())),
                        None => drop(entry.seats.remove(client)),
                    }
                }
                if beat.is_some() && entry.counts() != *counts {
                    outcome = JournalOutcome::Lost;
                } else if !is_partial && entry.counts() != *counts {
                    return Err(format!("{} has {:?} clients, and its owner {counts:?}", write.room, entry.counts()));
                }
                debug_assert!(
                    beat.as_ref().is_none_or(|beat| knows_all(beat, &entry)) || outcome == JournalOutcome::Lost
                );
            }
        }
        self.rooms.insert(write.room.clone(), entry);
        Ok(outcome)
    }

    /// Writes changes of a process. Returns a client that it released though another process has
    /// registered it since.
    fn register(&mut self, mutant: Option<Mutant>, process: Process, changes: &Registrations) -> Option<ClientId> {
        let mut wrong = if changes.starts_anew { self.release_all(mutant, process) } else { None };
        for client in &changes.present {
            self.registry.insert(client.clone(), process);
            self.clients.entry(process).or_default().insert(client.clone());
        }
        for client in &changes.absent {
            wrong = self.release(mutant, process, client).or(wrong);
        }
        wrong
    }

    fn release(&mut self, mutant: Option<Mutant>, process: Process, client: &ClientId) -> Option<ClientId> {
        self.clients.entry(process).or_default().remove(client);
        let is_its = self.registry.get(client) == Some(&process);
        let removed = if is_its || mutant == Some(Mutant::Release) { self.registry.remove(client) } else { None };
        removed.filter(|removed| *removed != process).map(|_| client.clone())
    }

    fn release_all(&mut self, mutant: Option<Mutant>, process: Process) -> Option<ClientId> {
        let clients = self.clients.remove(&process).unwrap_or_default();
        let wrong = clients.iter().filter_map(|client| self.release(mutant, process, client)).last();
        self.clients.remove(&process);
        wrong
    }

    fn read(&self, now: Micros, room: &RoomName) -> Option<JournalRoom> {
        let entry = self.rooms.get(room)?;
        let (JournalBans { mut blocks, closed_for }, at) = entry.bans.clone();
        let rest = |time: u64| if time < u64::MAX { time.checked_sub((now - at) / MS) } else { Some(time) };
        blocks.retain_mut(|(_, time)| rest(*time).inspect(|rest| *time = *rest).is_some());
        let bans = JournalBans { blocks, closed_for: closed_for.and_then(rest) };
        if entry.seats.is_empty() && entry.summary.capacity.is_none() && bans == JournalBans::default() {
            return None;
        }
        let seats = entry.seats.values().cloned().collect();
        Some(JournalRoom { epoch: entry.epoch, summary: entry.summary, bans, seats })
    }
}

fn knows_all(beat: &JournalBeat, entry: &Entry) -> bool {
    beat.members.iter().chain(&beat.waiting).all(|client| entry.seats.contains_key(client))
}

impl World {
    /// Draws the faults of the journal.
    pub(crate) fn plan_journal(&mut self, seed: u64) {
        self.journal.is_on = true;
        self.journal.rng = Rng::new(seed ^ 0x0010_0e4a);
        for _ in 0..self.journal.rng.within(0, 4) {
            let kinds = [Fault::Away, Fault::Slow, Fault::Emptied, Fault::SetBack];
            let fault = self.journal.rng.pick(&kinds).unwrap_or(Fault::Away);
            let at = self.journal.rng.within(FIRST_FAULT, LAST_FAULT);
            self.agenda.schedule(at, move |world: &mut Self| world.journal_fails(fault));
        }
        self.agenda.schedule(SNAPSHOT_INTERVAL, Self::take_snapshot);
    }

    fn take_snapshot(&mut self) {
        let snapshot = self.journal.redis.clone();
        self.journal.snapshots.push(snapshot);
        if self.journal.snapshots.len() > MAX_SNAPSHOTS {
            self.journal.snapshots.remove(0);
        }
        if self.agenda.now() < LAST_FAULT {
            self.agenda.schedule(self.agenda.now() + SNAPSHOT_INTERVAL, Self::take_snapshot);
        }
    }

    fn journal_fails(&mut self, fault: Fault) {
        let now = self.agenda.now();
        let until = now + self.journal.rng.within(SECOND, 10 * SECOND);
        let journal = &mut self.journal;
        journal.disturbed_at = journal.disturbed_at.max(now);
        match fault {
            Fault::Away => journal.away_until = until,
            Fault::Slow => journal.slow_until = until,
            Fault::Emptied => journal.redis = Redis::default(),
            Fault::SetBack => journal.redis = journal.snapshots.first().cloned().unwrap_or_default(),
        }
        if matches!(fault, Fault::Away | Fault::Slow) {
            journal.disturbed_at = until;
        }
        self.trace.line(|| format!("JOURNAL {fault:?}"));
        self.counters.add("journal: faults", 1);
    }

    /// Has a started process of a node write its journal.
    pub(crate) fn journal_starts(&mut self, index: usize) {
        if self.journal.is_on {
            let generation = self.nodes[index].server.generation;
            self.journal.links.insert(index, (generation, Link::default()));
            self.nodes[index].core.forget_registrations();
            self.journal_ticks_after(index, MS);
        }
    }

    fn journal_ticks_after(&mut self, index: usize, delay: Micros) {
        self.later_as(Kind::Timer, Host::Node(index), delay, move |world| world.journal_tick(index));
    }

    fn link(&mut self, index: usize) -> &mut Link {
        &mut self.journal.links.entry(index).or_default().1
    }

    fn process(&self, index: usize) -> Process {
        (index, self.nodes[index].core.settings().incarnation)
    }

    /// Returns the delay of a request to the journal. `None`: it is away.
    fn journal_delay(&mut self) -> Option<Micros> {
        let now = self.agenda.now();
        let journal = &mut self.journal;
        let is_slow = now < journal.slow_until;
        let delay = journal.rng.within(MS / 5, if is_slow { MAX_SLOW } else { 20 * MS });
        (now >= journal.away_until).then_some(delay)
    }

    fn journal_tick(&mut self, index: usize) {
        self.journal_ticks_after(index, WRITE_INTERVAL);
        self.read_journal(index);
        let (now, at) = (self.agenda.now(), self.agenda.instant());
        let link = self.link(index);
        if link.is_busy || link.down_until.is_some_and(|until| now < until) {
            return;
        }
        if link.down_until.take().is_some() {
            self.nodes[index].core.set_journal_up(at, true);
        }
        let core = &mut self.nodes[index].core;
        let (writes, changes) = (core.take_journal(at, MAX_BYTES), core.take_registrations(MAX_REGISTRATIONS));
        let clients = core.sessions();
        let is_beat = now >= self.link(index).beat_at;
        if writes.is_empty() && changes == Registrations::default() && !is_beat {
            return;
        }
        self.link(index).is_busy = true;
        let delay = self.journal_delay();
        let process = self.process(index);
        if let Some(delay) = delay {
            // Its bytes arrive, also after the end of the process.
            let sent = writes.clone();
            let generation = self.nodes[index].server.generation;
            self.agenda.schedule(now + delay, move |world: &mut Self| {
                let outcomes = world.journal_applies(process, &sent, &changes);
                if is_beat {
                    world.journal_beats(process, clients);
                }
                if delay < TIMEOUT {
                    world.deliver(world.agenda.now(), (Host::Node(index), generation), Kind::Received, move |world| {
                        world.journal_answers(index, &sent, &outcomes, is_beat);
                    });
                }
            });
        }
        if delay.is_none_or(|delay| delay >= TIMEOUT) {
            self.later_as(Kind::Timer, Host::Node(index), TIMEOUT, move |world| world.journal_is_down(index, &writes));
        }
    }

    fn journal_applies(
        &mut self,
        process: Process,
        writes: &[JournalWrite],
        changes: &Registrations,
    ) -> Vec<JournalOutcome> {
        let mut outcomes = Vec::new();
        for write in writes {
            let applied = self.journal.redis.apply(self.mutant, self.agenda.now(), write);
            self.trace.line(|| format!("journal {} {}/{} {applied:?}", write.room, write.epoch, write.number));
            let outcome = applied.unwrap_or_else(|what| {
                self.ledger.broken("journal", what);
                JournalOutcome::Written
            });
            let counter = match outcome {
                JournalOutcome::Written => "journal: writes",
                JournalOutcome::Refused(_) => "journal: writes refused",
                JournalOutcome::Lost => "journal: writes lost",
            };
            self.counters.add(counter, 1);
            outcomes.push(outcome);
        }
        if *changes != Registrations::default() {
            self.trace.line(|| format!("journal of n{} {}: {changes:?}", process.0, process.1));
        }
        let wrong = self.journal.redis.register(self.mutant, process, changes);
        self.check_released(process, wrong);
        outcomes
    }

    fn check_released(&mut self, process: Process, wrong: Option<ClientId>) {
        let what = |client| format!("{client} of another process was released with those of n{}", process.0);
        self.ledger.broken_if("journal registry", wrong.map(what));
    }

    /// Handles a sign of life of a process, which then removes the entries of dead ones.
    fn journal_beats(&mut self, process: Process, clients: usize) {
        let (now, index) = (self.agenda.now(), process.0);
        let redis = &mut self.journal.redis;
        redis.heard.insert(process, now);
        let is_complete = redis.clients.get(&process).map_or(0, BTreeSet::len) == clients;
        if self.process(index) != process || !self.nodes[index].server.alive {
            return;
        }
        self.trace.line(|| format!("journal of n{index} is complete: {is_complete}"));
        let core = &mut self.nodes[index].core;
        if !is_complete {
            core.forget_registrations();
        }
        let others = self.journal.redis.heard.clone();
        for (other, heard) in others.into_iter().filter(|(other, _)| *other != process) {
            let (node, core) = (crate::edges::node_id(other.0), &self.nodes[index].core);
            let is_former = || core.is_former_process(node.as_str(), other.1);
            let is_dead = now - heard > STALE || (now - heard > FORMER && is_former());
            if is_dead && core.cleans(node.as_str()) {
                self.trace.line(|| format!("journal loses n{} {}", other.0, other.1));
                let wrong = self.journal.redis.release_all(self.mutant, other);
                self.check_released(other, wrong);
                self.journal.redis.heard.remove(&other);
                self.counters.add("journal: processes released", 1);
            }
        }
    }

    fn journal_answers(&mut self, index: usize, writes: &[JournalWrite], outcomes: &[JournalOutcome], is_beat: bool) {
        let (now, at) = (self.agenda.now(), self.agenda.instant());
        for (write, outcome) in writes.iter().zip(outcomes) {
            self.nodes[index].core.journal_written(at, &write.room, write.number, *outcome);
        }
        let link = self.link(index);
        link.is_busy = false;
        if is_beat {
            link.beat_at = now + BEAT_INTERVAL;
        }
    }

    fn journal_is_down(&mut self, index: usize, writes: &[JournalWrite]) {
        let (now, at) = (self.agenda.now(), self.agenda.instant());
        let core = &mut self.nodes[index].core;
        for write in writes {
            core.journal_written(at, &write.room, write.number, JournalOutcome::Lost);
        }
        core.forget_registrations();
        core.set_journal_up(at, false);
        let link = self.link(index);
        link.is_busy = false;
        link.down_until = Some(now + RETRY_INTERVAL);
    }

    /// Answers the node's requests for rooms.
    fn read_journal(&mut self, index: usize) {
        let (now, generation) = (self.agenda.now(), self.nodes[index].server.generation);
        let is_down = self.link(index).down_until.is_some();
        for room in self.nodes[index].core.take_journal_reads() {
            let delay = self.journal_delay().filter(|delay| *delay < TIMEOUT && !is_down);
            let is_broken = self.mutant == Some(Mutant::JournalRead);
            self.agenda.schedule(now + delay.unwrap_or(if is_down { MS } else { TIMEOUT }), move |world: &mut Self| {
                let found =
                    world.journal.redis.read(world.agenda.now(), &room).filter(|_| delay.is_some() && !is_broken);
                world.counters.add("journal: rooms read", u64::from(found.is_some()));
                world.deliver(world.agenda.now(), (Host::Node(index), generation), Kind::Received, move |world| {
                    let at = world.agenda.instant();
                    world.nodes[index].core.journal_read(at, JournalRead { room, found });
                });
            });
        }
    }

    /// Checks after a quiet time that the journal has the rooms of the owners. Counts clients that
    /// are not registered: while two nodes had one, the other may have released it.
    pub(crate) fn settle_journal(&mut self) {
        if !self.journal.is_on || self.agenda.now() < self.journal.disturbed_at + REPAIR {
            return;
        }
        self.counters.add("journal: compared when all was quiet", 1);
        for index in 0..self.nodes.len() {
            let node = &self.nodes[index];
            if !node.server.alive || node.server.pause.is_some() || self.link(index).is_busy {
                continue;
            }
            let process = self.process(index);
            let registry = &self.journal.redis.registry;
            let clients = self.nodes[index].core.client_ids();
            let lacking = clients.filter(|client| registry.get(*client) != Some(&process)).count() as u64;
            self.counters.add("journal: clients not registered", lacking);
        }
        let rules = self.rooms.settings().rules;
        for (room, capacity) in self.capacities() {
            let alive = self.nodes.iter().filter(|node| node.server.alive);
            let Some(owner) = alive.clone().find_map(|node| node.core.rooms().owned(room.as_str())) else { continue };
            let is_lost = capacity.is_some() && owner.own_capacity() != capacity;
            self.counters.add("journal: capacities lost", u64::from(is_lost));
            if alive.into_iter().any(|node| node.core.rooms().has_journal_writes()) {
                continue;
            }
            let seats: BTreeSet<_> = owner.seats(&rules).map(|(seat, _)| seat.requester.client.clone()).collect();
            let written = self.journal.redis.rooms.get(&room).map(|entry| entry.seats.keys().cloned().collect());
            let written: BTreeSet<_> = written.unwrap_or_default();
            let what = (seats != written).then(|| format!("{room} has {seats:?}, and its journal {written:?}"));
            self.ledger.broken_if("journal rooms", what);
        }
    }
}
