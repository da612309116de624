//! Metrics of the discovery of nodes. Discovery of other servers has none: its failures are logged.

use signaling_metrics::{Counter, FloatGauge, Gauge, metrics};

metrics! {
    /// Metrics of a server that discovers nodes.
    pub struct DiscoveryMetrics {
        nodes: Gauge = "signaling_view_nodes", "Nodes in the current view, including draining nodes";
        age: FloatGauge = "signaling_discovery_age_seconds",
            "Seconds since the last good read of the source of views, else since the start";
        failures: Counter = "signaling_discovery_failures_total",
            "Reads of the source that gave no usable view, including broken watches";
        changes: Counter = "signaling_view_changes_total", "Views published, including the empty first one";
    }
}
