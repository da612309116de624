//! What discovery tells of itself.

use std::time::Duration;

use ::metrics::{Counter, Gauge};
use signaling_metrics::Metric;

use crate::View;

/// All of it.
pub const METRICS: &[Metric] = &[VIEW_NODES, AGE, FAILURES, CHANGES];

const VIEW_NODES: Metric = Metric::gauge("signaling_view_nodes", "Nodes in the view in use, draining ones included.");
const AGE: Metric =
    Metric::gauge("signaling_discovery_age_seconds", "Seconds since the source of views was last read well.");
const FAILURES: Metric = Metric::counter(
    "signaling_discovery_failures_total",
    "Readings of the source that gave no view to use, broken watches included.",
);
const CHANGES: Metric = Metric::counter("signaling_view_changes_total", "Views that took the place of another.");

/// Handles that belong to the recorder installed when they were made.
pub(crate) struct Metrics {
    view_nodes: Gauge,
    age: Gauge,
    failures: Counter,
    changes: Counter,
}

impl Metrics {
    pub(crate) fn register() -> Self {
        METRICS.iter().for_each(Metric::announce);
        Self {
            view_nodes: VIEW_NODES.gauge_of(&[]),
            age: AGE.gauge_of(&[]),
            failures: FAILURES.counter_of(&[]),
            changes: CHANGES.counter_of(&[]),
        }
    }

    pub(crate) fn published(&self, view: &View) {
        self.view_nodes.set(view.len() as f64);
        self.changes.increment(1);
    }

    pub(crate) fn failed(&self) {
        self.failures.increment(1);
    }

    pub(crate) fn aged(&self, age: Duration) {
        self.age.set(age.as_secs_f64());
    }
}
