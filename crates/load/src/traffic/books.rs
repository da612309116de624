use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::{AddAssign, Range};
use std::time::Duration;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::TrafficOptions;
use super::acks::{AckTotals, Acks, Question, Told};
use super::recording::Recording;
use crate::client::Return;
use crate::clock::Clock;
use crate::fleet::{FleetOptions, Listener};
use crate::latency::Latencies;
use crate::ledger::{Ledger, Totals};
use crate::message::{Answer, Format, read_answer};
use crate::pairs::{partners, turns};
use crate::settle::{LOOK_EVERY, run_mark, settle};
use crate::timeline::Timeline;

/// The books of a run. Shared by the sender and all readers, on one thread.
pub(crate) struct Books {
    pub(crate) clock: Clock,
    pub(super) names: Vec<String>,
    pub(super) partner_of: Vec<usize>,
    pub(super) turns: Vec<usize>,
    pub(super) format: Format,
    /// Of the pair whose receiver has this number.
    ledgers: RefCell<Vec<Ledger>>,
    acks: RefCell<Acks>,
    pub(super) ack_share: f64,
    /// Intended times of the messages whose latency counts.
    measured_us: Cell<(u64, u64)>,
    latencies: RefCell<Latencies>,
    /// The begin of the schedule.
    start_us: Cell<u64>,
    timeline: RefCell<Timeline>,
    recording: Option<RefCell<Recording>>,
    arrived: Cell<u64>,
    foreign: Cell<u64>,
    errors: Cell<u64>,
    others: RefCell<BTreeMap<String, u64>>,
    closed: RefCell<BTreeMap<String, u64>>,
    come_back: bool,
    returns: Cell<Returns>,
    away_since_us: RefCell<BTreeMap<usize, u64>>,
    is_over: Cell<bool>,
}

/// What a scenario wants to know beyond the ledger.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wanted {
    /// The share of messages that ask for an `ack`.
    pub(crate) ack_share: f64,
    /// Whether to record each message.
    pub(crate) recording: bool,
}

/// Of clients that come back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Returns {
    /// Sockets that were closed with 1001.
    pub(crate) sent_away: u64,
    /// Clients that came back.
    pub(crate) returned: u64,
    /// Of these, those that were told that their session went on.
    pub(crate) resumed: u64,
    /// Messages that they sent once more.
    pub(crate) sent_again: u64,
    /// Clients whose socket ended within the schedule and that have not come back yet.
    pub(crate) away: u64,
}

/// What a socket ends with that is sent to another server.
const GOING_AWAY: &str = "1001";

/// Whether a socket ended without a close code.
pub(crate) fn is_break(reason: &str) -> bool {
    reason.parse::<u16>().is_err()
}

impl AddAssign for Returns {
    fn add_assign(&mut self, other: Self) {
        self.sent_away += other.sent_away;
        self.returned += other.returned;
        self.resumed += other.resumed;
        self.sent_again += other.sent_again;
        self.away += other.away;
    }
}

impl Books {
    pub(crate) fn new(fleet: &FleetOptions, traffic: &TrafficOptions, wanted: Wanted) -> Result<Self> {
        let clients = usize::try_from(fleet.clients)?;
        let recording = || RefCell::new(Recording::for_messages(traffic.schedule().total()));
        Ok(Self {
            clock: Clock::start(),
            names: (0..clients).map(|number| fleet.client_id(number)).collect(),
            partner_of: partners(clients, traffic.pairs, traffic.seed),
            turns: turns(clients, traffic.seed),
            format: Format::new(run_mark(), traffic.size),
            ledgers: RefCell::new((0..clients).map(|_| Ledger::default()).collect()),
            acks: RefCell::default(),
            ack_share: wanted.ack_share,
            measured_us: Cell::new((0, 0)),
            latencies: RefCell::new(Latencies::new()?),
            start_us: Cell::new(0),
            timeline: RefCell::new(Timeline::lasting(traffic.warmup + traffic.seconds)),
            recording: wanted.recording.then(recording),
            arrived: Cell::new(0),
            foreign: Cell::new(0),
            errors: Cell::new(0),
            others: RefCell::default(),
            closed: RefCell::default(),
            come_back: fleet.come_back,
            returns: Cell::default(),
            away_since_us: RefCell::default(),
            is_over: Cell::new(false),
        })
    }

    /// Clients write to themselves, through a server that gives them back what they send.
    pub(crate) fn of_an_echo(mut self) -> Self {
        self.partner_of = (0..self.names.len()).collect();
        self.format = self.format.echoed();
        self
    }

    /// The number that the next message to `receiver` has in its pair.
    pub(super) fn next_to(&self, receiver: usize) -> u64 {
        self.ledgers.borrow()[receiver].next()
    }

