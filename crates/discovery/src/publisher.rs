//! Publishes views, and logs and counts failed readings of their source.
//! All receivers get a view as one `Arc`. A rejected view is counted each time, logged once per
//! kind of error until the source recovers, and shows in the age of the view.

use std::collections::HashSet;
use std::mem::{Discriminant, discriminant};
use std::sync::Arc;

use signaling_metrics::Publish;
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::{info, warn};

use crate::metrics::{DiscoveryMetrics, METRICS};
use crate::{ReadError, Subject};
use signaling_membership::{NodeEntry, View};

/// Maximum node names in a log field.
const MAX_NAMES: usize = 5;

/// Writing side of a followed source; `Discovery` is the reading side.
pub(crate) struct Publisher {
    source: String,
    pub(crate) views: watch::Sender<Arc<View>>,
    pub(crate) readings: watch::Sender<Readings>,
    /// `None` unless the source lists nodes.
    metrics: Option<&'static DiscoveryMetrics>,
    /// Kinds of errors since the source last worked. Each is logged once, since two may alternate.
    errors: HashSet<Discriminant<ReadError>>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Readings {
    /// `true` after a good reading, or any reading of a file. A failed query is no reading.
    pub(crate) has_any: bool,
    /// Time of the last good reading, or of the start.
    pub(crate) last_good: Instant,
}

impl Publisher {
    /// Creates a publisher of an empty view. `source` is the text form of the source, for logs.
    pub(crate) fn new(source: String, subject: Subject) -> Self {
        let publisher = Self {
            source,
            views: watch::Sender::new(Arc::default()),
            readings: watch::Sender::new(Readings { has_any: false, last_good: Instant::now() }),
            metrics: (subject == Subject::Nodes).then(|| &*METRICS),
            errors: HashSet::new(),
        };
        publisher.record_view(0);
        publisher
    }

    /// Publishes a view if it differs. Returns `false` if it is rejected: a suddenly empty view is
    /// probably a fault of the source, and would affect every client.
    pub(crate) fn offer(&mut self, view: View) -> bool {
        let last = Arc::clone(&self.views.borrow());
        if view.is_empty() && !last.is_empty() {
            self.record_failure(&ReadError::SuddenlyEmpty);
            return false;
        }
        if view == *last {
            return true;
        }
        let diff = last.diff(&view);
        info!(
            source = %self.source,
            nodes = view.len(),
            joined = %names(&diff.joined),
            left = %names(&diff.left),
            changed = %names(&diff.changed),
            hash = format!("{:016x}", view.hash()),
            "the view has changed"
        );
        self.record_view(view.len());
        self.views.send_replace(Arc::new(view));
        true
    }

    /// Records a good reading: the age of the view is 0.
    pub(crate) fn record_good_reading(&self) {
        self.readings.send_replace(Readings { has_any: true, last_good: Instant::now() });
    }

    /// Records a reading, good or bad. The age of the view stays.
    pub(crate) fn record_reading(&self) {
        self.readings.send_modify(|readings| readings.has_any = true);
    }

    pub(crate) fn log_recovery(&mut self) {
        if !std::mem::take(&mut self.errors).is_empty() {
            info!(source = %self.source, "discovery works again");
        }
    }

    /// Counts a failed reading without a log line, since it may be transient.
    pub(crate) fn count_failure(&self) {
        if let Some(metrics) = self.metrics {
            metrics.failures.inc();
        }
    }

    /// Counts a failed or rejected reading. Logs each kind of error once until a recovery.
    pub(crate) fn record_failure(&mut self, error: &ReadError) {
        self.count_failure();
        if self.errors.insert(discriminant(error)) {
            let nodes = self.views.borrow().len();
            warn!(source = %self.source, %error, nodes, "discovery keeps the last view");
        }
    }

    pub(crate) fn update_age(&self) {
        if let Some(metrics) = self.metrics {
            metrics.age.set(self.readings.borrow().last_good.elapsed().as_secs_f64());
        }
    }

    fn record_view(&self, nodes: usize) {
        if let Some(metrics) = self.metrics {
            metrics.nodes.publish(nodes as u64);
            metrics.changes.inc();
        }
    }
}

/// Formats node names for the log: the first few, and the number of the others.
fn names(members: &[NodeEntry]) -> String {
    let mut names: Vec<_> = members
        .iter()
        .take(MAX_NAMES)
        .map(|member| format!("{}{}", member.id, if member.draining { " (draining)" } else { "" }))
        .collect();
    if let Some(more @ 1..) = members.len().checked_sub(MAX_NAMES) {
        names.push(format!("{more} more"));
    }
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
