use serde::{Deserialize, Serialize};

use super::acks::AckTotals;
use super::sender::Sending;
use super::{Books, Returns};
use crate::common::CommonPart;
use crate::costs::Costs;
use crate::crew::Part;
use crate::fleet::Fleet;
use crate::latency::Latencies;

/// What became of the traffic of one process.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct TrafficPart {
    pub(super) common: CommonPart,
    pub(super) connect_seconds: f64,
    /// Delivered within the measured time.
    pub(super) messages: u64,
    pub(super) own_cpu_seconds: f64,
    pub(super) errors: u64,
    pub(super) acks: AckTotals,
    pub(super) returns: Returns,
    pub(super) latency: Latencies,
    /// Of the process that watches the servers.
    pub(super) costs: Option<Costs>,
}

impl TrafficPart {
    pub(crate) fn new(fleet: &Fleet, books: &Books, sending: Sending) -> Self {
        Self {
            common: CommonPart {
                clients: fleet.clients.len(),
                connect: fleet.connect.clone(),
                planned: sending.planned,
                begun: sending.sent,
                totals: books.totals(),
                foreign: books.foreign(),
                lateness: sending.lateness,
                others: books.others(),
                closed: books.closed(),
                timeline: books.timeline(),
            },
            connect_seconds: fleet.connect_seconds,
            messages: sending.messages,
            own_cpu_seconds: sending.own_cpu_seconds,
            errors: books.errors(),
            acks: books.ack_totals(),
            returns: books.returns(),
            latency: books.latencies(),
            costs: sending.costs,
        }
    }
}

impl Part for TrafficPart {
    fn absorb(&mut self, other: Self) {
        self.common.absorb(other.common);
        self.connect_seconds = self.connect_seconds.max(other.connect_seconds);
        self.messages += other.messages;
        self.own_cpu_seconds += other.own_cpu_seconds;
        self.errors += other.errors;
        self.acks.absorb(other.acks);
        self.returns += other.returns;
        self.latency.absorb(&other.latency);
        self.costs = self.costs.take().or(other.costs);
    }
}
