//! What discovery tells of itself.

use std::time::Duration;

use metrics::{Counter, Gauge, counter, describe_counter, describe_gauge, gauge};

use crate::{Subject, View};

/// Handles that belong to the recorder installed when they were made.
pub(crate) struct Metrics {
    view_nodes: Gauge,
    age: Gauge,
    failures: Counter,
}

/// Names of metrics.
struct Names {
    view: &'static str,
    age: &'static str,
    failures: &'static str,
}

const OF_NODES: Names = Names {
    view: "signaling_view_nodes",
    age: "signaling_discovery_age_seconds",
    failures: "signaling_discovery_failures_total",
};
const OF_PEERS: Names = Names {
    view: "signaling_view_peers",
    age: "signaling_peer_discovery_age_seconds",
    failures: "signaling_peer_discovery_failures_total",
};

impl Metrics {
    pub(crate) fn register(subject: Subject) -> Self {
        let names = match subject {
            Subject::Nodes => OF_NODES,
            Subject::Peers => OF_PEERS,
        };
        describe_gauge!(names.view, "Servers in the view in use, draining ones included.");
        describe_gauge!(names.age, "Seconds since the source of views was last read well.");
        describe_counter!(names.failures, "Readings of the source that gave no view to use, broken watches included.");
        Self { view_nodes: gauge!(names.view), age: gauge!(names.age), failures: counter!(names.failures) }
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
