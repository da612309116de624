//! By what numbers rooms go.

use std::time::Duration;

/// The time that all nodes need to restore the seats of their sessions, in milliseconds.
pub(crate) const SETTLE_AT_LEAST: i64 = 5_000;

/// The times and bounds of rooms, the same on all nodes of a mesh.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// Most members of a room that has no capacity of its own; none: no limit.
    pub capacity: Option<u32>,
    /// Most clients in line for a room; none: no limit. Whoever comes later stays as it was: out.
    pub line: Option<u32>,
    /// A member or waiting client of whom nothing was heard for so long is gone.
    pub stale: Duration,
    /// So long it is remembered that somebody was in a room: a command of theirs that comes again is known, and they are not
    /// taken for members of whom the store has lost everything.
    pub remembered: Duration,
    /// A room in which nothing happens for so long is forgotten, one with a capacity of its own after a hundred times as long.
    /// Longer than all other times.
    pub idle: Duration,
    /// Most members in one answer.
    pub page: usize,
    /// An answer ends once the names and data in it come to so many bytes: a client's largest message, unless a setting
    /// says otherwise, holds 64 KiB.
    pub page_bytes: usize,
    /// Most stale entries that one operation removes: more would make it long.
    pub stale_at_once: usize,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            capacity: None,
            line: None,
            stale: Rules::stale_after(Duration::from_secs(20)),
            remembered: Duration::from_secs(5 * 60),
            idle: Duration::from_secs(15 * 60),
            page: 500,
            page_bytes: 48 * 1024,
            stale_at_once: 500,
        }
    }
}

impl Rules {
    /// How long an entry lives that is refreshed at this interval: it may miss one, and be late for the next.
    #[must_use]
    pub fn stale_after(refreshed_every: Duration) -> Duration {
        refreshed_every * 2 + refreshed_every / 4
    }

    pub(crate) fn stale_ms(&self) -> i64 {
        millis(self.stale)
    }

    /// How long all nodes have to speak once the store is back: half of what an entry lives, but never less than a call takes that
    /// was under way when the store went, and the way back to it.
    pub(crate) fn settle_ms(&self) -> i64 {
        (self.stale_ms() / 2).max(SETTLE_AT_LEAST)
    }

    pub(crate) fn remembered_ms(&self) -> i64 {
        millis(self.remembered)
    }
}

pub(crate) fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX / 4).min(i64::MAX / 4)
}
