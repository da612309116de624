//! What a balancer counts beside what its edge does.

use std::time::Duration;

use ::metrics::Gauge;
use signaling_metrics::{Label, Metric};
use signaling_server::metrics::SUSPECTS;

use crate::trunks::State;

/// All of it.
pub const METRICS: &[Metric] = &[USABLE, MISPLACED, REARRANGED, REARRANGED_TIMES, OPEN_FAILURES];

const USABLE: Metric =
    Metric::gauge("signaling_usable_nodes", "Nodes that clients can be sent to: without any, none is let in.");
const MISPLACED: Metric = Metric::gauge(
    "signaling_misplaced_sessions",
    "Sessions that another node owns now and that wait for their handoff.",
);
const REARRANGED: Metric =
    Metric::counter("signaling_rearrangements_total", "Times that clients had to move because nodes came or went.");
const REARRANGED_TIMES: Metric = Metric::times(
    "signaling_rearrangement_seconds",
    "From the first to the last client that was released for another node, in one rearrangement.",
);
const OPEN_FAILURES: Metric = Metric::counter(
    "signaling_trunk_open_failures_total",
    "Trunks that could not be opened: no connection, or a refusal; no answer.",
)
.by(&[Label { name: "reason", values: &["refused", "timeout"] }]);

/// Handles that belong to the recorder installed when they were made.
pub(crate) struct BalancerMetrics {
    suspects: Gauge,
    usable: Gauge,
    misplaced: Gauge,
}

impl BalancerMetrics {
    pub(crate) fn new() -> Self {
        METRICS.iter().for_each(Metric::announce);
        Self { suspects: SUSPECTS.gauge_of(&[]), usable: USABLE.gauge_of(&[]), misplaced: MISPLACED.gauge_of(&[]) }
    }

    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    pub(crate) fn publish(&self, State { placement, moves, .. }: &State) {
        self.suspects.set(placement.suspects() as f64);
        self.usable.set(placement.usable() as f64);
        self.misplaced.set(moves.waiting() as f64);
    }
}

/// All who had to move were told to, after so long.
pub(crate) fn rearranged(took: Duration) {
    REARRANGED.counter_of(&[]).increment(1);
    REARRANGED_TIMES.times_of(&[]).record(took);
}

/// A trunk could not be opened; or there was no answer in time.
pub(crate) fn open_failed(in_time: bool) {
    OPEN_FAILURES.counter_of(&[if in_time { "refused" } else { "timeout" }]).increment(1);
}
