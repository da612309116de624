//! Calls that pairs of clients set up: the workload of the scenario `calls`. Pure.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use anyhow::Result;
use clap::Args;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use serde::{Deserialize, Serialize};

use super::RunOptions;
use super::workload::{Arrived, Plan, Workload, partners, turns};
use crate::message::Body;
use crate::record::Record;
use crate::workers::Share;

/// Maximum calls per second, above the limit of the generator.
const MAX_RATE: u64 = 100_000;

/// Calls that clients make.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Load")]
pub(crate) struct CallOptions {
    /// Calls begun per second
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=MAX_RATE))]
    pub(crate) rate: u64,
    #[command(flatten)]
    pub(crate) run: RunOptions,
    /// Time in which each side sends its candidates one by one, in milliseconds; not part of the
    /// set-up time
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(..=10_000))]
    pub(crate) gather_ms: u64,
    /// Fail when the 99th percentile of the set-up time is above this, in milliseconds
    #[arg(long)]
    pub(crate) max_setup_p99_ms: Option<f64>,
}

/// Counts of calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CallTotals {
    /// Calls that were started.
    pub(crate) begun: u64,
    /// Calls of which all messages have arrived.
    pub(crate) set_up: u64,
}

impl CallOptions {
    /// Returns the options of one process. Fails if the rate is below one call per process.
    pub(crate) fn of_share(&self, share: Share) -> Result<Self> {
        Ok(Self { rate: share.of_rate(self.rate)?, run: self.run.of_share(share), ..self.clone() })
    }
}

/// Calls that are set up. The caller sends its description and then its candidates, as a browser
/// finds them; the callee does the same once it has the offer. A call is set up when both have all.
#[derive(Debug)]
pub(crate) struct Calls {
    seed: u64,
    gather_us: u64,
    turns: Vec<usize>,
    partner_of: Vec<usize>,
    open_by_number: BTreeMap<u64, Call>,
}

#[derive(Debug)]
struct Call {
    caller: usize,
    begin_us: u64,
    shape: Shape,
    missing: u32,
}

impl Calls {
    /// Creates the workload. `clients` is even and above 0.
    pub(crate) fn new(clients: u32, options: &CallOptions) -> Self {
        let (clients, seed) = (clients as usize, options.run.seed);
        Self {
            seed,
            gather_us: options.gather_ms * 1_000,
            turns: turns(clients, seed),
            partner_of: partners(clients, seed),
            open_by_number: BTreeMap::new(),
        }
    }

    /// Plans what one side sends, from the begin of its gathering on.
    fn plan(&self, call: u64, side: Side, from: usize, begin_us: u64, plan: &mut Plan) {
        for part in 0..side.parts() {
            let at_us = begin_us + side.leaves_after_us(part, self.gather_us);
            plan.add(at_us, from, tag_of(call, part), side.body(part));
        }
    }
}

impl Workload for Calls {
    fn begin(&mut self, number: u64, at_us: u64, plan: &mut Plan, record: &mut Record) {
        let turn = usize::try_from(number % self.turns.len() as u64).unwrap_or(0);
        let (caller, shape) = (self.turns[turn], Shape::of(self.seed, number));
        let missing = shape.caller.parts() + shape.callee.parts();
        self.open_by_number.insert(number, Call { caller, begin_us: at_us, shape, missing });
        self.plan(number, shape.caller, caller, at_us, plan);
        record.calls.begun += 1;
    }

    fn arrived(&mut self, arrived: &Arrived, plan: &mut Plan, record: &mut Record) {
        let Arrived { receiver, tag, now_us, .. } = *arrived;
        let (number, part) = call_and_part(tag);
        let Some(call) = self.open_by_number.get_mut(&number) else { return };
        let Call { caller, begin_us, shape, .. } = *call;
        call.missing -= 1;
        let is_set_up = call.missing == 0;
        let after_us = now_us.saturating_sub(begin_us);
        if part == 0 && receiver == caller {
            record.time(|times| &mut times.answer, begin_us, after_us);
        }
        if part == 0 && receiver == self.partner_of[caller] {
            self.plan(number, shape.callee, receiver, now_us, plan);
        }
        if is_set_up {
            let set_up_us = after_us.saturating_sub(self.gather_us);
            self.open_by_number.remove(&number);
            record.calls.set_up += 1;
            record.time(|times| &mut times.set_up, begin_us, set_up_us);
        }
    }

    fn open(&self) -> u64 {
        self.open_by_number.len() as u64
    }
}

const DESCRIPTION_BYTES: RangeInclusive<usize> = 2_000..=4_000;
const CANDIDATE_BYTES: RangeInclusive<usize> = 150..=300;
const CANDIDATES: RangeInclusive<u32> = 10..=30;
/// Maximum parts of one side: its description, which is part 0, and its candidates.
const PARTS: u64 = 64;