    /// That message was sent; with an id, it asked for an `ack`.
    pub(super) fn sent(&self, question: Question, id: Option<u64>) {
        self.ledgers.borrow_mut()[question.receiver].sent();
        self.timeline.borrow_mut().begun(question.time_us.saturating_sub(self.start_us.get()));
        if let Some(id) = id {
            self.acks.borrow_mut().asked(id, question);
        }
        self.record(|recording, now| recording.sent_us.push(now));
    }

    /// The harness did not have its turn in this time.
    pub(super) fn stalled(&self, time_us: Range<u64>) {
        self.record(|recording, _| recording.stalls.push(time_us));
    }

    /// The schedule begins; the latency of messages counts whose intended time is in this range.
    pub(super) fn measure(&self, start_us: u64, times_us: Range<u64>) {
        self.start_us.set(start_us);
        self.measured_us.set((times_us.start, times_us.end));
    }

    /// Waits until all has arrived and is answered, at most so long, and a little more for repeats.
    pub(crate) async fn settle(&self, at_most: Duration) {
        let is_settled = || self.totals().lost == 0 && self.acks.borrow().open() == 0 && self.returns().away == 0;
        settle(at_most, LOOK_EVERY, is_settled).await;
    }

    /// From now on a socket that ends is no finding.
    pub(crate) fn expect_endings(&self) {
        self.is_over.set(true);
    }

    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// To whom each client writes, and from whom it hears.
    pub(crate) fn partner_of(&self) -> &[usize] {
        &self.partner_of
    }

    /// What was recorded so far; nothing where that was not wanted.
    pub(crate) fn take_recording(&self) -> Recording {
        self.recording.as_ref().map(RefCell::take).unwrap_or_default()
    }

    pub(crate) fn returns(&self) -> Returns {
        let (_, end_us) = self.measured_us.get();
        let away = self.away_since_us.borrow().values().filter(|since_us| **since_us < end_us).count() as u64;
        Returns { away, ..self.returns.get() }
    }

    pub(crate) fn totals(&self) -> Totals {
        Totals::of(self.ledgers.borrow().iter())
    }

    pub(crate) fn ack_totals(&self) -> AckTotals {
        let ledgers = self.ledgers.borrow();
        let has_arrived = |question: &Question| {
            let ledger = &ledgers[question.receiver];
            ledger.has(question.number) || ledger.is_gone(question.number)
        };
        self.acks.borrow().totals(has_arrived)
    }

    pub(crate) fn latencies(&self) -> Latencies {
        self.latencies.borrow().clone()
    }

    /// What was sent and arrived when, from the begin of the schedule.
    pub(crate) fn timeline(&self) -> Timeline {
        self.timeline.borrow().clone()
    }

    /// Messages that have arrived so far.
    pub(super) fn arrived(&self) -> u64 {
        self.arrived.get()
    }

    /// Messages that were not for who got them, or not from this run.
    pub(crate) fn foreign(&self) -> u64 {
        self.foreign.get()
    }

    pub(crate) fn errors(&self) -> u64 {
        self.errors.get()
    }

    /// Errors by code, and other frames by type.
    pub(crate) fn others(&self) -> BTreeMap<String, u64> {
        self.others.borrow().clone()
    }

    /// Sockets that ended, by reason.
    pub(crate) fn closed(&self) -> BTreeMap<String, u64> {
        self.closed.borrow().clone()
    }

    fn answered(&self, client: usize, answer: Answer) -> Option<u64> {
        let told = |id, told| self.acks.borrow_mut().told(client, id, told, self.clock.now_us());
        match answer {
            Answer::Ack(id) => {
                told(id, Told::Delivered);
                if let Some(question) = self.acks.borrow().question(id) {
                    self.ledgers.borrow_mut()[question.receiver].acked(question.number);
                }
                Some(id)
            }
            Answer::Error { code, id } => {
                if let Some(id) = id {
                    told(id, Told::Failed);
                }
                add_one(&self.errors);
                *self.others.borrow_mut().entry(code).or_default() += 1;
                self.timeline.borrow_mut().failed(self.clock.now_us().saturating_sub(self.start_us.get()));
                self.record(|recording, now| recording.errors_us.push(now));
                id
            }
            Answer::Other(kind) => {
                if kind == "signal" {
                    add_one(&self.foreign);
                } else {
                    *self.others.borrow_mut().entry(kind).or_default() += 1;
                }
                None
            }
        }
    }

    fn count_returns(&self, count: impl FnOnce(&mut Returns)) {
        let mut returns = self.returns.get();
        count(&mut returns);
        self.returns.set(returns);
    }

    fn record(&self, write: impl FnOnce(&mut Recording, u64)) {
        if let Some(recording) = &self.recording {
            write(&mut recording.borrow_mut(), self.clock.now_us());
        }
    }
}

