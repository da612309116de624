//! Pairs of clients, or members of topics, that exchange numbered messages by a schedule.
//! A [`Workload`] plans the messages. The exchange sends each at its time, and numbers it in the
//! ledgers of its sender and each receiver. It reads the numbers of arrivals, and judges the
//! delivery.

mod calls;
mod ledger;
mod workload;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};
use tokio::time::sleep;

use crate::client::{Client, Return};
use crate::driver::{Driver, settle};
use crate::fleet::{Fleet, FleetOptions, FleetPlan, Listener};
use crate::message::{Arrival, Format, Received, Wire, subscribe};
use crate::record::{Record, count, is_break};
use crate::schedule::Clock;
use crate::servers::{self, Costs, Watched, own_cpu_seconds};
use ledger::{Ledger, totals};
use workload::{Groups, Message, Plan, Workload, turns};

pub(crate) use calls::{CallTotals, Calls};
pub use ledger::{AckTotals, Totals};
pub(crate) use ledger::{FirstArrival, Recording};
pub(crate) use workload::{RunOptions, TrafficOptions};

/// Close code, as text, with which a server drains a client.
const GOING_AWAY: &str = "1001";
const PROBE_INTERVAL: Duration = Duration::from_millis(100);
/// Probes of a topic until its members count as not subscribed, after 20 s.
const MAX_PROBES: usize = 200;

#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) run: RunOptions,
    /// Workload units (messages or calls) started per second.
    pub(crate) rate: u64,
    /// Interval of the messages of a client that request an ack: 1 for all, 0 for none.
    pub(crate) ack_interval: u64,
    /// `true` to keep the time of each arrival, for drills.
    pub(crate) is_recorded: bool,
    pub(crate) wire: Wire,
    /// Number of clients of a group, each of which sends to all others: 2 for pairs.
    pub(crate) group_size: usize,
}

impl Settings {
    /// Returns settings of pairs of native clients without acks and recording.
    pub(crate) fn new(run: &RunOptions, rate: u64) -> Self {
        Self { run: run.clone(), rate, ack_interval: 0, is_recorded: false, wire: Wire::Native, group_size: 2 }
    }
}

/// Ends and resumes of the sockets of clients; all 0 if clients do not resume sessions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Returns {
    /// Sockets that were closed with 1001.
    pub drained: u64,
    /// Successful reconnects. One client may have several.
    pub returned: u64,
    /// Reconnects that resumed the session; after all others the client has a new one.
    pub resumed: u64,
    /// Connection attempts of the successful reconnects, with the failed attempts before them.
    pub tries: u64,
    /// Messages that clients sent again after reconnects.
    pub retransmitted: u64,
    /// Clients whose socket ended before the end of the sending and that have not come back.
    pub away: u64,
}

/// The clients of one process with their plan, sent and received messages. It runs on one thread.
pub(crate) struct Exchange<W> {
    pub(crate) clock: Clock,
    settings: Settings,
    names: Vec<String>,
    groups: Groups,
    /// Clients in the order in which they begin units.
    turns: Vec<usize>,
    format: Format,
    work: RefCell<W>,
    plan: RefCell<Plan>,
    clients: RefCell<Vec<Rc<Client>>>,
    /// Clients that have not received a probe in their topic.
    unsubscribed: RefCell<BTreeSet<usize>>,
    /// Ledgers by the number of the receiver, and by the sender's place in their group. That of a
    /// client and itself stays empty.
    ledgers: RefCell<Vec<Vec<Ledger>>>,
    record: RefCell<Record>,
    /// Times of single events. Arrivals are in it only with `is_recorded` of the settings.
    pub(crate) recording: RefCell<Recording>,
    reconnect: bool,
    away_since_us: RefCell<BTreeMap<usize, u64>>,
    /// End of the sending on the clock, in microseconds: 0 before [`Self::run`], the planned one
    /// during it.
    pub(crate) end_us: Cell<u64>,
}