/// Number and size of the messages that the two sides of a call exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    /// Messages of the caller and of the callee.
    pub(super) caller: Side,
    pub(super) callee: Side,
}

/// Messages of one side of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Side {
    description_bytes: usize,
    /// Number of candidates.
    pub(super) candidates: u32,
}

impl Shape {
    /// Returns the shape of a call, which depends only on the seed and the number.
    pub(super) fn of(seed: u64, call: u64) -> Self {
        let mut random = StdRng::seed_from_u64(seed ^ call.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let mut side = || Side {
            description_bytes: random.random_range(DESCRIPTION_BYTES),
            candidates: random.random_range(CANDIDATES),
        };
        Self { caller: side(), callee: side() }
    }
}

impl Side {
    /// Returns the number of messages: the description and the candidates.
    pub(super) fn parts(self) -> u32 {
        1 + self.candidates
    }

    /// Returns the sending time of a part, in microseconds since the side begins.
    pub(super) fn leaves_after_us(self, part: u32, gather_us: u64) -> u64 {
        gather_us * u64::from(part) / u64::from(self.candidates.max(1))
    }

    /// Returns the data of a part: 0 is the description, others are candidates.
    pub(super) fn body(self, part: u32) -> Body {
        let bytes = self.bytes(part);
        if part == 0 { Body::description(bytes) } else { Body::candidate(bytes) }
    }

    fn bytes(self, part: u32) -> usize {
        if part == 0 {
            return self.description_bytes;
        }
        let spread = CANDIDATE_BYTES.end() - CANDIDATE_BYTES.start() + 1;
        CANDIDATE_BYTES.start() + (self.description_bytes + part as usize * 37) % spread
    }
}

/// Returns the tag of a message, which encodes its call and part.
pub(super) fn tag_of(call: u64, part: u32) -> u64 {
    call * PARTS + u64::from(part)
}

/// Returns the call and the part of a tag.
pub(super) fn call_and_part(tag: u64) -> (u64, u32) {
    (tag / PARTS, (tag % PARTS) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::options;

    const BEGIN_US: u64 = 1_000_000;

    /// One call between two clients, whose messages each take so long; those of the plan that
    /// `arrives` lets through.
    fn play(latency_us: u64, arrives: impl Fn(usize) -> bool) -> (Calls, Record) {
        let mut calls = Calls::new(2, &options(&["--gather-ms=100"]).unwrap());
        let (mut plan, mut record) = (Plan::default(), Record::default());
        record.measured_us = 0..u64::MAX;
        calls.begin(0, BEGIN_US, &mut plan, &mut record);
        let mut sent = 0;
        while let Some(message) = plan.take_due(u64::MAX) {
            if arrives(sent) {
                let now_us = message.at_us + latency_us;
                let receiver = calls.partner_of[message.from];
                let arrived = Arrived { receiver, tag: message.tag, now_us };
                calls.arrived(&arrived, &mut plan, &mut record);
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

    #[test]
    fn calls_are_as_large_as_calls_are_and_differ() {
        let shapes: Vec<Shape> = (0..1_000).map(|call| Shape::of(7, call)).collect();
        let sides = || shapes.iter().flat_map(|shape| [shape.caller, shape.callee]);

        assert!(sides().all(|side| CANDIDATES.contains(&side.candidates)));
        assert!(sides().all(|side| DESCRIPTION_BYTES.contains(&side.bytes(0))));
        assert!(sides().all(|side| (1..side.parts()).all(|part| CANDIDATE_BYTES.contains(&side.bytes(part)))));
        let mean = sides().map(|side| f64::from(side.candidates)).sum::<f64>() / 2_000.0;
        assert!((19.0..21.0).contains(&mean), "{mean}");
        assert_ne!(shapes[0], shapes[1]);
        assert_eq!(Shape::of(7, 3), shapes[3]);
        assert_ne!(Shape::of(8, 3), shapes[3]);
    }

    #[test]
    fn description_leaves_first_and_the_last_candidate_at_the_end() {
        let side = Side { description_bytes: 2_000, candidates: 10 };

        assert_eq!([0, 5, 10].map(|part| side.leaves_after_us(part, 100_000)), [0, 50_000, 100_000]);
        assert_eq!(side.leaves_after_us(10, 0), 0);
    }

    #[test]
    fn numbers_are_read_as_they_are_written() {
        for (call, part) in [(0, 0), (1, 30), (9_999_999, 1)] {
            assert_eq!(call_and_part(tag_of(call, part)), (call, part));
        }
        assert!(u64::from(CANDIDATES.end() + 1) <= PARTS);
    }
}
