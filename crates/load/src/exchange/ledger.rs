//! Deliveries of messages and answers to requested acks, for `exchange`. Pure.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

/// Deliveries of one ordered pair's messages, which are numbered from 1 in the order sent.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    sent: u64,
    highest: u64,
    /// Numbers that are missing although a later one has arrived.
    missing: BTreeSet<u64>,
    /// Copies that may still arrive, since the sender itself has sent them.
    copies: BTreeMap<u64, u32>,
    /// Highest number received on an earlier socket of the receiver.
    on_earlier_sockets: u64,
    /// Numbers up to that one that arrived again on this socket.
    again_on_this: BTreeSet<u64>,
    /// Numbers that have an `ack` and have not arrived.
    acked: BTreeSet<u64>,
    /// Time at which each message with a requested `ack` was due, in microseconds, by its number.
    /// `None` once it is answered.
    due_us_by_request: HashMap<u64, Option<u64>>,
    acks: AckTotals,
    /// Numbers in flight when a socket of the receiver broke.
    breaks: Vec<RangeInclusive<u64>>,
    expected_duplicates: u64,
    duplicated: u64,
    reordered: u64,
}

/// Messages of all senders, counted once per receiver. `lost`, `duplicated` and `reordered` must be
/// 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Totals {
    /// Messages written to a socket, or kept for the resume of an ended one.
    pub sent: u64,
    /// Messages that arrived, each counted once.
    pub delivered: u64,
    /// Messages that never arrived, also those answered by an `error`; except `gone` ones.
    pub lost: u64,
    /// Messages with an `ack` that never arrived, and were in flight when a socket of their
    /// receiver broke.
    #[serde(skip_serializing_if = "is_zero")]
    pub gone: u64,
    /// Duplicates that are no fault: retransmitted by the sender, or received on another socket.
    #[serde(skip_serializing_if = "is_zero")]
    pub expected_duplicates: u64,
    /// Unexpected duplicates.
    pub duplicated: u64,
    /// Messages that arrived after a later one.
    pub reordered: u64,
}

impl Ledger {
    pub(crate) fn next_number(&self) -> u64 {
        self.sent + 1
    }

    pub(crate) fn sent(&mut self) {
        self.sent += 1;
    }

    /// Records that the latest message, which was due at `due_us`, requests an `ack`.
    pub(crate) fn requested(&mut self, due_us: u64) {
        self.due_us_by_request.insert(self.sent, Some(due_us));
        self.acks.requested += 1;
        self.acks.unanswered += 1;
    }

    /// Records an `ack`, or an `error` that reports no delivery. Returns the time at which the
    /// message was due, in microseconds, if this is its first answer.
    pub(crate) fn answered(&mut self, number: u64, is_delivered: bool) -> Option<u64> {
        match self.due_us_by_request.get_mut(&number).map(Option::take) {
            None => self.acks.stray += 1,
            Some(None) => self.acks.repeated += 1,
            Some(due_us) => {
                self.acks.unanswered -= 1;
                self.acks.acked += u64::from(is_delivered);
                self.acks.failed += u64::from(!is_delivered);
                if is_delivered && !self.has(number) {
                    self.acked.insert(number);
                }
                return due_us;
            }
        }
        None
    }

    /// Records that the sender sent a message again, so that one duplicate is expected.
    pub(crate) fn retransmitted(&mut self, number: u64) {
        *self.copies.entry(number).or_default() += 1;
    }

    /// Records a new socket of the receiver, on which each earlier message may arrive once more.
    pub(crate) fn receiver_returned(&mut self) {
        self.on_earlier_sockets = self.highest;
        self.again_on_this.clear();
    }

    /// Records a broken socket of the receiver, with the messages in flight: all after the highest
    /// number received.
    pub(crate) fn receiver_broke(&mut self) {
        self.breaks.push(self.highest + 1..=self.sent);
    }

