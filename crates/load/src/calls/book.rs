use std::collections::BTreeMap;

use super::shape::{Shape, Side};
use crate::ledger::Totals;

/// How far each call is. Decides only; the times go in.
#[derive(Debug)]
pub(super) struct CallBook {
    gather_us: u64,
    open_by_number: BTreeMap<u64, Call>,
    begun: u64,
    done: u64,
    totals: Totals,
    foreign: u64,
}

/// A call that is being set up.
#[derive(Debug)]
struct Call {
    caller: usize,
    callee: usize,
    begin_us: u64,
    shape: Shape,
    /// What has arrived of each side, one bit for each part.
    from_caller: Parts,
    from_callee: Parts,
    /// Until the caller had the answer, from the begin.
    answered_us: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Parts(u64);

/// What an arrival means for its call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The callee has the offer, and is to answer.
    Offered { shape: Shape, caller: usize },
    /// Both sides have everything.
    SetUp(Times),
    /// There is more to come, or it was no news.
    Nothing,
}

/// How long a call took, without the gathering. All from its intended begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Times {
    pub(super) begin_us: u64,
    pub(super) set_up_us: u64,
    pub(super) answered_us: u64,
}

impl CallBook {
    pub(super) fn new(gather_us: u64) -> Self {
        Self { gather_us, open_by_number: BTreeMap::new(), begun: 0, done: 0, totals: Totals::default(), foreign: 0 }
    }

    /// A call begins; its number is above that of all before.
    pub(super) fn begin(&mut self, number: u64, caller: usize, callee: usize, begin_us: u64, shape: Shape) {
        let (from_caller, from_callee) = (Parts::default(), Parts::default());
        let call = Call { caller, callee, begin_us, shape, from_caller, from_callee, answered_us: None };
        self.open_by_number.insert(number, call);
        self.begun = self.begun.max(number + 1);
    }

    /// A message was given to the sender's socket.
    pub(super) fn sent(&mut self) {
        self.totals.sent += 1;
    }

    /// A part of a call has arrived at this client.
    pub(super) fn arrived(&mut self, receiver: usize, number: u64, part: u32, now_us: u64) -> Step {
        let Some(call) = self.open_by_number.get_mut(&number) else {
            // All that a call has to tell has arrived before it is taken out of the book.
            if number < self.begun {
                self.totals.doubled += 1;
            } else {
                self.foreign += 1;
            }
            return Step::Nothing;
        };
        let parts = match receiver {
            receiver if receiver == call.callee => &mut call.from_caller,
            receiver if receiver == call.caller => &mut call.from_callee,
            _ => {
                self.foreign += 1;
                return Step::Nothing;
            }
        };
        if parts.has(part) {
            self.totals.doubled += 1;
            return Step::Nothing;
        }
        self.totals.swapped += u64::from(parts.has_later(part));
        parts.add(part);
        self.totals.delivered += 1;
        let after_us = now_us.saturating_sub(call.begin_us);
        if receiver == call.caller && part == 0 {
            call.answered_us = Some(after_us);
        }
        if call.is_set_up() {
            let set_up_us = after_us.saturating_sub(self.gather_us);
            let times = Times { begin_us: call.begin_us, set_up_us, answered_us: call.answered_us.unwrap_or(after_us) };
            self.open_by_number.remove(&number);
            self.done += 1;
            return Step::SetUp(times);
        }
        if receiver != call.callee || part != 0 {
            return Step::Nothing;
        }
        Step::Offered { shape: call.shape, caller: call.caller }
    }

    /// Calls that are not set up yet.
    pub(super) fn open(&self) -> u64 {
        self.open_by_number.len() as u64
    }

    pub(super) fn done(&self) -> u64 {
        self.done
    }

    pub(super) fn foreign(&self) -> u64 {
        self.foreign
    }

    /// What became of the messages; what has not arrived by now is lost.
    pub(super) fn totals(&self) -> Totals {
        let lost = self.totals.sent.saturating_sub(self.totals.delivered);
        Totals { lost, ..self.totals }
    }
}

impl Call {
    fn is_set_up(&self) -> bool {
        self.from_caller.has_all(self.shape.caller) && self.from_callee.has_all(self.shape.callee)
    }
}

