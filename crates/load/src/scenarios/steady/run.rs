use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use std::task::{Context as TaskContext, Waker};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Result;
use tokio::task::yield_now;
use tokio::time::sleep;

use super::Options;
use crate::client::Sent;
use crate::costs::{self, Costs, Watched};
use crate::fleet::{Fleet, Listener, progress};
use crate::latency::{Latencies, Percentiles};
use crate::ledger::{Ledger, Totals};
use crate::message::{Format, describe};
use crate::pairs::{partners, turns};
use crate::procfs::usage;
use crate::schedule::Schedule;
use crate::ticker::Ticker;

/// Messages sent before the readers have their turn, when many are overdue.
const MAX_BATCH: u64 = 500;
/// After the last message, how long a repeat of one may take to show.
const QUIET: Duration = Duration::from_millis(300);
/// How long the sender may lag behind the end of its schedule.
const OVERTIME_US: u64 = 250_000;

/// The books of a run. Shared by the sender and all readers, on one thread.
pub(super) struct Run {
    epoch: Instant,
    names: Vec<String>,
    partner_of: Vec<usize>,
    turns: Vec<usize>,
    format: Format,
    /// Of the pair whose receiver has this number.
    ledgers: RefCell<Vec<Ledger>>,
    /// Intended times of the messages whose latency counts, from the epoch.
    measured_us: Cell<(u64, u64)>,
    latencies: RefCell<Latencies>,
    arrived: Cell<u64>,
    foreign: Cell<u64>,
    others: RefCell<BTreeMap<String, u64>>,
    closed: RefCell<BTreeMap<String, u64>>,
    is_over: Cell<bool>,
}

/// How the sending went.
pub(super) struct Sending {
    pub(super) planned: u64,
    pub(super) sent: u64,
    pub(super) lateness: Percentiles,
    pub(super) own_cpu_seconds: f64,
    /// Delivered while the costs were taken.
    pub(super) messages: u64,
    pub(super) costs: Option<Costs>,
}

impl Run {
    pub(super) fn new(options: &Options) -> Result<Self> {
        let clients = usize::try_from(options.fleet.clients)?;
        // Tells this run's messages from an earlier one's that were held for clients of the same names.
        let mark = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.subsec_nanos());
        Ok(Self {
            epoch: Instant::now(),
            names: (0..clients).map(|number| options.fleet.client_id(number)).collect(),
            partner_of: partners(clients, options.pairs, options.seed),
            turns: turns(clients, options.seed),
            format: Format::new(mark, options.size),
            ledgers: RefCell::new((0..clients).map(|_| Ledger::default()).collect()),
            measured_us: Cell::new((0, 0)),
            latencies: RefCell::new(Latencies::new()?),
            arrived: Cell::new(0),
            foreign: Cell::new(0),
            others: RefCell::default(),
            closed: RefCell::default(),
            is_over: Cell::new(false),
        })
    }

    /// Sends what the schedule says, and measures from the end of the warm-up to the end of the schedule.
    pub(super) async fn send(
        self: &Rc<Self>,
        options: &Options,
        fleet: &Fleet,
        watched: &[Watched],
    ) -> Result<Sending> {
        let (warmup_us, measured_us) = (options.warmup * 1_000_000, options.seconds * 1_000_000);
        let schedule = Schedule { rate: options.rate, tick_us: options.tick_us, duration_us: warmup_us + measured_us };
        let bar = progress(options.warmup + options.seconds, "sending");
        // Before the ticker starts, so that at a tick the messages of that tick are due, and not just not yet.
        let start_us = self.now_us();
        let mut ticker = Ticker::every(Duration::from_micros(options.tick_us))?;
        self.measured_us.set((start_us + warmup_us, start_us + warmup_us + measured_us));

        let mut sender = Sender::new(self, fleet, schedule, start_us, schedule.due(warmup_us.saturating_sub(1)))?;
        sender.send_until(&mut ticker, warmup_us, &bar).await?;
        let (before, own_before) = (costs::read(watched), own_cpu());
        let arrived_before = self.arrived.get();
        sender.send_until(&mut ticker, schedule.duration_us, &bar).await?;
        let messages = self.arrived.get() - arrived_before;
        let own_cpu_seconds = own_cpu() - own_before;
        let costs = (!watched.is_empty()).then(|| Costs::between(&before, &costs::read(watched), messages));
        sender.catch_up(&mut ticker, schedule.duration_us + OVERTIME_US).await?;
        bar.finish_and_clear();
        Ok(Sending {
            planned: schedule.total(),
            sent: sender.sent,
            lateness: sender.lateness.percentiles(),
            own_cpu_seconds,
            messages,
            costs,
        })
    }

    /// Waits until all has arrived, at most so long, and a little more for repeats.
    pub(super) async fn settle(&self, at_most: Duration) {
        let give_up = Instant::now() + at_most;
        loop {
            let totals = self.totals();
            if totals.lost == 0 || Instant::now() > give_up {
                break;
            }
            sleep(Duration::from_millis(20)).await;
        }
        sleep(QUIET).await;
    }

    /// From now on a socket that ends is no finding.
    pub(super) fn expect_endings(&self) {
        self.is_over.set(true);
    }

    pub(super) fn totals(&self) -> Totals {
        Totals::of(self.ledgers.borrow().iter())
    }

    pub(super) fn latency(&self) -> Percentiles {
        self.latencies.borrow().percentiles()
    }

    /// Messages that were not for who got them, or not from this run.
    pub(super) fn foreign(&self) -> u64 {
        self.foreign.get()
    }

    /// Errors by code, and other frames by type.
    pub(super) fn others(&self) -> BTreeMap<String, u64> {
        self.others.borrow().clone()
    }

    /// Sockets that ended, by reason.
    pub(super) fn closed(&self) -> BTreeMap<String, u64> {
        self.closed.borrow().clone()
    }

    fn now_us(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    fn measured(&self) -> Range<u64> {
        let (from, to) = self.measured_us.get();
        from..to
    }
}

