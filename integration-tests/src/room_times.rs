//! Short times of rooms, so that tests can wait for their bounds.

use std::time::Duration;

/// Values of the flags `--presence-refresh-ms`, `--seat-grace-ms` and `--resume-ms` of a node.
#[derive(Clone, Copy, Debug)]
pub struct RoomTimes {
    /// Interval of presence refreshes.
    pub presence_refresh: Duration,
    /// Time that a seat is kept after its client's socket was lost.
    pub seat_grace: Duration,
    /// Time that a session without a socket is kept.
    pub resume: Duration,
}

impl RoomTimes {
    /// Refreshes, seat grace and resume time of 2 s. Shorter refreshes would let seats expire while
    /// a busy machine delays a node by little more than a second.
    pub const SHORT: Self = Self {
        presence_refresh: Duration::from_secs(2),
        seat_grace: Duration::from_secs(2),
        resume: Duration::from_secs(2),
    };

    /// Returns the times as flags of a node.
    pub fn flags(&self) -> Vec<String> {
        let flag = |name: &str, time: Duration| format!("--{name}-ms={}", time.as_millis());
        vec![
            flag("presence-refresh", self.presence_refresh),
            flag("seat-grace", self.seat_grace),
            flag("resume", self.resume),
        ]
    }

    /// Returns the maximum time that a seat without refreshes stays in its room. It expires after
    /// 2.25 intervals, and the next refresh of another seat removes it.
    pub fn max_seat_without_refresh(&self) -> Duration {
        self.presence_refresh * 2 + self.presence_refresh / 4 + self.presence_refresh
    }
}