impl<W: Workload> Exchange<W> {
    /// Creates an exchange without sockets, of a number of clients that is above 0 and a multiple
    /// of the size of a group.
    pub(crate) fn new(fleet: &FleetOptions, settings: Settings, work: W) -> Result<Rc<Self>> {
        let clients = usize::try_from(fleet.clients)?;
        let size = settings.group_size;
        let recorded = if settings.is_recorded { settings.run.schedule(settings.rate).total() } else { 0 };
        // Allocated at once, so that no message waits for it.
        let arrivals = Vec::with_capacity(usize::try_from(recorded)?);
        Ok(Rc::new(Self {
            clock: Clock::start(),
            names: (0..clients).map(|number| fleet.client_id(number)).collect(),
            groups: Groups::new(clients, size, settings.run.seed),
            turns: turns(clients, settings.run.seed),
            format: Format::new(rand::random(), settings.wire),
            work: RefCell::new(work),
            plan: RefCell::default(),
            clients: RefCell::default(),
            unsubscribed: RefCell::default(),
            ledgers: RefCell::new((0..clients).map(|_| (0..size).map(|_| Ledger::default()).collect()).collect()),
            record: RefCell::default(),
            recording: RefCell::new(Recording { arrivals, ..Recording::default() }),
            reconnect: fleet.reconnect,
            away_since_us: RefCell::default(),
            end_us: Cell::new(0),
            settings,
        }))
    }

    /// Connects all clients of the plan. Fails with the first client that cannot, or if one is not
    /// subscribed to its topic after 20 s.
    pub(crate) async fn connect(self: &Rc<Self>, plan: FleetPlan) -> Result<Fleet> {
        let fleet = Fleet::connect(plan, self).await?;
        self.clients.borrow_mut().clone_from(&fleet.clients);
        if self.settings.wire == Wire::YWebrtc {
            self.subscribe(&fleet.clients).await?;
        }
        Ok(fleet)
    }

    /// Subscribes each client to the topic of its group. A subscription has no answer, so members
    /// publish probes in turn until each client has received one.
    async fn subscribe(&self, clients: &[Rc<Client>]) -> Result<()> {
        for (number, client) in clients.iter().enumerate() {
            client.send(subscribe(self.address(number)), None);
        }
        *self.unsubscribed.borrow_mut() = (0..clients.len()).collect();
        for turn in 0.. {
            let prober = |client: &usize| self.groups.of(*client)[turn % self.settings.group_size];
            let probers: BTreeSet<usize> = self.unsubscribed.borrow().iter().map(prober).collect();
            if probers.is_empty() {
                break;
            }
            ensure!(turn < MAX_PROBES, "no message reached {} subscribers", self.unsubscribed.borrow().len());
            for from in probers {
                clients[from].send(self.format.write([&self.names[from], self.address(from)], 0, 0, 0, None, 0), None);
            }
            sleep(PROBE_INTERVAL).await;
        }
        Ok(())
    }

    /// Sends by the schedule until it ends or `over` completes. Measures costs of `watched`, if it
    /// is not empty, unless `over` completes first. Fails if the timer breaks.
    pub(crate) async fn run(&self, watched: &[Watched], over: impl Future<Output = ()>) -> Result<()> {
        let schedule = self.settings.run.schedule(self.settings.rate);
        let warmup_us = self.settings.run.warmup * 1_000_000;
        let mut driver = Driver::start(schedule, self.clock, "sending")?;
        let (start_us, end_us) = (driver.start_us, driver.start_us + schedule.duration_us);
        self.end_us.set(end_us);
        self.record.borrow_mut().measured_us = start_us + warmup_us..end_us;
        let begin = |number: u64, at_us| {
            let from = self.turns[usize::try_from(number % self.turns.len() as u64).unwrap_or(0)];
            let (plan, record) = (&self.plan, &self.record);
            self.work.borrow_mut().begin(number, from, at_us, &mut plan.borrow_mut(), &mut record.borrow_mut());
            self.send_due();
        };
        let sending = async {
            driver.until(warmup_us, begin, || self.send_due()).await?;
            let (before, own_before) = (servers::read(watched), own_cpu_seconds());
            let delivered_before = self.record.borrow().messages.delivered;
            driver.until(schedule.duration_us, begin, || self.send_due()).await?;
            let own_us = (own_cpu_seconds() - own_before) * 1e6;
            let mut record = self.record.borrow_mut();
            let in_time = record.messages.delivered - delivered_before;
            record.costs = (!watched.is_empty()).then(|| Costs::between(&before, &servers::read(watched), in_time));
            record.generator.in_time = in_time;
            record.generator.cpu_us = own_us as u64;
            anyhow::Ok(())
        };
        tokio::select! {
            sent = sending => sent?,
            () = over => {}
        }
        let now_us = self.clock.now_us() - start_us;
        self.end_us.set(end_us.min(start_us + now_us));
        let mut record = self.record.borrow_mut();
        record.generator.planned = schedule.due(now_us);
        record.generator.begun = driver.begun;
        Ok(())
    }

