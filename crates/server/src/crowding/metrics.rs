//! What is counted of the readiness by load.

use metrics::{Counter, Gauge, counter, describe_counter, describe_gauge, gauge};

use super::core::{Decision, Standing};

/// Handles, made once.
pub(super) struct CrowdingMetrics {
    crowded: Gauge,
    times: Counter,
    heard: Gauge,
    mean: Gauge,
}

impl CrowdingMetrics {
    pub(super) fn new() -> Self {
        describe_gauge!(
            "signaling_crowded",
            "1 while this server says unready because it has more clients than its peers."
        );
        describe_counter!("signaling_crowded_total", "Times that it began to.");
        describe_gauge!("signaling_peers_heard", "Peers that have lately said how many clients they have.");
        describe_gauge!("signaling_peers_mean_clients", "Mean number of clients of this server and its peers.");
        let times = counter!("signaling_crowded_total");
        times.absolute(0);
        Self {
            crowded: gauge!("signaling_crowded"),
            times,
            heard: gauge!("signaling_peers_heard"),
            mean: gauge!("signaling_peers_mean_clients"),
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
