//! Metrics of readiness by load.

use signaling_metrics::{Counter, Gauge, metrics};

metrics! {
    /// Metrics of a server with `--unready-above-percent`.
    pub struct LoadReadinessMetrics {
        unready: Gauge = "signaling_load_unready",
            "1 while this server reports unready because of its client count (`--unready-above-percent`), else 0";
        became_unready: Counter = "signaling_load_unready_total",
            "Changes of this server to unready because of its client count";
    }
}