impl Listener for Run {
    fn text(&self, client: usize, text: &str) {
        let Some(arrival) = self.format.read(text) else {
            let what = describe(text);
            if what == "signal" {
                self.foreign.set(self.foreign.get() + 1);
            } else {
                *self.others.borrow_mut().entry(what).or_default() += 1;
            }
            return;
        };
        if arrival.from != self.names[self.partner_of[client]] {
            self.foreign.set(self.foreign.get() + 1);
            return;
        }
        if self.ledgers.borrow_mut()[client].arrived(arrival.number) {
            self.arrived.set(self.arrived.get() + 1);
            if self.measured().contains(&arrival.time_us) {
                self.latencies.borrow_mut().record_us(self.now_us().saturating_sub(arrival.time_us));
            }
        }
    }

    fn ended(&self, _client: usize, reason: String) {
        if !self.is_over.get() {
            *self.closed.borrow_mut().entry(reason).or_default() += 1;
        }
    }
}

/// The one loop that sends.
struct Sender<'a> {
    run: &'a Run,
    fleet: &'a Fleet,
    schedule: Schedule,
    start_us: u64,
    /// The next message of the schedule.
    next: u64,
    /// The first whose lateness counts.
    first_measured: u64,
    sent: u64,
    lateness: Latencies,
    /// Clients whose kernel buffer was full.
    stalled: Vec<usize>,
}

impl<'a> Sender<'a> {
    fn new(run: &'a Run, fleet: &'a Fleet, schedule: Schedule, start_us: u64, first_measured: u64) -> Result<Self> {
        let (lateness, stalled) = (Latencies::new()?, Vec::new());
        Ok(Self { run, fleet, schedule, start_us, next: 0, first_measured, sent: 0, lateness, stalled })
    }

    fn elapsed_us(&self) -> u64 {
        self.run.now_us() - self.start_us
    }

    async fn send_until(&mut self, ticker: &mut Ticker, end_us: u64, bar: &indicatif::ProgressBar) -> Result<()> {
        loop {
            let now = self.elapsed_us();
            self.send_due(now.min(end_us)).await;
            if now >= end_us {
                return Ok(());
            }
            bar.set_position(now / 1_000_000);
            ticker.tick().await?;
        }
    }

    /// Sends what is overdue at the end of the schedule, as far as the overtime allows.
    async fn catch_up(&mut self, ticker: &mut Ticker, end_us: u64) -> Result<()> {
        while (self.next < self.schedule.total() || !self.stalled.is_empty()) && self.elapsed_us() < end_us {
            self.send_due(end_us).await;
            ticker.tick().await?;
        }
        Ok(())
    }

    async fn send_due(&mut self, now_us: u64) {
        let mut context = TaskContext::from_waker(Waker::noop());
        let fleet = self.fleet;
        self.stalled.retain(|client| !fleet.clients[*client].flush(&mut context));
        let due = self.schedule.due(now_us);
        while self.next < due {
            let batch_end = due.min(self.next + MAX_BATCH);
            while self.next < batch_end {
                self.send_next();
            }
            if self.next < due {
                yield_now().await;
            }
        }
    }

    fn send_next(&mut self) {
        let number = self.next;
        self.next += 1;
        let run = self.run;
        let turn = usize::try_from(number % run.turns.len() as u64).unwrap_or(0);
        let client = run.turns[turn];
        let receiver = run.partner_of[client];
        let time_us = self.start_us + self.schedule.time_us(number);
        let in_pair = run.ledgers.borrow()[receiver].next();
        let text = run.format.write(&run.names[receiver], client, in_pair, time_us);
        let sent = self.fleet.clients[client].send(text, &mut TaskContext::from_waker(Waker::noop()));
        if sent == Sent::Not {
            return;
        }
        if sent == Sent::Waits && !self.stalled.contains(&client) {
            self.stalled.push(client);
        }
        run.ledgers.borrow_mut()[receiver].sent();
        self.sent += 1;
        if number >= self.first_measured {
            self.lateness.record_us(run.now_us().saturating_sub(time_us));
        }
    }
}

fn own_cpu() -> f64 {
    usage(std::process::id()).map_or(0.0, |usage| usage.cpu_seconds)
}
