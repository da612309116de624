use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::ops::Range;
use std::rc::Rc;
use std::task::{Context as TaskContext, Waker};
use std::time::Duration;

use anyhow::Result;
use tokio::task::yield_now;

use super::book::{CallBook, Step, Times};
use super::shape::{Shape, Side, call_and_part, number_of};
use super::{CallOptions, CallPart};
use crate::client::{Client, Sent};
use crate::clock::Clock;
use crate::common::CommonPart;
use crate::crew::Gate;
use crate::fleet::{Fleet, FleetOptions, Listener};
use crate::latency::Latencies;
use crate::merge::add_counts;
use crate::message::{Answer, Format, Size, read_answer};
use crate::pairs::{Pairing, partners, turns};
use crate::progress::progress;
use crate::settle::{LOOK_EVERY, run_mark, settle};
use crate::ticker::Ticker;
use crate::timeline::Timeline;

/// Calls begun before the readers have their turn, when many are overdue.
const MAX_BATCH: u64 = 50;

/// What the caller, the callees and the readers of a process share, on one thread.
struct Exchange {
    clock: Clock,
    options: CallOptions,
    names: Vec<String>,
    format: Format,
    /// Known once they are connected.
    clients: RefCell<Vec<Rc<Client>>>,
    start_us: Cell<u64>,
    book: RefCell<CallBook>,
    due: RefCell<BinaryHeap<Reverse<Due>>>,
    /// Clients whose kernel buffer was full.
    stalled: RefCell<Vec<usize>>,
    /// Messages that a client's own socket did not take.
    unsent: Cell<u64>,
    set_up_times: RefCell<Latencies>,
    answer_times: RefCell<Latencies>,
    lateness: RefCell<Latencies>,
    timeline: RefCell<Timeline>,
    others: RefCell<BTreeMap<String, u64>>,
    closed: RefCell<BTreeMap<String, u64>>,
    is_over: Cell<bool>,
}

/// A message that is to leave at its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Due {
    at_us: u64,
    number: u64,
    from: usize,
    to: usize,
    bytes: usize,
}

/// Connects, passes the gate, and makes calls as the options say.
pub(crate) async fn make_calls(fleet: &FleetOptions, options: &CallOptions, gate: Gate) -> Result<CallPart> {
    let clients = usize::try_from(fleet.clients)?;
    let exchange = Rc::new(Exchange::new(fleet, options)?);
    let fleet = Fleet::connect(fleet.plan()?.0, &exchange).await?;
    exchange.clients.borrow_mut().clone_from(&fleet.clients);
    gate.pass().await?;
    let partner_of = partners(clients, Pairing::Random, options.seed);
    let turns = turns(clients, options.seed);
    let begun = exchange.run(&partner_of, &turns).await?;
    exchange.settle(Duration::from_millis(options.settle_ms)).await;
    let part = exchange.part(&fleet, begun);
    exchange.is_over.set(true);
    exchange.clients.borrow_mut().clear();
    fleet.close();
    Ok(part)
}

impl Exchange {
    fn new(fleet: &FleetOptions, options: &CallOptions) -> Result<Self> {
        Ok(Self {
            clock: Clock::start(),
            options: options.clone(),
            names: (0..usize::try_from(fleet.clients)?).map(|number| fleet.client_id(number)).collect(),
            format: Format::new(run_mark(), Size::Varied),
            clients: RefCell::default(),
            start_us: Cell::new(0),
            book: RefCell::new(CallBook::new(options.gather_us())),
            due: RefCell::default(),
            stalled: RefCell::default(),
            unsent: Cell::new(0),
            set_up_times: RefCell::new(Latencies::new()?),
            answer_times: RefCell::new(Latencies::new()?),
            lateness: RefCell::new(Latencies::new()?),
            timeline: RefCell::new(Timeline::lasting(options.warmup + options.seconds)),
            others: RefCell::default(),
            closed: RefCell::default(),
            is_over: Cell::new(false),
        })
    }

    /// Begins the calls of the schedule, each at its time, and returns how many it could.
    async fn run(&self, partner_of: &[usize], turns: &[usize]) -> Result<u64> {
        let schedule = self.options.schedule();
        let bar = progress(schedule.duration_us / 1_000_000, "calling");
        // Before the ticker starts, so that at a tick the calls of that tick are due, and not just not yet.
        self.start_us.set(self.clock.now_us());
        let mut ticker = Ticker::every(Duration::from_micros(self.options.tick_us))?;
        let mut next = 0;
        loop {
            let now_us = self.clock.now_us() - self.start_us.get();
            let due = schedule.due(now_us.min(schedule.duration_us));
            while next < due {
                let caller = turns[usize::try_from(next % turns.len() as u64)?];
                self.begin(next, caller, partner_of[caller], self.start_us.get() + schedule.time_us(next));
                next += 1;
                if next.is_multiple_of(MAX_BATCH) {
                    yield_now().await;
                }
            }
            self.send_due();
            if now_us >= schedule.duration_us {
                bar.finish_and_clear();
                return Ok(next);
            }
            bar.set_position(now_us / 1_000_000);
            ticker.tick().await?;
        }
    }

