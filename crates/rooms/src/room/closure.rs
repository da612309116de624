//! A room that an operator has closed.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::unsigned;

/// End of a closure without one.
const NEVER: i64 = i64::MAX;
/// Minimum time after which a client is asked to try again: its seats end meanwhile.
const MIN_REST: Duration = Duration::from_secs(1);

/// The closure of a room. It ends at its time, but not before all former seats have ended.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Closure {
    /// In ms of room time.
    until: i64,
    /// `true` until the room has no seats.
    pub(super) is_ending_seats: bool,
}

impl Closure {
    /// `time` in milliseconds. `None`: without an end.
    pub(super) fn new(now: i64, time: Option<i64>) -> Self {
        Self { until: time.map_or(NEVER, |time| now + time), is_ending_seats: true }
    }

    /// Returns the closure with an end at once.
    pub(super) fn opened(self) -> Self {
        Self { until: 0, ..self }
    }

    pub(super) fn is_over(&self, now: i64) -> bool {
        self.until <= now && !self.is_ending_seats
    }

    /// Returns its end, in ms of room time. `None`: it has none.
    pub(super) fn end(&self) -> Option<i64> {
        Some(self.until).filter(|until| *until != NEVER)
    }

    /// Returns the time until its end. `None`: it has none.
    pub(super) fn rest(&self, now: i64) -> Option<Duration> {
        self.end().map(|end| Duration::from_millis(unsigned(end - now)).max(MIN_REST))
    }
}
