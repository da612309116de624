//! Noticing that this process was paused: stopped, starved, or its machine suspended.

use std::time::{Duration, Instant};

use signaling_protocol::limits;

/// When this process last did anything.
#[derive(Debug)]
pub struct Pulse(Instant);

impl Pulse {
    /// It did something just now.
    #[must_use]
    pub fn new(now: Instant) -> Self {
        Self(now)
    }

    /// It does something. Says for how long it did nothing, if others have given it up meanwhile.
    pub fn beat(&mut self, now: Instant) -> Option<Duration> {
        let paused = now.saturating_duration_since(std::mem::replace(&mut self.0, now));
        (paused >= limits::SUSPECT_AFTER).then_some(paused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_told_once_and_only_if_others_have_noticed_it() {
        let start = Instant::now();
        let mut pulse = Pulse::new(start);
        let soon = start + limits::SUSPECT_AFTER - Duration::from_millis(1);
        assert_eq!(pulse.beat(soon), None);
        let late = soon + limits::SUSPECT_AFTER;
        assert_eq!(pulse.beat(late), Some(limits::SUSPECT_AFTER));
        assert_eq!(pulse.beat(late), None);
    }
}
