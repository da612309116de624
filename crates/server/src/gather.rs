//! A busy server lets input gather before it looks again: a message that comes alone costs it a wake-up, a read and a write of its
//! own, and whoever it writes to as much. What comes together shares them. A server that is idle does not wait.

use std::time::{Duration, Instant};

/// Over how long it is reckoned how busy the server is.
const SPAN: Duration = Duration::from_millis(20);

/// When a server is busy, in percent of its time.
#[derive(Debug, Clone, Copy)]
pub struct Busy {
    /// From here on it is.
    pub from: u32,
    /// Below this it is so no more: what gathers costs less, and must not end the gathering.
    pub until: u32,
}

/// When to let input gather.
#[derive(Debug)]
pub struct Gather {
    wait: Duration,
    limits: Busy,
    /// Since when it has worked.
    resumed: Instant,
    span_began: Instant,
    worked: Duration,
    busy: bool,
}

impl Gather {
    /// Waits for so long each time, once the server is busy.
    #[must_use]
    pub fn new(now: Instant, wait: Duration, limits: Busy) -> Self {
        Self { wait, limits, resumed: now, span_began: now, worked: Duration::ZERO, busy: false }
    }

    /// The server has nothing left to do. Says how long to wait before it looks for more, if at all.
    pub fn rests(&mut self, now: Instant) -> Option<Duration> {
        self.worked += now.saturating_duration_since(self.resumed);
        let span = now.saturating_duration_since(self.span_began);
        if span >= SPAN {
            let limit = if self.busy { self.limits.until } else { self.limits.from };
            self.busy = self.worked * 100 >= span * limit;
            self.worked = Duration::ZERO;
            self.span_began = now;
        }
        self.waits()
    }

    /// How long the server waits each time that it has nothing left to do, if it does.
    #[must_use]
    pub fn waits(&self) -> Option<Duration> {
        (self.busy && !self.wait.is_zero()).then_some(self.wait)
    }

    /// It has something to do again.
    pub fn resumes(&mut self, now: Instant) {
        self.resumed = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAIT: Duration = Duration::from_millis(1);
    const BUSY: Busy = Busy { from: 15, until: 7 };

    /// How often it waits in a second in which it works so long, so many times.
    fn waits(gather: &mut Gather, start: Instant, times: u32, work: Duration) -> usize {
        let mut waits = 0;
        for turn in 0..times {
            let resumed = start + Duration::from_secs(1) * turn / times;
            gather.resumes(resumed);
            waits += usize::from(gather.rests(resumed + work).is_some());
        }
        waits
    }

    #[test]
    fn who_is_at_ease_never_waits() {
        let start = Instant::now();
        let mut gather = Gather::new(start, WAIT, BUSY);
        assert_eq!(waits(&mut gather, start, 1, Duration::from_micros(50)), 0);
        assert_eq!(waits(&mut gather, start + Duration::from_secs(1), 2_000, Duration::from_micros(70)), 0);
    }

    #[test]
    fn who_is_busy_waits_and_goes_on_though_what_gathers_costs_less() {
        let start = Instant::now();
        let mut gather = Gather::new(start, WAIT, BUSY);
        assert!(waits(&mut gather, start, 4_000, Duration::from_micros(50)) > 3_900);
        let later = start + Duration::from_secs(1);
        assert_eq!(waits(&mut gather, later, 1_000, Duration::from_micros(100)), 1_000, "10%");
        let later = start + Duration::from_secs(2);
        assert!(waits(&mut gather, later, 1_000, Duration::from_micros(50)) < 50, "5%");
    }

    #[test]
    fn none_is_none() {
        let start = Instant::now();
        let mut gather = Gather::new(start, Duration::ZERO, BUSY);
        assert_eq!(waits(&mut gather, start, 1_000, Duration::from_micros(900)), 0);
    }
}
