//! Pairs of clients that exchange numbered messages by a schedule.
//! A [`Workload`] plans the messages. The exchange sends each at its time, numbers it in the
//! ledger of its pair, reads the numbers of arrivals, and judges the delivery. `steady`,
//! `hostile`, `compare` and `drill` use [`Size`](crate::message::Size), `calls` uses [`Calls`].

mod calls;
mod ledger;
mod workload;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::client::{Client, Return};
use crate::driver::{Driver, run_mark, settle};
use crate::fleet::{Fleet, FleetOptions, FleetPlan, Listener};
use crate::message::{Format, Received, Wire};
use crate::record::{Record, count, is_break};
use crate::schedule::{Clock, Schedule};
use crate::servers::{self, Costs, Watched, own_cpu_seconds};
use ledger::Ledger;
use workload::{Message, Plan, Workload, partners, turns};

pub(crate) use calls::{CallOptions, CallTotals, Calls};
pub use ledger::{AckTotals, Totals};
pub(crate) use ledger::{Arrival, Recording};
pub(crate) use workload::{RunOptions, TrafficOptions};

/// Close code, as text, with which a server drains a client.
const GOING_AWAY: &str = "1001";

/// Kind of an exchange.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) run: RunOptions,
    /// Workload units started per second.
    pub(crate) rate: u64,
    /// Interval of the messages of a pair that request an ack: 1 for all, 0 for none.
    pub(crate) ack_interval: u64,
    /// `true` to keep the time of each event, for drills.
    pub(crate) is_recorded: bool,
    /// Wire protocol of the clients.
    pub(crate) wire: Wire,
}

impl Settings {
    /// Returns settings of native clients without acks and recording.
    pub(crate) fn new(run: &RunOptions, rate: u64) -> Self {
        Self { run: run.clone(), rate, ack_interval: 0, is_recorded: false, wire: Wire::Native }
    }

    fn schedule(&self) -> Schedule {
        self.run.schedule(self.rate)
    }
}

/// Counts of clients that come back after their socket ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Returns {
    /// Sockets that were closed with 1001.
    pub drained: u64,
    /// Clients that came back.
    pub returned: u64,
    /// Returns that resumed the session.
    pub resumed: u64,
    /// Connection attempts, including failed ones.
    pub tries: u64,
    /// Messages that clients sent again.
    pub retransmitted: u64,
    /// Clients whose socket ended within the schedule and that have not come back.
    pub away: u64,
}

/// The clients of one process with their plan, sent and received messages. It runs on one thread.
pub(crate) struct Exchange<W> {
    /// Origin of all times of the run.
    pub(crate) clock: Clock,
    settings: Settings,
    names: Vec<String>,
    partner_of: Vec<usize>,
    /// Clients in the order in which they begin units.
    turns: Vec<usize>,
    format: Format,
    work: RefCell<W>,
    plan: RefCell<Plan>,
    clients: RefCell<Vec<Rc<Client>>>,
    /// Ledger of each pair, by the number of its receiver.
    ledgers: RefCell<Vec<Ledger>>,
    record: RefCell<Record>,
    /// Times of single events, if they are recorded.
    pub(crate) recording: RefCell<Recording>,
    reconnect: bool,
    away_since_us: RefCell<BTreeMap<usize, u64>>,
    /// End of the sending on the clock, in microseconds.
    pub(crate) end_us: Cell<u64>,
}

impl<W: Workload> Exchange<W> {
    /// Creates an exchange without sockets, of a number of clients that is even and above 0.
    pub(crate) fn new(fleet: &FleetOptions, settings: Settings, work: W) -> Result<Rc<Self>> {
        let clients = usize::try_from(fleet.clients)?;
        let recording = Recording::for_messages(if settings.is_recorded { settings.schedule().total() } else { 0 });
        Ok(Rc::new(Self {
            clock: Clock::start(),
            names: (0..clients).map(|number| fleet.client_id(number)).collect(),
            partner_of: partners(clients, settings.run.seed),
            turns: turns(clients, settings.run.seed),
            format: Format::new(run_mark(), settings.wire),
            work: RefCell::new(work),
            plan: RefCell::default(),
            clients: RefCell::default(),
            ledgers: RefCell::new((0..clients).map(|_| Ledger::default()).collect()),
            record: RefCell::default(),
            recording: RefCell::new(recording),
            reconnect: fleet.reconnect,
            away_since_us: RefCell::default(),
            end_us: Cell::new(0),
            settings,
        }))
    }

    /// Connects all clients of the plan. Fails with the first client that cannot.
    pub(crate) async fn connect(self: &Rc<Self>, plan: FleetPlan) -> Result<Fleet> {
        let fleet = Fleet::connect(plan, self).await?;
        self.clients.borrow_mut().clone_from(&fleet.clients);
        Ok(fleet)
    }

