use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::crew::Part;
use crate::latency::Latencies;
use crate::ledger::Totals;
use crate::merge::add_counts;
use crate::timeline::Timeline;

/// What became of the calls of one process.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct CallPart {
    pub(super) clients: usize,
    pub(super) connect: Latencies,
    pub(super) planned: u64,
    pub(super) begun: u64,
    pub(super) set_up: u64,
    pub(super) totals: Totals,
    pub(super) foreign: u64,
    /// Of the calls that were to begin in the measured time.
    pub(super) set_up_times: Latencies,
    pub(super) answer_times: Latencies,
    pub(super) lateness: Latencies,
    pub(super) others: BTreeMap<String, u64>,
    pub(super) closed: BTreeMap<String, u64>,
    pub(super) timeline: Timeline,
}

impl Part for CallPart {
    fn absorb(&mut self, other: Self) {
        self.clients += other.clients;
        self.connect.absorb(&other.connect);
        self.planned += other.planned;
        self.begun += other.begun;
        self.set_up += other.set_up;
        self.totals += other.totals;
        self.foreign += other.foreign;
        self.set_up_times.absorb(&other.set_up_times);
        self.answer_times.absorb(&other.answer_times);
        self.lateness.absorb(&other.lateness);
        add_counts(&mut self.others, other.others);
        add_counts(&mut self.closed, other.closed);
        self.timeline.absorb(&other.timeline);
    }
}
