//! Readings of processes, and the costs between two of them, for `rooms`.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::servers::{self, Cost, Costs, Watched};

const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Usage of processes at one moment.
pub(super) struct Reading {
    processes: servers::Reading,
    /// Number of operations up to now: answered changes of visitors, and seats that were filled
    /// again from the waiting queue.
    answered: u64,
}

impl Reading {
    /// Reads the usage of the processes. `answered` is the number of operations up to now. Ended
    /// processes are left out.
    pub(super) fn new(watched: &[Watched], answered: u64) -> Self {
        Self { processes: servers::read(watched), answered }
    }

    /// Returns the usage of the processes up to a later reading, with operations as its messages.
    /// `None`: no process is in both readings.
    pub(super) fn costs(&self, until: &Self) -> Option<Costs> {
        let costs = Costs::between(&self.processes, &until.processes, until.answered - self.answered);
        Some(costs).filter(|costs| !costs.processes.is_empty())
    }

    /// Waits for at most `timeout` until the memory of each process is at most `limit` percent
    /// above this reading. Returns a message for each that is above then.
    pub(super) async fn growth(&self, watched: &[Watched], timeout: Duration, limit: f64) -> Vec<String> {
        let give_up = Instant::now() + timeout;
        loop {
            let growth = self.growth_until(&servers::read(watched), limit);
            if growth.is_empty() || Instant::now() >= give_up {
                return growth;
            }
            sleep(POLL_INTERVAL).await;
        }
    }

    fn growth_until(&self, processes: &servers::Reading, limit: f64) -> Vec<String> {
        let costs = Costs::between(&self.processes, processes, 0);
        let grown = costs.processes.into_iter().filter_map(|Cost { name, rss_kib, rss_growth_kib, .. }| {
            let before_kib = rss_kib.saturating_add_signed(-rss_growth_kib);
            let has_grown = rss_kib as f64 > before_kib as f64 * (1.0 + limit / 100.0);
            has_grown.then(|| format!("{name}: memory grew from {before_kib} to {rss_kib} KiB, by more than {limit}%"))
        });
        grown.collect()
    }
}
