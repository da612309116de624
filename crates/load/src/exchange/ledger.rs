use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use serde::Serialize;

/// Deliveries of one ordered pair's messages, which are numbered from 1 in the order sent.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    sent: u64,
    highest: u64,
    /// Numbers that are missing although a later one has arrived.
    missing: BTreeSet<u64>,
    /// Copies that may still arrive, since the sender itself has sent them.
    copies: BTreeMap<u64, u32>,
    /// Numbers received on earlier sockets, and the retransmitted ones of them.
    on_earlier_sockets: u64,
    again_on_this: BTreeSet<u64>,
    /// Numbers with an `ack` that have not arrived.
    acked: BTreeSet<u64>,
    /// Numbers in flight when a socket of the receiver broke.
    breaks: Vec<RangeInclusive<u64>>,
    copied: u64,
    doubled: u64,
    swapped: u64,
}

/// The sum over all pairs. All fields but `sent`, `delivered`, `gone` and `copied` must be 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// Messages written to a socket.
    pub sent: u64,
    /// Messages that arrived, each counted once.
    pub delivered: u64,
    /// Messages that never arrived.
    pub lost: u64,
    /// Messages with an `ack`, written to a socket that broke before its client had read them.
    #[serde(skip_serializing_if = "is_zero")]
    pub gone: u64,
    /// Expected duplicates: sent again without a known outcome, or received on another socket.
    #[serde(skip_serializing_if = "is_zero")]
    pub copied: u64,
    /// Unexpected duplicates.
    pub doubled: u64,
    /// Messages that arrived after a later one.
    pub swapped: u64,
}

impl Ledger {
    pub(crate) fn next(&self) -> u64 {
        self.sent + 1
    }

    pub(crate) fn sent(&mut self) {
        self.sent += 1;
    }

    pub(crate) fn sent_again(&mut self, number: u64) {
        *self.copies.entry(number).or_default() += 1;
    }

    pub(crate) fn receiver_returned(&mut self) {
        self.on_earlier_sockets = self.highest;
        self.again_on_this.clear();
    }

    pub(crate) fn receiver_broke(&mut self) {
        self.breaks.push(self.highest + 1..=self.sent);
    }

    pub(crate) fn acked(&mut self, number: u64) {
        if !self.has(number) {
            self.acked.insert(number);
        }
    }

    /// Returns `true` if a missing message was written to a socket that broke.
    pub(crate) fn is_gone(&self, number: u64) -> bool {
        self.acked.contains(&number) && self.breaks.iter().any(|under_way| under_way.contains(&number))
    }

    /// Records an arrival. Returns `true` for the first one of this message.
    pub(crate) fn arrived(&mut self, number: u64) -> bool {
        self.acked.remove(&number);
        if number == self.highest + 1 {
            self.highest = number;
            return true;
        }
        if number > self.highest {
            self.missing.extend(self.highest + 1..number);
            self.highest = number;
            return true;
        }
        let is_first = self.missing.remove(&number);
        match self.copies.get_mut(&number) {
            _ if is_first => self.swapped += 1,
            Some(copies @ 1..) => {
                *copies -= 1;
                self.copied += 1;
            }
            _ if number <= self.on_earlier_sockets && self.again_on_this.insert(number) => self.copied += 1,
            _ => self.doubled += 1,
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

impl Totals {
    /// Sums up ledgers. Missing messages count as lost.
    pub(crate) fn of<'a>(ledgers: impl IntoIterator<Item = &'a Ledger>) -> Self {
        let mut totals = Self::default();
        for ledger in ledgers {
            let gone = ledger.acked.iter().filter(|number| ledger.is_gone(**number)).count() as u64;
            totals.sent += ledger.sent;
            totals.delivered += ledger.delivered();
            totals.lost += ledger.sent.saturating_sub(ledger.delivered() + gone);
            totals.gone += gone;
            totals.copied += ledger.copied;
            totals.doubled += ledger.doubled;
            totals.swapped += ledger.swapped;
        }
        totals
    }
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a ledger of sent messages with these arrivals.
    fn ledger(sent: u64, arrivals: &[u64]) -> Ledger {
        let mut ledger = Ledger::default();
        for number in 1..=sent {
            assert_eq!(ledger.next(), number);
            ledger.sent();
        }
        for number in arrivals {
            ledger.arrived(*number);
        }
        ledger
    }

    #[test]
    fn each_arrival_is_judged_once() {
        // Number of messages, their arrivals, and the delivered, lost, doubled and swapped ones.
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
            let Totals { delivered, lost, doubled, swapped, .. } = Totals::of([&ledger, &self::ledger(1, &[])]);
            assert_eq!([delivered, lost - 1, doubled, swapped], expected, "{arrivals:?}");
            assert!((1..=sent).all(|number| ledger.has(number) == arrivals.contains(&number)), "{arrivals:?}");
        }
    }

    #[test]
    fn message_that_its_sender_repeats_may_arrive_as_often() {
        let mut ledger = ledger(1, &[]);
        ledger.sent_again(1);
        for _ in 0..3 {
            ledger.arrived(1);
        }

        let expected = Totals { sent: 1, delivered: 1, copied: 1, doubled: 1, ..Totals::default() };
        assert_eq!(Totals::of([&ledger]), expected);
    }

    #[test]
    fn message_may_arrive_once_more_on_the_next_socket() {
        let mut ledger = ledger(2, &[1]);
        ledger.receiver_returned();
        for number in [1, 1, 2, 2] {
            ledger.arrived(number);
        }

        let expected = Totals { sent: 2, delivered: 2, copied: 1, doubled: 2, ..Totals::default() };
        assert_eq!(Totals::of([&ledger]), expected);
    }

    #[test]
    fn acked_message_under_way_is_gone_when_the_socket_breaks() {
        let mut ledger = ledger(4, &[]);
        ledger.receiver_broke();
        ledger.sent();
        ledger.arrived(1);
        // The second arrives after all, the third has no ack, and the fifth was sent later.
        for number in [1, 2, 4, 5] {
            ledger.acked(number);
        }
        ledger.arrived(2);

        assert_eq!(Totals::of([&ledger]), Totals { sent: 5, delivered: 2, gone: 1, lost: 2, ..Totals::default() });
        assert_eq!([2, 3, 4, 5].map(|number| ledger.is_gone(number)), [false, false, true, false]);
    }
}
