//! Times and limits of rooms. Nodes set them from their flags; `core` and `redis` use them.

use std::time::Duration;

use signaling_protocol::RoomName;
use signaling_protocol::ids::is_reserved;

use crate::RoomOptions;

/// Minimum time for all nodes to restore the seats of their sessions, in milliseconds.
pub(crate) const MIN_SETTLE_MS: i64 = 5_000;

/// Time for which a claimed room without clients keeps the capacity that an operator set: 24 h.
pub(crate) const CAPACITY_KEPT_MS: i64 = 24 * 3_600_000;

/// Times and limits of rooms, equal on all nodes of a mesh.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// Maximum members of a room without its own capacity; `None` or 0: no limit. Others wait.
    pub capacity: Option<u32>,
    /// Maximum waiting clients of a room; `None`: no limit. A further client stays out.
    pub max_waiting: Option<u32>,
    /// `true` if a room admits no client any more once it has been full.
    pub seals: bool,
    /// Time without a refresh after which a member or waiting client expires. With `claimed`: time
    /// since [`Room::unclaim`](crate::Room::unclaim), unless it claims its seat again.
    pub stale: Duration,
    /// `true` if a seat needs no refresh: it lives until its session or its node ends, see
    /// [`Room::unclaim`](crate::Room::unclaim).
    pub claimed: bool,
    /// Time that a client which left or expired is remembered. Its repeated commands are
    /// recognized, and it is not taken for a client that the store has lost. With `claimed` also
    /// the time that a room without members is kept, so at least the resume time and 30 s.
    pub remembered: Duration,
    /// Time without an operation after which a room is forgotten; 100 times as long with a capacity
    /// of its own. Must exceed all other times. With `claimed`, a room is forgotten once no client
    /// is present or remembered; 24 h later if an operator set its capacity.
    pub idle: Duration,
    /// Maximum members in one answer.
    pub page: usize,
    /// Bytes of names and data at which an answer ends. A client's largest message has 64 KiB.
    pub page_bytes: usize,
    /// Maximum stale members, and other stale entries, that one check removes to stay short.
    pub stale_at_once: usize,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            capacity: None,
            max_waiting: None,
            seals: false,
            stale: Rules::stale_after(Duration::from_secs(20)),
            claimed: false,
            remembered: Duration::from_secs(5 * 60),
            idle: Duration::from_secs(15 * 60),
            page: 500,
            page_bytes: 48 * 1024,
            stale_at_once: 500,
        }
    }
}

impl Rules {
    /// Returns the rules of one room. One with a reserved name has `capacity` and `seals` of its
    /// options, and no waiting queue.
    pub fn of(&self, room: &RoomName) -> Self {
        if !is_reserved(room.as_str()) {
            return *self;
        }
        let RoomOptions { capacity, seals, .. } = RoomOptions::of(room);
        Self { capacity, seals, max_waiting: Some(0), ..*self }
    }

    /// Returns the lifetime of an entry: 2.25 refresh intervals, for a missed and a late refresh.
    pub fn stale_after(refreshed_every: Duration) -> Duration {
        refreshed_every * 2 + refreshed_every / 4
    }

    /// Returns the milliseconds after which a seat without a refresh expires.
    pub(crate) fn stale_ms(&self) -> i64 {
        millis(self.stale)
    }

    /// Returns the milliseconds for all nodes to restore their seats once the store is back: half
    /// of `stale`, at least 5 s; with `claimed` always 5 s. The minimum covers a call in flight
    /// when the store failed, and the reconnect.
    pub(crate) fn settle_ms(&self) -> i64 {
        if self.claimed { MIN_SETTLE_MS } else { (self.stale_ms() / 2).max(MIN_SETTLE_MS) }
    }
}

/// Returns a duration in milliseconds, at most `i64::MAX / 4` so that sums do not overflow.
pub(crate) fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX / 4).min(i64::MAX / 4)
}
