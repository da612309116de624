//! Calls that pairs of clients set up: the workload of the scenario `calls`. Pure.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use serde::{Deserialize, Serialize};

use super::workload::{Plan, Workload};
use crate::record::Record;

/// Counts of calls, including those of the warm-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CallTotals {
    pub(crate) begun: u64,
    /// Calls of which all messages have arrived.
    pub(crate) set_up: u64,
}

/// Calls that are set up. The caller sends its description at once, and its candidates evenly over
/// the gathering time. The callee does the same once it has the caller's description. A call is set
/// up when both have all messages. With a lost message it stays open.
#[derive(Debug)]
pub(crate) struct Calls {
    seed: u64,
    gather_us: u64,
    open_by_number: BTreeMap<u64, Call>,
}

#[derive(Debug)]
struct Call {
    caller: usize,
    begin_us: u64,
    callee_side: Side,
    missing: u64,
}

const DESCRIPTION_BYTES: RangeInclusive<usize> = 2_000..=4_000;
const CANDIDATE_BYTES: RangeInclusive<usize> = 150..=300;
const CANDIDATES: RangeInclusive<u64> = 10..=30;
/// Maximum parts of one side: its description, which is part 0, and its candidates. The tag of a
/// message is the number of its call times this, plus its part.
const PARTS: u64 = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Side {
    description_bytes: usize,
    /// Number of candidates, above 0.
    candidates: u64,
}

impl Calls {
    pub(crate) fn new(seed: u64, gather_ms: u64) -> Self {
        Self { seed, gather_us: gather_ms * 1_000, open_by_number: BTreeMap::new() }
    }

    /// Returns the messages of caller and callee. They depend only on the seed and the call's
    /// number.
    fn sides(&self, call: u64) -> [Side; 2] {
        let mut random = StdRng::seed_from_u64(self.seed ^ call.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        [(); 2].map(|()| Side {
            description_bytes: random.random_range(DESCRIPTION_BYTES),
            candidates: random.random_range(CANDIDATES),
        })
    }

    /// Plans the messages of one side: client `from`, which starts to gather at `begin_us`.
    fn plan(&self, call: u64, side: Side, from: usize, begin_us: u64, plan: &mut Plan) {
        for part in 0..=side.candidates {
            let at_us = begin_us + self.gather_us * part / side.candidates;
            plan.add(at_us, from, call * PARTS + part, side.bytes(part));
        }
    }
}

impl Workload for Calls {
    fn begin(&mut self, number: u64, caller: usize, at_us: u64, plan: &mut Plan, record: &mut Record) {
        let [caller_side, callee_side] = self.sides(number);
        let missing = 2 + caller_side.candidates + callee_side.candidates;
        self.open_by_number.insert(number, Call { caller, begin_us: at_us, callee_side, missing });
        self.plan(number, caller_side, caller, at_us, plan);
        record.calls.begun += 1;
    }

    fn arrived(&mut self, receiver: usize, tag: u64, now_us: u64, plan: &mut Plan, record: &mut Record) {
        let (number, part) = (tag / PARTS, tag % PARTS);
        let Some(call) = self.open_by_number.get_mut(&number) else { return };
        call.missing -= 1;
        let Call { caller, begin_us, callee_side, missing } = *call;
        let after_us = now_us.saturating_sub(begin_us);
        if part == 0 && receiver == caller {
            record.time(|times| &mut times.answer, begin_us, after_us);
        }
        if part == 0 && receiver != caller {
            self.plan(number, callee_side, receiver, now_us, plan);
        }
        if missing == 0 {
            self.open_by_number.remove(&number);
            record.calls.set_up += 1;
            record.time(|times| &mut times.set_up, begin_us, after_us.saturating_sub(self.gather_us));
        }
    }

    fn open(&self) -> u64 {
        self.open_by_number.len() as u64
    }
}

impl Side {
    /// Returns the length of a part: 0 is the description, others are candidates.
    fn bytes(self, part: u64) -> usize {
        if part == 0 {
            return self.description_bytes;
        }
        let spread = CANDIDATE_BYTES.end() - CANDIDATE_BYTES.start() + 1;
        CANDIDATE_BYTES.start() + (self.description_bytes + part as usize * 37) % spread
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGIN_US: u64 = 1_000_000;

    /// Plays one call between two clients. Each message takes `latency_us`. A message is lost if
    /// `arrives` returns `false` for its number in the order sent.
    fn play(latency_us: u64, arrives: impl Fn(usize) -> bool) -> (Calls, Record) {
        let mut calls = Calls::new(1, 100);
        let (mut plan, mut record) = (Plan::default(), Record::default());
        record.measured_us = 0..u64::MAX;
        calls.begin(0, 1, BEGIN_US, &mut plan, &mut record);
        let mut sent = 0;
        while let Some(message) = plan.take_due(u64::MAX) {
            if arrives(sent) {
                let now_us = message.at_us + latency_us;
                calls.arrived(1 - message.from, message.tag, now_us, &mut plan, &mut record);
            }
            sent += 1;
        }
        (calls, record)
    }

    #[test]
    fn set_up_time_ends_when_both_have_all_without_the_gathering() {
        let (calls, record) = play(2_000, |_| true);

        assert_eq!((calls.open(), record.calls.set_up), (0, 1));
        assert_eq!((record.times.set_up.percentiles().max, record.times.answer.percentiles().max), (4_001, 4_001));
    }

    #[test]
    fn call_with_a_lost_part_stays_open_and_only_offers_count() {
        for (lost, answers) in [(5, 1), (0, 0)] {
            let (calls, record) = play(2_000, |sent| sent != lost);

            assert_eq!((calls.open(), record.calls.set_up), (1, 0));
            assert_eq!(record.times.answer.percentiles().count, answers);
        }
    }
}
