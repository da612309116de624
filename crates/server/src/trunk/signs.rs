//! Signs of life of a trunk's other end.

use std::time::{Duration, Instant};

use signaling_wire::limits::{PING_AFTER, SUSPECT_AFTER};

/// When the other end was heard, and asked for a sign of life.
#[derive(Debug)]
pub(super) struct KeepAlive {
    heard: Instant,
    asked: Instant,
}

/// What to make of how long it is silent.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum KeepAliveAction {
    /// Nothing.
    Lives,
    /// It must be asked for a sign of life.
    Ask,
    /// There was none, or it has taken nothing, for too long.
    Silent,
}

impl KeepAlive {
    pub(super) fn new(now: Instant) -> Self {
        Self { heard: now, asked: now }
    }

    /// Something has come.
    pub(super) fn heard(&mut self, now: Instant) {
        self.heard = now;
    }

    /// A write has been under way since `writes_since`, if one is. Call it a few times a second.
    pub(super) fn look(&mut self, now: Instant, writes_since: Option<Instant>) -> KeepAliveAction {
        let since = |then| now.saturating_duration_since(then);
        let silence = since(self.heard);
        if silence.max(writes_since.map_or(Duration::ZERO, since)) >= SUSPECT_AFTER {
            return KeepAliveAction::Silent;
        }
        if silence >= PING_AFTER && since(self.asked) >= PING_AFTER {
            self.asked = now;
            return KeepAliveAction::Ask;
        }
        KeepAliveAction::Lives
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_silent_is_asked_now_and_then_and_given_up() {
        let start = Instant::now();
        let mut signs = KeepAlive::new(start);
        assert_eq!(signs.look(start + PING_AFTER / 2, None), KeepAliveAction::Lives);
        assert_eq!(signs.look(start + PING_AFTER, None), KeepAliveAction::Ask);
        assert_eq!(signs.look(start + PING_AFTER * 3 / 2, None), KeepAliveAction::Lives, "it has just been asked");
        assert_eq!(signs.look(start + PING_AFTER * 2, None), KeepAliveAction::Ask);
        signs.heard(start + PING_AFTER * 2);
        assert_eq!(signs.look(start + SUSPECT_AFTER, None), KeepAliveAction::Ask);
        assert_eq!(signs.look(start + PING_AFTER * 2 + SUSPECT_AFTER, None), KeepAliveAction::Silent);
    }

    #[test]
    fn who_takes_nothing_is_given_up_though_it_is_heard() {
        let start = Instant::now();
        let mut signs = KeepAlive::new(start);
        let late = start + SUSPECT_AFTER;
        signs.heard(late);
        assert_eq!(signs.look(late, Some(start + PING_AFTER)), KeepAliveAction::Lives);
        assert_eq!(signs.look(late, Some(start)), KeepAliveAction::Silent);
    }
}