impl Parts {
    fn has(self, part: u32) -> bool {
        self.0 >> part & 1 == 1
    }

    fn has_later(self, part: u32) -> bool {
        self.0 >> part > 1
    }

    fn has_all(self, side: Side) -> bool {
        self.0.count_ones() == side.parts()
    }

    fn add(&mut self, part: u32) {
        self.0 |= 1 << part;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALLER: usize = 4;
    const CALLEE: usize = 5;
    const BEGIN_US: u64 = 1_000_000;
    const GATHER_US: u64 = 100_000;

    fn book() -> (CallBook, Shape) {
        let (mut book, shape) = (CallBook::new(GATHER_US), Shape::of(1, 0));
        book.begin(0, CALLER, CALLEE, BEGIN_US, shape);
        (book, shape)
    }

    /// All parts of both sides arrive in order; each takes so long, and the callee answers at once.
    fn play(book: &mut CallBook, number: u64, shape: Shape, latency_us: u64) -> Step {
        let mut last = Step::Nothing;
        for part in 0..shape.caller.parts() {
            book.sent();
            let leaves_us = BEGIN_US + shape.caller.leaves_after_us(part, GATHER_US);
            book.arrived(CALLEE, number, part, leaves_us + latency_us);
        }
        for part in 0..shape.callee.parts() {
            book.sent();
            let leaves_us = BEGIN_US + latency_us + shape.callee.leaves_after_us(part, GATHER_US);
            last = book.arrived(CALLER, number, part, leaves_us + latency_us);
        }
        last
    }

    #[test]
    fn a_call_is_set_up_when_both_have_all_and_the_gathering_is_not_counted() {
        let (mut book, shape) = book();

        let step = play(&mut book, 0, shape, 2_000);

        let times = Times { begin_us: BEGIN_US, set_up_us: 4_000, answered_us: 4_000 };
        assert_eq!(step, Step::SetUp(times));
        assert_eq!((book.open(), book.done(), book.totals().lost), (0, 1, 0));
    }

    #[test]
    fn the_callee_answers_the_offer_once_and_nothing_else() {
        let (mut book, shape) = book();

        assert_eq!(book.arrived(CALLEE, 0, 1, BEGIN_US), Step::Nothing);
        assert_eq!(book.arrived(CALLEE, 0, 0, BEGIN_US), Step::Offered { shape, caller: CALLER });
        assert_eq!(book.arrived(CALLEE, 0, 0, BEGIN_US), Step::Nothing);
        assert_eq!(book.arrived(CALLER, 0, 0, BEGIN_US), Step::Nothing);
    }

    #[test]
    fn what_comes_again_is_doubled_also_when_the_call_is_over() {
        let (mut book, shape) = book();
        book.arrived(CALLEE, 0, 3, BEGIN_US);
        book.arrived(CALLEE, 0, 3, BEGIN_US);
        assert_eq!(book.totals().doubled, 1);

        let (mut book, _) = self::book();
        play(&mut book, 0, shape, 1);
        book.arrived(CALLER, 0, 1, BEGIN_US);

        assert_eq!(book.totals().doubled, 1);
    }

    #[test]
    fn what_comes_after_a_later_one_is_swapped() {
        let (mut book, _) = book();
        for part in [0, 2, 1, 3] {
            book.arrived(CALLEE, 0, part, BEGIN_US);
        }

        assert_eq!(book.totals().swapped, 1);
    }

    #[test]
    fn a_call_with_a_lost_part_stays_open() {
        let (mut book, shape) = book();
        for part in 1..shape.caller.parts() {
            book.sent();
            book.arrived(CALLEE, 0, part, BEGIN_US);
        }
        book.sent();

        assert_eq!((book.open(), book.totals().lost), (1, 1));
    }

    #[test]
    fn what_is_for_somebody_else_or_of_no_call_is_foreign() {
        let (mut book, _) = book();
        book.arrived(9, 0, 1, BEGIN_US);
        book.arrived(CALLER, 77, 1, BEGIN_US);

        assert_eq!((book.foreign(), book.totals().delivered), (2, 0));
    }
}
