//! Short times of rooms, so that tests can wait for their bounds.

use std::time::Duration;

/// Values of the flags `--seat-claim-ms`, `--seat-grace-ms` and `--resume-ms` of a node.
#[derive(Clone, Copy, Debug)]
pub struct RoomTimes {
    /// Time after which a seat expires that no node claims.
    pub claim: Duration,
    /// Time that a seat is kept after its client's socket was lost.
    pub seat_grace: Duration,
    /// Time that a session without a socket is kept.
    pub resume: Duration,
}

impl RoomTimes {
    /// Seat grace and resume time of 2 s, and 4.5 s for claims: a busy machine delays them.
    pub const SHORT: Self = Self {
        claim: Duration::from_millis(4_500),
        seat_grace: Duration::from_secs(2),
        resume: Duration::from_secs(2),
    };

    /// Returns the times as flags of a node.
    pub fn flags(&self) -> Vec<String> {
        let flag = |name: &str, time: Duration| format!("--{name}-ms={}", time.as_millis());
        vec![flag("seat-claim", self.claim), flag("seat-grace", self.seat_grace), flag("resume", self.resume)]
    }

    /// Returns the maximum time that a seat without a claim stays in its room: 2 s more than
    /// [`Self::claim`], for checks and messages.
    pub fn max_unclaimed(&self) -> Duration {
        self.claim + Duration::from_secs(2)
    }
}
