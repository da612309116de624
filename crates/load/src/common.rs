use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::latency::Latencies;
use crate::ledger::Totals;
use crate::merge::add_counts;
use crate::timeline::Timeline;

/// What one process finds in every scenario whose clients write to each other.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct CommonPart {
    pub(crate) clients: usize,
    /// How long each took to connect.
    pub(crate) connect: Latencies,
    /// What the schedule asked for.
    pub(crate) planned: u64,
    /// What of it was begun.
    pub(crate) begun: u64,
    pub(crate) totals: Totals,
    /// Messages of another run, or for somebody else.
    pub(crate) foreign: u64,
    /// The harness's own, from the intended time to the write.
    pub(crate) lateness: Latencies,
    /// Errors by code, other frames by type.
    pub(crate) others: BTreeMap<String, u64>,
    /// Sockets that ended though we did not end them, by reason.
    pub(crate) closed: BTreeMap<String, u64>,
    pub(crate) timeline: Timeline,
}

impl CommonPart {
    /// Takes in what another process has found of the same run.
    pub(crate) fn absorb(&mut self, other: Self) {
        self.clients += other.clients;
        self.connect.absorb(&other.connect);
        self.planned += other.planned;
        self.begun += other.begun;
        self.totals += other.totals;
        self.foreign += other.foreign;
        self.lateness.absorb(&other.lateness);
        add_counts(&mut self.others, other.others);
        add_counts(&mut self.closed, other.closed);
        self.timeline.absorb(&other.timeline);
    }
}
