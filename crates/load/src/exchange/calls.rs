use std::collections::BTreeMap;

use anyhow::Result;
use clap::Args;

use super::shape::{Shape, Side, call_and_part, tag_of};
use super::{Arrived, Plan, RunOptions, Workload, partners, turns};
use crate::record::Record;
use crate::workers::Share;

/// Calls a second: more than the harness can begin.
pub(crate) const MAX_RATE: u64 = 100_000;

/// Calls that clients make.
#[derive(Clone, Debug, Args)]
pub struct CallOptions {
    /// Calls begun per second.
    #[arg(long, default_value_t = 50, overrides_with = "rate", value_parser = clap::value_parser!(u64).range(1..=MAX_RATE))]
    pub rate: u64,
    /// Duration and seed.
    #[command(flatten)]
    pub run: RunOptions,
    /// Time in which each side's candidates leave one by one, in milliseconds; not part of the
    /// set-up time.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(..=10_000))]
    pub gather_ms: u64,
    /// Fail when the 99th percentile of the set-up time is above this, in milliseconds.
    #[arg(long)]
    pub max_setup_p99_ms: Option<f64>,
}

impl CallOptions {
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
    /// Messages that have not arrived.
    missing: u32,
}

impl Calls {
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
        record.add("calls", "begun", 1);
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
            record.time("answer", begin_us, after_us);
        }
        if part == 0 && receiver == self.partner_of[caller] {
            self.plan(number, shape.callee, receiver, now_us, plan);
        }
        if is_set_up {
            let set_up_us = after_us.saturating_sub(self.gather_us);
            self.open_by_number.remove(&number);
            record.add("calls", "set_up", 1);
            record.time("set_up", begin_us, set_up_us);
        }
    }

    fn open(&self) -> u64 {
        self.open_by_number.len() as u64
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::testing::options;

    const BEGIN_US: u64 = 1_000_000;

    /// One call between two clients, whose messages each take so long; those of the plan that
    /// `arrives` lets through.
    fn play(latency_us: u64, arrives: impl Fn(usize) -> bool) -> (Calls, Record) {
        let mut calls = Calls::new(2, &options(&["--gather-ms=100"]).unwrap());
        let (mut plan, mut record) = (Plan::default(), Record::default());
        record.measure(0..u64::MAX);
        calls.begin(0, BEGIN_US, &mut plan, &mut record);
        let mut sent = 0;
        while let Some(message) = plan.next(u64::MAX) {
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

        assert_eq!((calls.open(), record.count("calls", "set_up")), (0, 1));
        assert_eq!((record.percentiles("set_up").max, record.percentiles("answer").max), (4_001, 4_001));
    }

    #[test]
    fn call_with_a_lost_part_stays_open_and_only_offers_count() {
        for (lost, answers) in [(5, 1), (0, 0)] {
            let (calls, record) = play(2_000, |sent| sent != lost);

            assert_eq!((calls.open(), record.count("calls", "set_up")), (1, 0));
            assert_eq!(record.percentiles("answer").count, answers);
        }
    }
}
