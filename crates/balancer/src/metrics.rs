//! Metrics of a balancer beside its edge's. `trunk_manager` counts, and sets gauges at scrapes.

use signaling_metrics::{By, Gauge, Publish, label, metrics};
use signaling_server::metrics::publish_suspects;

use crate::backend::State;

metrics! {
    /// Metrics of a balancer.
    pub struct BalancerMetrics {
        usable: Gauge = "signaling_usable_nodes", "Nodes that take clients; with 0 the balancer refuses new clients";
        misplaced: Gauge = "signaling_misplaced_sessions", "Sessions that another node owns and that wait for their handoff";
        open_failures: By<OpenFailure> = "signaling_trunk_open_failures_total",
            "Trunks not opened: no connection or a refusal (refused), or no answer within 2 s (timeout)";
    }
}

label! {
    /// Reason why a trunk was not opened: no connection or a refusal, or no answer within 2 s.
    pub(crate) enum OpenFailure = "reason" { Refused = "refused", Timeout = "timeout" }
}

/// Sets the gauges of suspect and usable nodes, and of sessions that wait for a handoff.
pub(crate) fn publish(State { placement, handoffs, .. }: &State) {
    publish_suspects(placement.suspect_ids().count());
    METRICS.usable.publish(placement.usable_count() as u64);
    METRICS.misplaced.publish(handoffs.waiting() as u64);
}