    /// Sends by the schedule until it ends or `over` completes, and measures costs of `watched`.
    pub(crate) async fn run(&self, watched: &[Watched], over: impl Future<Output = ()>) -> Result<()> {
        let schedule = self.settings.schedule();
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

    /// Waits for all arrivals, answers and returns, at most for `settle_ms` of the options.
    pub(crate) async fn settle(&self) {
        let is_settled = || {
            self.send_due();
            self.plan.borrow().is_empty()
                && self.work.borrow().open() == 0
                && self.ack_totals().unanswered == 0
                && self.returns().away == 0
                && self.has_all_messages()
        };
        settle(Duration::from_millis(self.settings.run.settle_ms), is_settled).await;
    }

    fn has_all_messages(&self) -> bool {
        let Totals { sent, delivered, .. } = self.record.borrow().messages;
        sent == delivered || self.totals().lost == 0
    }

    /// Closes all sockets and returns the record.
    pub(crate) fn finish(&self, fleet: Fleet) -> Record {
        let (acks, returns) = (self.ack_totals(), self.returns());
        // The closes that follow count in a record that is never read.
        let mut record = Record { messages: self.totals(), acks, returns, ..self.record.take() };
        record.times.connect = fleet.close();
        record
    }

    /// Connects, awaits `gate`, runs the whole schedule, settles and closes. Fails as its parts.
    pub(crate) async fn play(
        self: Rc<Self>,
        plan: FleetPlan,
        watched: &[Watched],
        gate: impl Future<Output = Result<()>>,
    ) -> Result<Record> {
        let fleet = self.connect(plan).await?;
        gate.await?;
        self.run(watched, std::future::pending()).await?;
        self.settle().await;
        Ok(self.finish(fleet))
    }

    fn totals(&self) -> Totals {
        Totals::of(self.ledgers.borrow().iter())
    }

    fn ack_totals(&self) -> AckTotals {
        AckTotals::of(self.ledgers.borrow().iter())
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

    fn send(&self, client: &Client, Message { at_us, from, tag, bytes, .. }: Message) {
        let receiver = self.partner_of[from];
        let (ledger, mut record) = (&mut self.ledgers.borrow_mut()[receiver], self.record.borrow_mut());
        let number = ledger.next_number();
        let requests_ack = number.is_multiple_of(self.settings.ack_interval);
        let id = requests_ack.then_some(number);
        let text = self.format.write(&self.names[receiver], number, at_us, tag, id, bytes);
        if !client.send(text, id) {
            record.generator.unsent += 1;
            return;
        }
        ledger.sent();
        if requests_ack {
            ledger.requested(at_us);
        }
        record.messages.sent += 1;
        record.time(|times| &mut times.lateness, at_us, self.clock.now_us().saturating_sub(at_us));
    }

    /// Counts a text that is no message of the run. Returns the id that it answers.
    fn answered(&self, client: usize, answer: &Received<'_>) -> Option<u64> {
        let mut record = self.record.borrow_mut();
        // A message with a requested ack has its number as id.
        let answer_of = |id: u64, is_delivered| {
            let due_us = self.ledgers.borrow_mut()[self.partner_of[client]].answered(id, is_delivered)?;
            Some(self.clock.now_us().saturating_sub(due_us))
        };
        match answer {
            Received::Ack(id) => {
                if let Some(took_us) = answer_of(*id, true) {
                    record.times.ack.record_us(took_us);
                }
                return Some(*id);
            }
            Received::Error { code, id } => {
                if let Some(took_us) = id.and_then(|id| answer_of(id, false)) {
                    record.times.ack.record_us(took_us);
                }
                count(&mut record.received, code);
                record.errors += 1;
                return *id;
            }
            Received::Other(kind) if kind == "signal" => record.foreign += 1,
            Received::Other(kind) => count(&mut record.received, kind),
            Received::Message(_) => {}
        }
        None
    }
}

impl<W: Workload> Listener for Exchange<W> {
    fn text(&self, client: usize, text: &str) -> Option<u64> {
        let arrival = match self.format.read(text) {
            Received::Message(arrival) => arrival,
            answer => return self.answered(client, &answer),
        };
        if arrival.from != self.names[self.partner_of[client]] {
            self.record.borrow_mut().foreign += 1;
            return None;
        }
        if !self.ledgers.borrow_mut()[client].arrived(arrival.number) {
            return None;
        }
        let now_us = self.clock.now_us();
        let latency_us = now_us.saturating_sub(arrival.time_us);
        if self.settings.is_recorded {
            self.recording.borrow_mut().arrivals.push(Arrival::new(now_us, latency_us));
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
            self.ledgers.borrow_mut()[client].receiver_broke();
        }
        count(&mut self.record.borrow_mut().closed, &reason);
    }

    fn returned(&self, client: usize, how: &Return) {
        self.away_since_us.borrow_mut().remove(&client);
        self.recording.borrow_mut().returned_us.push(self.clock.now_us());
        let returns = &mut self.record.borrow_mut().returns;
        returns.returned += 1;
        returns.resumed += u64::from(how.resumed);
        returns.tries += u64::from(how.tries);
        returns.retransmitted += how.retransmitted.len() as u64;
        let mut ledgers = self.ledgers.borrow_mut();
        ledgers[client].receiver_returned();
        for number in &how.retransmitted {
            ledgers[self.partner_of[client]].retransmitted(*number);
        }
    }
}

/// Runs a whole load of clients that connect to the servers of `fleet`. Fails if one cannot.
pub(crate) async fn play<W: Workload>(
    fleet: &FleetOptions,
    settings: Settings,
    work: W,
    gate: impl Future<Output = Result<()>>,
) -> Result<Record> {
    let (plan, watched) = fleet.plan()?;
    Exchange::new(fleet, settings, work)?.play(plan, &watched, gate).await
}
