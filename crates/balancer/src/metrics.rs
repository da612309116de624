//! What a balancer counts beside what its edge does.

use metrics::{Gauge, describe_gauge, gauge};

use crate::placement::Placement;

const SUSPECTS: &str = "signaling_suspect_nodes";

/// Handles that belong to the recorder installed when they were made.
pub(crate) struct BalancerMetrics {
    suspects: Gauge,
}

impl BalancerMetrics {
    pub(crate) fn new() -> Self {
        describe_gauge!(SUSPECTS, "Nodes that this balancer does not rely on now.");
        Self { suspects: gauge!(SUSPECTS) }
    }

    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    pub(crate) fn publish(&self, placement: &Placement) {
        self.suspects.set(placement.suspects() as f64);
    }
}
