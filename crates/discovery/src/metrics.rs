//! What discovery tells of itself.

use std::time::Duration;

use ::metrics::{Counter, Gauge};
use signaling_metrics::Metric;

use crate::Subject;
use signaling_core::View;

/// Of nodes: all of it.
pub const METRICS: &[Metric] = &OF_NODES.all();
/// Of servers that ask each other: all of it.
pub const METRICS_OF_PEERS: &[Metric] = &OF_PEERS.all();

/// Handles that belong to the recorder installed when they were made.
pub(crate) struct Metrics {
    view_nodes: Gauge,
    age: Gauge,
    failures: Counter,
    changes: Counter,
}

/// What is counted of one kind of servers that are followed.
struct Names {
    view: Metric,
    age: Metric,
    failures: Metric,
    changes: Metric,
}

impl Names {
    const fn all(&self) -> [Metric; 4] {
        [self.view, self.age, self.failures, self.changes]
    }
}

const OF_NODES: Names = Names {
    view: Metric::gauge("signaling_view_nodes", "Nodes in the view in use, draining ones included."),
    age: Metric::gauge("signaling_discovery_age_seconds", "Seconds since the source of views was last read well."),
    failures: Metric::counter(
        "signaling_discovery_failures_total",
        "Readings of the source that gave no view to use, broken watches included.",
    ),
    changes: Metric::counter("signaling_view_changes_total", "Views that took the place of another."),
};
const OF_PEERS: Names = Names {
    view: Metric::gauge(
        "signaling_view_peers",
        "Other servers behind the same front that are known (`--balancer-discovery`).",
    ),
    age: Metric::gauge("signaling_peer_discovery_age_seconds", "Seconds since the source of peers was last read well."),
    failures: Metric::counter(
        "signaling_peer_discovery_failures_total",
        "Readings of the source of peers that gave none to use.",
    ),
    changes: Metric::counter("signaling_peer_changes_total", "Sets of peers that took the place of another."),
};

impl Metrics {
    pub(crate) fn register(subject: Subject) -> Self {
        let names = match subject {
            Subject::Nodes => &OF_NODES,
            Subject::Peers => &OF_PEERS,
        };
        names.all().iter().for_each(Metric::announce);
        Self {
            view_nodes: names.view.gauge_of(&[]),
            age: names.age.gauge_of(&[]),
            failures: names.failures.counter_of(&[]),
            changes: names.changes.counter_of(&[]),
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