impl Listener for Books {
    fn text(&self, client: usize, text: &str) -> Option<u64> {
        let Some(arrival) = self.format.read(text) else { return self.answered(client, read_answer(text)) };
        if arrival.from != self.names[self.partner_of[client]] {
            add_one(&self.foreign);
            return None;
        }
        if !self.ledgers.borrow_mut()[client].arrived(arrival.number) {
            return None;
        }
        add_one(&self.arrived);
        let now_us = self.clock.now_us();
        let latency_us = now_us.saturating_sub(arrival.time_us);
        self.timeline.borrow_mut().done(now_us.saturating_sub(self.start_us.get()), latency_us);
        let (from, to) = self.measured_us.get();
        if (from..to).contains(&arrival.time_us) {
            self.latencies.borrow_mut().record_us(latency_us);
        }
        self.record(|recording, now| recording.arrived(now, latency_us, client));
        None
    }

    fn ended(&self, client: usize, reason: String) {
        if self.come_back {
            self.away_since_us.borrow_mut().insert(client, self.clock.now_us());
        }
        if self.come_back && reason == GOING_AWAY {
            return self.count_returns(|returns| returns.sent_away += 1);
        }
        if self.come_back && is_break(&reason) {
            self.ledgers.borrow_mut()[client].receiver_broke();
        }
        if !self.is_over.get() {
            *self.closed.borrow_mut().entry(reason).or_default() += 1;
            self.record(|recording, now| recording.closed_us.push(now));
        }
    }

    fn returned(&self, client: usize, how: &Return) {
        self.away_since_us.borrow_mut().remove(&client);
        self.count_returns(|returns| {
            returns.returned += 1;
            returns.resumed += u64::from(how.resumed);
            returns.sent_again += how.sent_again.len() as u64;
        });
        let (acks, mut ledgers) = (self.acks.borrow(), self.ledgers.borrow_mut());
        ledgers[client].receiver_returned();
        for question in how.sent_again.iter().filter_map(|id| acks.question(*id)) {
            ledgers[question.receiver].sent_again(question.number);
        }
    }
}

fn add_one(count: &Cell<u64>) {
    count.set(count.get() + 1);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::testing::parse;

    /// Of two clients, the first of which has sent a message and asked for an ack.
    fn books() -> Books {
        let command = parse(&["--clients=2", "--rate=1"]).unwrap();
        let wanted = Wanted { ack_share: 1.0, recording: true };
        let books = Books::new(&command.fleet, &command.traffic, wanted).unwrap();
        books.sent(Question { sender: 0, receiver: 1, number: 1, time_us: 0 }, Some(1));
        books
    }

    fn arrive(books: &Books) {
        let message = books.format.write("load-1", 0, 1, 0, Some(1));
        books.text(1, &message.replacen("\"to\":\"load-1\"", "\"from\":\"load-0\"", 1));
    }

    #[test]
    fn a_message_that_arrives_and_is_acked_balances() {
        let books = books();
        arrive(&books);
        books.text(0, r#"{"type":"ack","id":1}"#);

        let (messages, acks) = (books.totals(), books.ack_totals());

        assert_eq!((messages.sent, messages.delivered), (1, 1));
        assert_eq!((acks.acked, acks.unanswered, acks.untrue), (1, 0, 0));
        assert_eq!(books.take_recording().arrivals.len(), 1);
    }

    #[test]
    fn a_message_that_its_sender_sent_again_may_come_again_once() {
        let books = books();
        books.returned(0, &Return { resumed: true, sent_again: vec![1] });
        for _ in 0..3 {
            arrive(&books);
        }

        let totals = books.totals();

        assert_eq!((totals.delivered, totals.copied, totals.doubled), (1, 1, 1));
        assert_eq!(books.returns(), Returns { returned: 1, resumed: 1, sent_again: 1, ..Returns::default() });
    }

    #[test]
    fn an_ack_for_a_message_that_has_not_arrived_is_untrue_for_as_long() {
        let books = books();
        books.text(0, r#"{"type":"ack","id":1}"#);
        assert_eq!(books.ack_totals().untrue, 1);

        arrive(&books);

        assert_eq!(books.ack_totals().untrue, 0);
    }

    #[test]
    fn an_error_answers_the_question_and_is_counted_by_its_code() {
        let books = books();
        books.text(0, r#"{"type":"error","code":"recipient_unavailable","id":1,"to":"load-1","message":"gone"}"#);

        assert_eq!((books.ack_totals().failed, books.errors()), (1, 1));
        assert_eq!(books.others()["recipient_unavailable"], 1);
        assert_eq!(books.take_recording().errors_us.len(), 1);
    }
}
