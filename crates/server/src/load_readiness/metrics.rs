//! Metrics of readiness by load.

use ::metrics::{Counter, Gauge};
use signaling_metrics::Metric;

use super::rule::{Decision, ReadinessState};

/// All of them.
pub const METRICS: &[Metric] = &[UNREADY, UNREADY_TOTAL, REPORTING, MEAN];

const UNREADY: Metric = Metric::gauge(
    "signaling_load_unready",
    "1 while this server reports unready because of its client count (`--unready-above-percent`).",
);
const UNREADY_TOTAL: Metric = Metric::counter(
    "signaling_load_unready_total",
    "Times that this server became unready because of its client count.",
);
const REPORTING: Metric =
    Metric::gauge("signaling_load_reporting_peers", "Peers whose client count was read within 6 s.");
const MEAN: Metric =
    Metric::gauge("signaling_load_mean_clients", "Mean client count of this server and its reporting peers.");

pub(super) struct LoadReadinessMetrics {
    unready: Gauge,
    unready_total: Counter,
    reporting: Gauge,
    mean: Gauge,
}

impl LoadReadinessMetrics {
    pub(super) fn new() -> Self {
        METRICS.iter().for_each(Metric::announce);
        Self {
            unready: UNREADY.gauge_of(&[]),
            unready_total: UNREADY_TOTAL.counter_of(&[]),
            reporting: REPORTING.gauge_of(&[]),
            mean: MEAN.gauge_of(&[]),
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    pub(super) fn publish(&self, decision: &Decision, became_unready: bool) {
        self.unready.set(f64::from(u8::from(decision.state == ReadinessState::Unready)));
        self.unready_total.increment(u64::from(became_unready));
        self.reporting.set(decision.reporting_peers as f64);
        self.mean.set(decision.mean);
    }
}
