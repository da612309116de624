use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Books;
use super::acks::AckTotals;
use super::sender::Sending;
use crate::costs::Costs;
use crate::crew::Part;
use crate::fleet::Fleet;
use crate::latency::Latencies;
use crate::ledger::Totals;
use crate::merge::add_counts;
use crate::timeline::Timeline;

/// What became of the traffic of one process.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct TrafficPart {
    pub(super) clients: usize,
    pub(super) connect_seconds: f64,
    pub(super) connect: Latencies,
    pub(super) planned: u64,
    pub(super) sent: u64,
    /// Delivered within the measured time.
    pub(super) messages: u64,
    pub(super) lateness: Latencies,
    pub(super) own_cpu_seconds: f64,
    pub(super) totals: Totals,
    pub(super) foreign: u64,
    pub(super) errors: u64,
    pub(super) acks: AckTotals,
    pub(super) latency: Latencies,
    pub(super) others: BTreeMap<String, u64>,
    pub(super) closed: BTreeMap<String, u64>,
    pub(super) timeline: Timeline,
    /// Of the process that watches the servers.
    pub(super) costs: Option<Costs>,
}

impl TrafficPart {
    pub(crate) fn new(fleet: &Fleet, books: &Books, sending: Sending) -> Self {
        Self {
            clients: fleet.clients.len(),
            connect_seconds: fleet.connect_seconds,
            connect: fleet.connect.clone(),
            planned: sending.planned,
            sent: sending.sent,
            messages: sending.messages,
            lateness: sending.lateness,
            own_cpu_seconds: sending.own_cpu_seconds,
            totals: books.totals(),
            foreign: books.foreign(),
            errors: books.errors(),
            acks: books.ack_totals(),
            latency: books.latencies(),
            others: books.others(),
            closed: books.closed(),
            timeline: books.timeline(),
            costs: sending.costs,
        }
    }
}

impl Part for TrafficPart {
    fn absorb(&mut self, other: Self) {
        self.clients += other.clients;
        self.connect_seconds = self.connect_seconds.max(other.connect_seconds);
        self.connect.absorb(&other.connect);
        self.planned += other.planned;
        self.sent += other.sent;
        self.messages += other.messages;
        self.lateness.absorb(&other.lateness);
        self.own_cpu_seconds += other.own_cpu_seconds;
        self.totals += other.totals;
        self.foreign += other.foreign;
        self.errors += other.errors;
        self.acks.absorb(other.acks);
        self.latency.absorb(&other.latency);
        add_counts(&mut self.others, other.others);
        add_counts(&mut self.closed, other.closed);
        self.timeline.absorb(&other.timeline);
        self.costs = self.costs.take().or(other.costs);
    }
}
