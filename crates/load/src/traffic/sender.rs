use std::task::{Context as TaskContext, Waker};
use std::time::Duration;

use anyhow::Result;
use indicatif::ProgressBar;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use tokio::task::yield_now;

use super::acks::Question;
use super::{Books, TrafficOptions};
use crate::client::Sent;
use crate::costs::{self, Costs, Watched};
use crate::fleet::Fleet;
use crate::latency::Latencies;
use crate::procfs::own_cpu_seconds;
use crate::progress::progress;
use crate::schedule::Schedule;
use crate::ticker::Ticker;

/// Messages sent before the readers have their turn, when many are overdue.
const MAX_BATCH: u64 = 500;
/// How long the sender may lag behind the end of its schedule.
const OVERTIME_US: u64 = 250_000;

/// The sender has its turn at each tick; when it had none for so much longer, the whole harness stood still.
const STALL_US: u64 = 3_000;

/// How the sending went.
pub(crate) struct Sending {
    pub(super) planned: u64,
    pub(super) sent: u64,
    pub(super) lateness: Latencies,
    pub(super) own_cpu_seconds: f64,
    /// Delivered while the costs were taken.
    pub(super) messages: u64,
    pub(super) costs: Option<Costs>,
}

/// The one loop that sends.
pub(crate) struct Sender<'a> {
    books: &'a Books,
    fleet: &'a Fleet,
    schedule: Schedule,
    warmup_us: u64,
    start_us: u64,
    ticker: Ticker,
    /// Draws the messages that ask for an `ack`.
    random: StdRng,
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
    /// Starts the clock of the schedule.
    pub(crate) fn new(books: &'a Books, fleet: &'a Fleet, options: &TrafficOptions) -> Result<Self> {
        let (schedule, warmup_us) = (options.schedule(), options.warmup_us());
        let lateness = Latencies::new()?;
        // Before the ticker starts, so that at a tick the messages of that tick are due, and not just not yet.
        let start_us = books.clock.now_us();
        let ticker = Ticker::every(Duration::from_micros(options.tick_us))?;
        books.measure(start_us, start_us + warmup_us..start_us + schedule.duration_us);
        Ok(Self {
            books,
            fleet,
            schedule,
            warmup_us,
            start_us,
            ticker,
            random: StdRng::seed_from_u64(options.seed.wrapping_add(2)),
            next: 0,
            first_measured: schedule.due(warmup_us.saturating_sub(1)),
            sent: 0,
            lateness,
            stalled: Vec::new(),
        })
    }

    /// When the measured time begins.
    pub(crate) fn measured_from_us(&self) -> u64 {
        self.start_us + self.warmup_us
    }

    /// When the schedule ends.
    pub(crate) fn end_us(&self) -> u64 {
        self.start_us + self.schedule.duration_us
    }

    /// Sends what the schedule says, and takes the costs from the end of the warm-up to the end of the schedule.
    pub(crate) async fn run(mut self, watched: &[Watched]) -> Result<Sending> {
        let bar = progress(self.schedule.duration_us / 1_000_000, "sending");
        self.send_until(self.warmup_us, &bar).await?;
        let (before, own_before, arrived_before) = (costs::read(watched), own_cpu_seconds(), self.books.arrived());
        self.send_until(self.schedule.duration_us, &bar).await?;
        let messages = self.books.arrived() - arrived_before;
        let own_cpu_seconds = own_cpu_seconds() - own_before;
        let costs = (!watched.is_empty()).then(|| Costs::between(&before, &costs::read(watched), messages));
        self.catch_up().await?;
        bar.finish_and_clear();
        Ok(Sending {
            planned: self.schedule.total(),
            sent: self.sent,
            lateness: self.lateness,
            own_cpu_seconds,
            messages,
            costs,
        })
    }

    /// Sends until `over` is, at most to the end of the schedule. Returns the share of what was to be sent by then.
    pub(crate) async fn run_until(mut self, over: impl Future<Output = ()>) -> Result<f64> {
        let end_us = self.schedule.duration_us;
        let bar = progress(end_us / 1_000_000, "sending");
        tokio::select! {
            sent = self.send_until(end_us, &bar) => sent?,
            () = over => {}
        }
        self.schedule.duration_us = end_us.min(self.elapsed_us());
        self.catch_up().await?;
        bar.finish_and_clear();
        Ok(self.sent as f64 / self.schedule.total() as f64)
    }

    fn elapsed_us(&self) -> u64 {
        self.books.clock.now_us() - self.start_us
    }

    async fn send_until(&mut self, end_us: u64, bar: &ProgressBar) -> Result<()> {
        let mut turn_us = self.elapsed_us();
        loop {
            let now = self.elapsed_us();
            if now > turn_us + self.schedule.tick_us + STALL_US {
                self.books.stalled(self.start_us + turn_us..self.start_us + now);
            }
            turn_us = now;
            self.send_due(now.min(end_us)).await;
            if now >= end_us {
                return Ok(());
            }
            bar.set_position(now / 1_000_000);
            self.ticker.tick().await?;
        }
    }

    /// Sends what is overdue at the end of the schedule, as far as the overtime allows.
    async fn catch_up(&mut self) -> Result<()> {
        let end_us = self.schedule.duration_us + OVERTIME_US;
        while (self.next < self.schedule.total() || !self.stalled.is_empty()) && self.elapsed_us() < end_us {
            self.send_due(end_us).await;
            self.ticker.tick().await?;
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
        let books = self.books;
        let turn = usize::try_from(number % books.turns.len() as u64).unwrap_or(0);
        let sender = books.turns[turn];
        let receiver = books.partner_of[sender];
        let time_us = self.start_us + self.schedule.time_us(number);
        let question = Question { sender, receiver, number: books.next_to(receiver), time_us };
        let id = (books.ack_share > 0.0 && self.random.random_bool(books.ack_share)).then_some(number + 1);
        let text = books.format.write(&books.names[receiver], sender, question.number, time_us, id);
        let sent = self.fleet.clients[sender].send(text, id, &mut TaskContext::from_waker(Waker::noop()));
        if sent == Sent::Not {
            return;
        }
        if sent == Sent::Waits && !self.stalled.contains(&sender) {
            self.stalled.push(sender);
        }
        books.sent(question, id);
        self.sent += 1;
        if number >= self.first_measured {
            self.lateness.record_us(books.clock.now_us().saturating_sub(time_us));
        }
    }
}