    /// Returns the number of messages with an `ack` that have not arrived and are not gone.
    pub(crate) fn untrue(&self) -> u64 {
        self.acked.iter().filter(|number| !self.is_gone(**number)).count() as u64
    }

    /// Returns `true` if a missing message was written to a socket that broke.
    fn is_gone(&self, number: u64) -> bool {
        self.acked.contains(&number) && self.breaks.iter().any(|in_flight| in_flight.contains(&number))
    }

    /// Records an arrival. Returns `true` for the first one of a message, `false` for a duplicate.
    pub(crate) fn arrived(&mut self, number: u64) -> bool {
        self.acked.remove(&number);
        if number > self.highest {
            self.missing.extend(self.highest + 1..number);
            self.highest = number;
            return true;
        }
        let is_first = self.missing.remove(&number);
        match self.copies.get_mut(&number) {
            _ if is_first => self.reordered += 1,
            Some(copies @ 1..) => {
                *copies -= 1;
                self.expected_duplicates += 1;
            }
            _ if number <= self.on_earlier_sockets && self.again_on_this.insert(number) => {
                self.expected_duplicates += 1;
            }
            _ => self.duplicated += 1,
        }
        is_first
    }

    pub(crate) fn has(&self, number: u64) -> bool {
        number <= self.highest && !self.missing.contains(&number)
    }

    fn delivered(&self) -> u64 {
        self.highest - self.missing.len() as u64
    }
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Messages with a requested `ack`, by their answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AckTotals {
    /// Messages with a requested answer.
    pub requested: u64,
    /// Messages whose first answer was an `ack`.
    pub acked: u64,
    /// Messages whose first answer was an `error`.
    pub failed: u64,
    /// Messages without an answer. This field and the next three must be 0.
    pub unanswered: u64,
    /// Messages with an `ack` that never arrived; without those in flight when a socket broke.
    pub untrue: u64,
    /// Further answers to an answered message.
    pub repeated: u64,
    /// Answers with an id that no request of the client had.
    pub stray: u64,
}

/// Sums up ledgers. Missing messages count as lost.
pub(crate) fn totals<'a>(ledgers: impl IntoIterator<Item = &'a Ledger>) -> (Totals, AckTotals) {
    let (mut messages, mut acks) = (Totals::default(), AckTotals::default());
    for ledger in ledgers {
        let untrue = ledger.untrue();
        let gone = ledger.acked.len() as u64 - untrue;
        messages.sent += ledger.sent;
        messages.delivered += ledger.delivered();
        messages.lost += ledger.sent.saturating_sub(ledger.delivered() + gone);
        messages.gone += gone;
        messages.expected_duplicates += ledger.expected_duplicates;
        messages.duplicated += ledger.duplicated;
        messages.reordered += ledger.reordered;
        acks.requested += ledger.acks.requested;
        acks.acked += ledger.acks.acked;
        acks.failed += ledger.acks.failed;
        acks.unanswered += ledger.acks.unanswered;
        acks.untrue += untrue;
        acks.repeated += ledger.acks.repeated;
        acks.stray += ledger.acks.stray;
    }
    (messages, acks)
}

/// Events of a run for drills. Times are microseconds on the run's clock, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recording {
    pub(crate) arrivals: Vec<FirstArrival>,
    /// End times of sockets; empty if clients do not resume sessions.
    pub(crate) closed_us: Vec<u64>,
    pub(crate) returned_us: Vec<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FirstArrival {
    /// Time on the run's clock, in microseconds.
    pub(crate) at_us: u64,
    /// Microseconds since the intended time of sending, at most `u32::MAX`.
    pub(crate) latency_us: u32,
}

