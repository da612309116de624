//! Times and limits of rooms. Nodes set them from their flags, and `room` uses them.

use std::time::{Duration, Instant};

use signaling_protocol::RoomName;
use signaling_protocol::ids::is_reserved;

use crate::RoomOptions;

/// Time for all nodes to restore the seats of their sessions, in milliseconds.
pub(crate) const SETTLE_MS: i64 = 5_000;

/// Time for which a room without clients keeps the capacity that an operator set, or a closure
/// without an end: 24 h.
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
    /// Time from [`Room::unclaim`](crate::Room::unclaim) after which a member or waiting client
    /// expires, unless it claims its seat again.
    pub stale: Duration,
    /// Time that a client which left or expired is remembered. Its repeated commands are
    /// recognized, and it is not taken for a client that the room has lost. A room without clients
    /// is kept as long, so at least the resume time and 30 s; 24 h longer if an operator set its
    /// capacity.
    pub remembered: Duration,
    /// Maximum members in one answer.
    pub page: usize,
    /// Bytes of names and data at which an answer ends. A client's largest message has 64 KiB.
    pub page_bytes: usize,
    /// Maximum expired members, and other expired entries, that one operation removes.
    pub stale_at_once: usize,
    /// Maximum seats of a closed room that one operation ends.
    pub ended_at_once: usize,
    /// Rule that is broken on purpose. `None`: none. For tests of whole meshes.
    pub breaks: Option<RoomRule>,
}

/// Rule of rooms that no change of frames between servers can break.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RoomRule {
    /// A member receives no change about itself.
    OwnChanges,
    /// A node without the majority serves no rooms.
    Majority,
    /// A node that may have lost its rooms asks all members for their copies.
    Regain,
    /// A new owner waits for nodes outside the view that may own its rooms by an earlier one.
    FormerOwner,
    /// Joins of a blocked client are refused.
    Blocks,
    /// A closed room admits no client.
    Closures,
    /// A result names the nodes of seats that an operator ended.
    EndedSeats,
    /// The time of a room goes on at its next owner. Broken: it is that of the owner's wall clock.
    RoomTime {
        /// One moment.
        at: Instant,
        /// The wall clock at that moment, in ms since 1970.
        wall_ms: u64,
    },
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            capacity: None,
            max_waiting: None,
            seals: false,
            stale: Duration::from_secs(45),
            remembered: Duration::from_secs(5 * 60),
            page: 500,
            page_bytes: 48 * 1024,
            stale_at_once: 500,
            ended_at_once: 500,
            breaks: None,
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

    /// Returns `true` unless the rule is broken on purpose.
    pub(crate) fn keeps(&self, rule: RoomRule) -> bool {
        self.breaks != Some(rule)
    }

    /// Returns the milliseconds after which an unclaimed seat expires.
    pub(crate) fn stale_ms(&self) -> i64 {
        millis(self.stale)
    }
}

/// Returns a duration in milliseconds, at most `i64::MAX / 4` so that sums do not overflow.
pub(crate) fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX / 4).min(i64::MAX / 4)
}
