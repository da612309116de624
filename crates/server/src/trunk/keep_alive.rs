//! Failure detection on a trunk: a ping after silence, a failure without an answer.

use std::time::{Duration, Instant};

use signaling_wire::limits::{PING_AFTER, SUSPECT_AFTER};

/// Times of the latest input and the latest ping.
#[derive(Debug)]
pub(super) struct KeepAlive {
    heard: Instant,
    pinged: Instant,
}

/// Result of a [`KeepAlive::check`].
#[derive(Debug, PartialEq, Eq)]
pub(super) enum KeepAliveAction {
    /// The peer is alive or was pinged recently.
    Wait,
    /// The peer must be pinged.
    Ping,
    /// The peer has sent or taken nothing for [`SUSPECT_AFTER`].
    Fail,
}

impl KeepAlive {
    pub(super) fn new(now: Instant) -> Self {
        Self { heard: now, pinged: now }
    }

    /// Records input from the peer.
    pub(super) fn heard(&mut self, now: Instant) {
        self.heard = now;
    }

    /// Decides a few times per second. `unsent_since` is the start of a write that is still unsent.
    pub(super) fn check(&mut self, now: Instant, unsent_since: Option<Instant>) -> KeepAliveAction {
        let since = |then| now.saturating_duration_since(then);
        let silence = since(self.heard);
        if silence.max(unsent_since.map_or(Duration::ZERO, since)) >= SUSPECT_AFTER {
            return KeepAliveAction::Fail;
        }
        if silence >= PING_AFTER && since(self.pinged) >= PING_AFTER {
            self.pinged = now;
            return KeepAliveAction::Ping;
        }
        KeepAliveAction::Wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silent_peer_is_pinged_and_fails() {
        let start = Instant::now();
        let mut keep_alive = KeepAlive::new(start);
        assert_eq!(keep_alive.check(start + PING_AFTER / 2, None), KeepAliveAction::Wait);
        assert_eq!(keep_alive.check(start + PING_AFTER, None), KeepAliveAction::Ping);
        assert_eq!(keep_alive.check(start + PING_AFTER * 3 / 2, None), KeepAliveAction::Wait, "it was pinged recently");
        assert_eq!(keep_alive.check(start + PING_AFTER * 2, None), KeepAliveAction::Ping);
        keep_alive.heard(start + PING_AFTER * 2);
        assert_eq!(keep_alive.check(start + SUSPECT_AFTER, None), KeepAliveAction::Ping);
        assert_eq!(keep_alive.check(start + PING_AFTER * 2 + SUSPECT_AFTER, None), KeepAliveAction::Fail);
    }

    #[test]
    fn peer_that_takes_nothing_fails_though_it_sends() {
        let start = Instant::now();
        let mut keep_alive = KeepAlive::new(start);
        let late = start + SUSPECT_AFTER;
        keep_alive.heard(late);
        assert_eq!(keep_alive.check(late, Some(start + PING_AFTER)), KeepAliveAction::Wait);
        assert_eq!(keep_alive.check(late, Some(start)), KeepAliveAction::Fail);
    }
}