    /// Waits for all arrivals, answers and returns, at most for `settle_ms` of the options. Waits
    /// 300 ms more for duplicates.
    pub(crate) async fn settle(&self) {
        let is_settled = || {
            self.send_due();
            self.plan.borrow().is_empty()
                && self.work.borrow().open() == 0
                && self.returns().away == 0
                && matches!(self.totals(), (Totals { lost: 0, .. }, AckTotals { unanswered: 0, .. }))
        };
        settle(Duration::from_millis(self.settings.run.settle_ms), is_settled).await;
    }

    /// Closes all sockets and returns the record.
    pub(crate) fn finish(&self, fleet: Fleet) -> Record {
        let ((messages, acks), returns) = (self.totals(), self.returns());
        let mut record = Record { messages, acks, returns, ..self.record.take() };
        record.times.connect = fleet.close();
        record
    }

    fn totals(&self) -> (Totals, AckTotals) {
        totals(self.ledgers.borrow().iter().flatten())
    }

    fn returns(&self) -> Returns {
        let end_us = self.end_us.get();
        let away = self.away_since_us.borrow().values().filter(|since_us| **since_us < end_us).count() as u64;
        Returns { away, ..self.record.borrow().returns }
    }

    fn send_due(&self) {
        let clients = self.clients.borrow();
        let now_us = self.clock.now_us();
        loop {
            let next = self.plan.borrow_mut().take_due(now_us);
            let Some(message) = next else { return };
            if let Some(client) = clients.get(message.from) {
                self.send(client, message);
            }
        }
    }

    /// Returns the partner of a client, or another member of its topic.
    fn partner(&self, client: usize) -> usize {
        self.groups.others(client).next().unwrap_or(client)
    }

    /// Returns the name to which a client sends: its partner's, or its topic, which has the name of
    /// a member.
    fn address(&self, from: usize) -> &str {
        let is_topic = self.settings.wire == Wire::YWebrtc;
        &self.names[if is_topic { self.groups.of(from)[0] } else { self.partner(from) }]
    }

    fn send(&self, client: &Client, Message { at_us, from, tag, bytes, .. }: Message) {
        let (mut ledgers, mut record) = (self.ledgers.borrow_mut(), self.record.borrow_mut());
        let (place, copies) = (self.groups.place(from), self.settings.group_size as u64 - 1);
        let number = ledgers[self.partner(from)][place].next_number();
        let requests_ack = number.is_multiple_of(self.settings.ack_interval);
        let id = requests_ack.then_some(number);
        let text = self.format.write([&self.names[from], self.address(from)], number, at_us, tag, id, bytes);
        if !client.send(text, id) {
            record.generator.unsent += copies;
            return;
        }
        for receiver in self.groups.others(from) {
            let ledger = &mut ledgers[receiver][place];
            ledger.sent();
            if requests_ack {
                ledger.requested(at_us);
            }
        }
        record.messages.sent += copies;
        record.time(|times| &mut times.lateness, at_us, self.clock.now_us().saturating_sub(at_us));
    }

    /// Records the answer to a message, whose id is its number. Returns the id.
    fn answered(&self, client: usize, id: u64, is_delivered: bool) -> Option<u64> {
        let ledger = &mut self.ledgers.borrow_mut()[self.partner(client)][self.groups.place(client)];
        if let Some(due_us) = ledger.answered(id, is_delivered) {
            self.record.borrow_mut().times.ack.record_us(self.clock.now_us().saturating_sub(due_us));
        }
        Some(id)
    }

    fn arrived(&self, client: usize, arrival: &Arrival<'_>) {
        let mut group = self.groups.of(client).iter();
        let Some(from) = group.position(|from| arrival.from == self.names[*from]) else {
            return self.record.borrow_mut().foreign += 1;
        };
        if from == self.groups.place(client) {
            // A topic's server also returns the sender's own copy.
            return;
        }
        if arrival.number == 0 {
            self.unsubscribed.borrow_mut().remove(&client);
            return;
        }
        if !self.ledgers.borrow_mut()[client][from].arrived(arrival.number) {
            return;
        }
        let now_us = self.clock.now_us();
        let latency_us = now_us.saturating_sub(arrival.time_us);
        if self.settings.is_recorded {
            self.recording.borrow_mut().arrivals.push(FirstArrival::new(now_us, latency_us));
        }
        let is_planned = {
            let (mut plan, mut record) = (self.plan.borrow_mut(), self.record.borrow_mut());
            record.messages.delivered += 1;
            record.time(|times| &mut times.latency, arrival.time_us, latency_us);
            self.work.borrow_mut().arrived(client, arrival.tag, now_us, &mut plan, &mut record);
            plan.is_due(now_us)
        };
        if is_planned {
            self.send_due();
        }
    }
}