    /// Waits until all calls are set up, at most so long, and a little more for repeats.
    async fn settle(&self, at_most: Duration) {
        let is_settled = || {
            self.send_due();
            self.book.borrow().open() == 0 && self.due.borrow().is_empty()
        };
        settle(at_most, Duration::from_micros(self.options.tick_us).min(LOOK_EVERY), is_settled).await;
    }

    fn begin(&self, call: u64, caller: usize, callee: usize, begin_us: u64) {
        let shape = Shape::of(self.options.seed, call);
        self.book.borrow_mut().begin(call, caller, callee, begin_us, shape);
        self.timeline.borrow_mut().begun(begin_us - self.start_us.get());
        self.plan(call, shape.caller, (caller, callee), begin_us);
    }

    /// What one side has to say, from the begin of its gathering on.
    fn plan(&self, call: u64, side: Side, (from, to): (usize, usize), begin_us: u64) {
        let mut due = self.due.borrow_mut();
        for part in 0..side.parts() {
            let at_us = begin_us + side.leaves_after_us(part, self.options.gather_us());
            due.push(Reverse(Due { at_us, number: number_of(call, part), from, to, bytes: side.bytes(part) }));
        }
    }

    /// Sends what is due by now, in the order of its times.
    fn send_due(&self) {
        let mut context = TaskContext::from_waker(Waker::noop());
        let clients = self.clients.borrow();
        self.stalled.borrow_mut().retain(|client| !clients[*client].flush(&mut context));
        let now_us = self.clock.now_us();
        loop {
            let mut due = self.due.borrow_mut();
            if due.peek().is_none_or(|Reverse(next)| next.at_us > now_us) {
                return;
            }
            let Some(Reverse(Due { at_us, number, from, to, bytes })) = due.pop() else { return };
            let (_, part) = call_and_part(number);
            let text = self.format.write_part(&self.names[to], number, at_us, bytes, part == 0);
            match clients[from].send(text, None, &mut context) {
                Sent::Not => {
                    self.unsent.set(self.unsent.get() + 1);
                    continue;
                }
                Sent::Waits => self.stalls(from),
                Sent::Written => {}
            }
            self.book.borrow_mut().sent();
            if self.is_measured(at_us) {
                self.lateness.borrow_mut().record_us(self.clock.now_us().saturating_sub(at_us));
            }
        }
    }

    fn stalls(&self, client: usize) {
        let mut stalled = self.stalled.borrow_mut();
        if !stalled.contains(&client) {
            stalled.push(client);
        }
    }

    fn is_measured(&self, at_us: u64) -> bool {
        at_us >= self.measured_us().start
    }

    fn measured_us(&self) -> Range<u64> {
        let start_us = self.start_us.get();
        start_us + self.options.warmup * 1_000_000..start_us + self.options.schedule().duration_us
    }

    fn set_up(&self, Times { begin_us, set_up_us, answered_us }: Times, now_us: u64) {
        self.timeline.borrow_mut().done(now_us.saturating_sub(self.start_us.get()), set_up_us);
        if self.is_measured(begin_us) {
            self.set_up_times.borrow_mut().record_us(set_up_us);
            self.answer_times.borrow_mut().record_us(answered_us);
        }
    }

    fn part(&self, fleet: &Fleet, begun: u64) -> CallPart {
        let book = self.book.borrow();
        CallPart {
            common: CommonPart {
                clients: fleet.clients.len(),
                connect: fleet.connect.clone(),
                planned: self.options.schedule().total(),
                begun,
                totals: book.totals(),
                foreign: book.foreign(),
                lateness: self.lateness.borrow().clone(),
                others: self.others.take(),
                closed: self.closed.take(),
                timeline: self.timeline.borrow().clone(),
            },
            set_up: book.done(),
            unsent: self.unsent.get(),
            set_up_times: self.set_up_times.borrow().clone(),
            answer_times: self.answer_times.borrow().clone(),
        }
    }
}

impl Listener for Exchange {
    fn text(&self, client: usize, text: &str) -> Option<u64> {
        let Some(arrival) = self.format.read(text) else {
            let (Answer::Error { code: what, .. } | Answer::Other(what)) = read_answer(text) else { return None };
            add_counts(&mut self.others.borrow_mut(), BTreeMap::from([(what, 1)]));
            return None;
        };
        let (call, part) = call_and_part(arrival.number);
        let now_us = self.clock.now_us();
        let step = self.book.borrow_mut().arrived(client, call, part, now_us);
        match step {
            Step::Offered { shape, caller } => {
                self.plan(call, shape.callee, (client, caller), now_us);
                self.send_due();
            }
            Step::SetUp(times) => self.set_up(times, now_us),
            Step::Nothing => {}
        }
        None
    }

    fn ended(&self, _client: usize, reason: String) {
        if !self.is_over.get() {
            add_counts(&mut self.closed.borrow_mut(), BTreeMap::from([(reason, 1)]));
        }
    }
}
