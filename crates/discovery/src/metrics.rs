//! What discovery tells of itself.

use std::time::Duration;

use metrics::{Counter, Gauge, counter, describe_counter, describe_gauge, gauge};

use crate::View;

const VIEW_NODES: &str = "signaling_view_nodes";
const AGE: &str = "signaling_discovery_age_seconds";
const FAILURES: &str = "signaling_discovery_failures_total";

/// Handles that belong to the recorder installed when they were made.
pub(crate) struct Metrics {
    view_nodes: Gauge,
    age: Gauge,
    failures: Counter,
}

impl Metrics {
    pub(crate) fn register() -> Self {
        describe_gauge!(VIEW_NODES, "Nodes in the view in use, draining ones included.");
        describe_gauge!(AGE, "Seconds since the source of views was last read well.");
        describe_counter!(FAILURES, "Readings of the source that gave no view to use, broken watches included.");
        Self { view_nodes: gauge!(VIEW_NODES), age: gauge!(AGE), failures: counter!(FAILURES) }
    }

    pub(crate) fn published(&self, view: &View) {
        self.view_nodes.set(view.len() as f64);
    }

    pub(crate) fn failed(&self) {
        self.failures.increment(1);
    }

    pub(crate) fn aged(&self, age: Duration) {
        self.age.set(age.as_secs_f64());
    }
}
