//! Deadlines of messages, on this node's clock. `request` and `batch` create them.

use std::time::{Duration, Instant};

use signaling_wire::RemainingTtl;

/// Time to arrive for a message that may not be held. [`Deadline::new`] limits it to the hold time.
const UNHELD_TTL: Duration = Duration::from_secs(2);

/// End of a message's delivery, and whether it may be held for an absent recipient.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Deadline {
    /// Time at which delivery stops.
    pub(super) expires: Instant,
    /// `true` if the message may be held for an absent recipient.
    pub(super) may_hold: bool,
}

impl Deadline {
    /// Creates the deadline of a message, which counts from its receipt by the edge. A deadline
    /// that has passed becomes `now`.
    ///
    /// - `left`: the hold time at the edge, less the time since the receipt.
    /// - `hold`: this node's hold time, over 0. It is the maximum of `left` and of `ttl`.
    /// - `ttl`: the TTL that the client requested. 0: 2 s, and no hold. `None`: the hold time.
    pub(super) fn new(now: Instant, left: RemainingTtl, hold: Duration, ttl: Option<Duration>) -> Self {
        let left = left.as_duration().min(hold);
        let age = hold - left;
        let whole = match ttl {
            None => hold,
            Some(Duration::ZERO) => UNHELD_TTL.min(hold),
            Some(ttl) => ttl.min(hold),
        };
        Self { expires: now + whole.saturating_sub(age), may_hold: ttl != Some(Duration::ZERO) }
    }

    /// Returns the deadline of a broadcast that waited here for the owner or its budget. A message
    /// that may not be held gets at least 2 s from `now`. Others keep their deadline.
    pub(super) fn after_wait(self, now: Instant) -> Self {
        let expires = if self.may_hold { self.expires } else { self.expires.max(now + UNHELD_TTL) };
        Self { expires, ..self }
    }

    /// Returns `true` if the deadline is at `now` or earlier.
    pub(super) fn is_over(self, now: Instant) -> bool {
        self.expires <= now
    }

    /// Returns the time until the deadline; 0 after it.
    pub(super) fn ttl(self, now: Instant) -> RemainingTtl {
        RemainingTtl::from_duration(self.expires.saturating_duration_since(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOLD: Duration = Duration::from_secs(20);

    fn seconds(left: u64, ttl: Option<u64>) -> (u64, bool) {
        let now = Instant::now();
        let left = RemainingTtl::from_duration(Duration::from_secs(left));
        let deadline = Deadline::new(now, left, HOLD, ttl.map(Duration::from_secs));
        (deadline.expires.duration_since(now).as_secs(), deadline.may_hold)
    }

    #[test]
    fn ttl_counts_from_the_edge_up_to_the_requested_time() {
        assert_eq!(seconds(20, None), (20, true));
        assert_eq!(seconds(15, None), (15, true));
        assert_eq!(seconds(99, None), (20, true), "another node may have another hold time");
        assert_eq!(seconds(15, Some(8)), (3, true));
        assert_eq!(seconds(10, Some(8)), (0, true));
        assert_eq!(seconds(20, Some(99)), (20, true));
    }

    #[test]
    fn message_without_hold_still_has_time_to_arrive() {
        assert_eq!(seconds(20, Some(0)), (2, false));
        assert_eq!(seconds(17, Some(0)), (0, false));
    }
}
