//! What is counted of the readiness by load.

use ::metrics::{Counter, Gauge};
use signaling_metrics::Metric;

use super::core::{Decision, Standing};

/// All of it.
pub const METRICS: &[Metric] = &[CROWDED, TIMES, HEARD, MEAN];

const CROWDED: Metric = Metric::gauge(
    "signaling_crowded",
    "1 while this server says unready because it has more clients than its peers (`--ready-above`).",
);
const TIMES: Metric = Metric::counter("signaling_crowded_total", "Times that it began to.");
const HEARD: Metric = Metric::gauge("signaling_peers_heard", "Peers that have lately said how many clients they have.");
const MEAN: Metric =
    Metric::gauge("signaling_peers_mean_clients", "Mean number of clients of this server and its peers.");

/// Handles, made once.
pub(super) struct CrowdingMetrics {
    crowded: Gauge,
    times: Counter,
    heard: Gauge,
    mean: Gauge,
}

impl CrowdingMetrics {
    pub(super) fn new() -> Self {
        METRICS.iter().for_each(Metric::announce);
        Self {
            crowded: CROWDED.gauge_of(&[]),
            times: TIMES.counter_of(&[]),
            heard: HEARD.gauge_of(&[]),
            mean: MEAN.gauge_of(&[]),
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    pub(super) fn publish(&self, decision: &Decision) {
        self.crowded.set(f64::from(u8::from(decision.standing == Standing::Crowded)));
        self.heard.set(decision.heard as f64);
        self.mean.set(decision.mean);
    }

    pub(super) fn begins(&self) {
        self.times.increment(1);
    }
}