impl FirstArrival {
    pub(crate) fn new(at_us: u64, latency_us: u64) -> Self {
        Self { at_us, latency_us: u32::try_from(latency_us).unwrap_or(u32::MAX) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger(sent: u64, arrivals: &[u64]) -> Ledger {
        let mut ledger = Ledger::default();
        for number in 1..=sent {
            assert_eq!(ledger.next_number(), number);
            ledger.sent();
            ledger.requested(1_000);
        }
        for number in arrivals {
            ledger.arrived(*number);
        }
        ledger
    }

    #[test]
    fn each_arrival_is_judged_once() {
        // Number of messages, their arrivals; delivered, lost, duplicated and reordered ones.
        let cases: [(u64, &[u64], [u64; 4]); 6] = [
            (3, &[1, 2, 3], [3, 0, 0, 0]),
            (6, &[2, 3, 5], [3, 3, 0, 0]),
            (2, &[], [0, 2, 0, 0]),
            (3, &[1, 2, 2, 3, 1], [3, 0, 2, 0]),
            (4, &[1, 4, 2, 3], [4, 0, 0, 2]),
            (3, &[1, 3, 2, 2], [3, 0, 1, 1]),
        ];
        for (sent, arrivals, expected) in cases {
            let ledger = ledger(sent, arrivals);
            // Another pair with a lost message is added to all of them.
            let (Totals { delivered, lost, duplicated, reordered, .. }, _) = totals([&ledger, &self::ledger(1, &[])]);
            assert_eq!([delivered, lost - 1, duplicated, reordered], expected, "{arrivals:?}");
            assert!((1..=sent).all(|number| ledger.has(number) == arrivals.contains(&number)), "{arrivals:?}");
        }
    }

    #[test]
    fn message_may_arrive_again_when_it_is_retransmitted() {
        let mut ledger = ledger(3, &[1]);
        ledger.receiver_returned();
        ledger.retransmitted(3);
        for number in [1, 1, 2, 2, 3, 3, 3] {
            ledger.arrived(number);
        }

        let expected = Totals { sent: 3, delivered: 3, expected_duplicates: 2, duplicated: 3, ..Totals::default() };
        assert_eq!(totals([&ledger]).0, expected);
    }

    #[test]
    fn acked_message_under_way_is_gone_when_the_socket_breaks() {
        let mut ledger = ledger(4, &[]);
        ledger.receiver_broke();
        ledger.sent();
        ledger.requested(1_000);
        ledger.arrived(1);
        // The second arrives after all, the third has no ack, and the fifth was sent later.
        for number in [1, 2, 4, 5] {
            assert_eq!(ledger.answered(number, true), Some(1_000));
        }
        ledger.arrived(2);

        assert_eq!(totals([&ledger]).0, Totals { sent: 5, delivered: 2, gone: 1, lost: 2, ..Totals::default() });
        assert_eq!([2, 3, 4, 5].map(|number| ledger.is_gone(number)), [false, false, true, false]);
        assert_eq!(ledger.untrue(), 1, "the fifth has an ack and was not in flight");
    }

    /// Number of each answer, and whether it reports a delivery.
    type Answers<'a> = &'a [(u64, bool)];

    #[test]
    fn answers_are_compared_with_requests() {
        let all = AckTotals { requested: 2, unanswered: 2, ..AckTotals::default() };
        let cases: [(Answers<'_>, AckTotals); 4] = [
            (&[(1, true), (2, false)], AckTotals { unanswered: 0, acked: 1, failed: 1, ..all }),
            (&[(1, true), (1, false)], AckTotals { unanswered: 1, acked: 1, repeated: 1, ..all }),
            (&[(9, true)], AckTotals { stray: 1, ..all }),
            (&[], all),
        ];
        for (answers, expected) in cases {
            let mut ledger = ledger(2, &[1, 2]);
            let first = answers.iter().filter_map(|(number, is_delivered)| ledger.answered(*number, *is_delivered));
            assert_eq!(first.count() as u64, expected.acked + expected.failed, "{answers:?}");
            assert_eq!(totals([&ledger]).1, expected, "{answers:?}");
        }
    }
}