impl<W: Workload> Listener for Exchange<W> {
    fn text(&self, client: usize, text: &str) -> Option<u64> {
        match self.format.read(text) {
            Received::Message(arrival) => self.arrived(client, &arrival),
            Received::Ack(id) => return self.answered(client, id, true),
            Received::Error { code, id } => {
                count(&mut self.record.borrow_mut().received, &code);
                self.record.borrow_mut().errors += 1;
                return self.answered(client, id?, false);
            }
            Received::Other(kind) if kind == "signal" => self.record.borrow_mut().foreign += 1,
            Received::Other(kind) => count(&mut self.record.borrow_mut().received, &kind),
        }
        None
    }

    fn ended(&self, client: usize, reason: String) {
        let now_us = self.clock.now_us();
        if self.reconnect {
            self.away_since_us.borrow_mut().insert(client, now_us);
            self.recording.borrow_mut().closed_us.push(now_us);
        }
        if self.reconnect && reason == GOING_AWAY {
            return self.record.borrow_mut().returns.drained += 1;
        }
        if self.reconnect && is_break(&reason) {
            self.ledgers.borrow_mut()[client].iter_mut().for_each(Ledger::receiver_broke);
        }
        count(&mut self.record.borrow_mut().closed, &reason);
    }

    fn returned(&self, client: usize, how: &Return) {
        let now_us = self.clock.now_us();
        let since_us = self.away_since_us.borrow_mut().remove(&client);
        self.recording.borrow_mut().returned_us.push(now_us);
        let record = &mut *self.record.borrow_mut();
        record.times.away.record_us(now_us - since_us.unwrap_or(now_us));
        let returns = &mut record.returns;
        returns.returned += 1;
        returns.resumed += u64::from(how.resumed);
        returns.tries += u64::from(how.tries);
        returns.retransmitted += how.retransmitted.len() as u64;
        let mut ledgers = self.ledgers.borrow_mut();
        ledgers[client].iter_mut().for_each(Ledger::receiver_returned);
        for number in &how.retransmitted {
            ledgers[self.partner(client)][self.groups.place(client)].retransmitted(*number);
        }
    }
}

/// Runs a whole load of the clients of `fleet`, which connect by the plan, and send once `gate`
/// completes. Measures costs of the watched processes. Fails if a client cannot connect, `gate`
/// fails or the timer breaks.
pub(crate) async fn play<W: Workload>(
    fleet: &FleetOptions,
    settings: Settings,
    work: W,
    (plan, watched): (FleetPlan, Vec<Watched>),
    gate: impl Future<Output = Result<()>>,
) -> Result<Record> {
    let exchange = Exchange::new(fleet, settings, work)?;
    let clients = exchange.connect(plan).await?;
    gate.await?;
    exchange.run(&watched, std::future::pending()).await?;
    exchange.settle().await;
    Ok(exchange.finish(clients))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Size;

    #[test]
    fn copies_of_a_topic_are_judged_for_each_other_member() {
        let run = RunOptions { seconds: 1, warmup: 0, seed: 1, settle_ms: 0 };
        let settings = Settings { wire: Wire::YWebrtc, group_size: 3, ..Settings::new(&run, 1) };
        let exchange = Exchange::new(&FleetOptions::new(6), settings, Size::Ice).unwrap();
        let [bob, carol] = exchange.groups.others(0).collect::<Vec<_>>()[..] else { panic!("a topic has 3 members") };
        let stranger = (0..6).find(|client| ![0, bob, carol].contains(client)).unwrap();
        exchange.unsubscribed.borrow_mut().extend(0..6);
        for to in [bob, bob, carol, carol] {
            exchange.ledgers.borrow_mut()[to][exchange.groups.place(0)].sent();
        }

        // Bob gets a probe, the first message, and the second one twice. Carol gets the first one.
        for (to, number) in [(0, 0), (bob, 0), (bob, 1), (bob, 2), (bob, 2), (carol, 1), (0, 1), (stranger, 1)] {
            let pair = [&*exchange.names[0], exchange.address(0)];
            exchange.text(to, &exchange.format.write(pair, number, 0, 0, None, 200));
        }

        assert_eq!([bob, carol].map(|member| exchange.address(member)), [exchange.address(0); 2]);
        assert_ne!(exchange.address(0), exchange.address(stranger));
        let expected = Totals { sent: 4, delivered: 3, lost: 1, duplicated: 1, ..Totals::default() };
        assert_eq!(exchange.totals().0, expected);
        let record = exchange.record.borrow();
        assert_eq!((record.messages.delivered, record.foreign), (3, 1));
        assert_eq!((exchange.unsubscribed.borrow().len(), exchange.unsubscribed.borrow().contains(&bob)), (5, false));
    }
}
