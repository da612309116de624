//! A busy server lets input gather before it looks again: a message that comes alone costs it a wake-up, a read and a write of its
//! own, and whoever it writes to as much. What comes together shares them. A server that is idle does not wait, and the busier one
//! is, the longer it waits.

use std::time::{Duration, Instant};

/// Over how long it is reckoned how busy the server is.
const SPAN: Duration = Duration::from_millis(50);

/// When a server is busy, in percent of its time.
#[derive(Debug, Clone, Copy)]
pub struct BusyThresholds {
    /// From here on it is.
    pub from: u32,
    /// Below this it is so no more: what gathers costs less, and must not end the gathering.
    pub until: u32,
    /// From here on it waits as long as it may, and below in proportion.
    pub whole: u32,
}

/// When to let input gather.
#[derive(Debug)]
pub struct Coalescer {
    longest: Duration,
    limits: BusyThresholds,
    /// Since when it has worked.
    resumed: Instant,
    span_began: Instant,
    worked: Duration,
    /// How long each wait is; nothing while the server is not busy.
    waits: Option<Duration>,
}

impl Coalescer {
    /// Waits for so long each time at most, once the server is busy.
    #[must_use]
    pub fn new(now: Instant, longest: Duration, limits: BusyThresholds) -> Self {
        Self { longest, limits, resumed: now, span_began: now, worked: Duration::ZERO, waits: None }
    }

    /// The server has nothing left to do. Says how long to wait before it looks for more, if at all.
    pub fn rests(&mut self, now: Instant) -> Option<Duration> {
        self.worked += now.saturating_duration_since(self.resumed);
        let span = now.saturating_duration_since(self.span_began);
        if span >= SPAN {
            self.waits = self.waits_after(span);
            self.worked = Duration::ZERO;
            self.span_began = now;
        }
        self.waits
    }

    /// How long it waits from now on, after a span in which it worked as much as it did.
    fn waits_after(&self, span: Duration) -> Option<Duration> {
        let BusyThresholds { from, until, whole } = self.limits;
        let percent = self.worked.as_secs_f64() * 100.0 / span.as_secs_f64();
        let limit = if self.waits.is_some() { until } else { from };
        let is_busy = percent >= f64::from(limit) && !self.longest.is_zero();
        is_busy.then(|| self.longest.mul_f64((percent / f64::from(whole)).min(1.0)))
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
    const BUSY: BusyThresholds = BusyThresholds { from: 15, until: 7, whole: 20 };

    /// How often it waits in a second in which it works so long, so many times.
    fn waits(gather: &mut Coalescer, start: Instant, times: u32, work: Duration) -> usize {
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
        let mut gather = Coalescer::new(start, WAIT, BUSY);
        assert_eq!(waits(&mut gather, start, 1, Duration::from_micros(50)), 0);
        assert_eq!(waits(&mut gather, start + Duration::from_secs(1), 2_000, Duration::from_micros(70)), 0);
    }

    #[test]
    fn who_is_busy_waits_and_goes_on_though_what_gathers_costs_less() {
        let start = Instant::now();
        let mut gather = Coalescer::new(start, WAIT, BUSY);
        assert!(waits(&mut gather, start, 4_000, Duration::from_micros(50)) > 3_790);
        let later = start + Duration::from_secs(1);
        assert_eq!(waits(&mut gather, later, 1_000, Duration::from_micros(100)), 1_000, "10%");
        let later = start + Duration::from_secs(2);
        assert!(waits(&mut gather, later, 1_000, Duration::from_micros(50)) < 60, "5%");
    }

    #[test]
    fn the_busier_the_longer_up_to_the_whole() {
        let start = Instant::now();
        let wait = |percent: u32| {
            let mut gather = Coalescer::new(start, WAIT, BUSY);
            gather.rests(start + SPAN * percent / 100);
            gather.resumes(start + SPAN);
            gather.rests(start + SPAN)
        };
        assert_eq!([wait(14), wait(16), wait(20)], [None, Some(WAIT * 8 / 10), Some(WAIT)]);
        assert_eq!(wait(90), Some(WAIT));
    }

    #[test]
    fn none_is_none() {
        let start = Instant::now();
        let mut gather = Coalescer::new(start, Duration::ZERO, BUSY);
        assert_eq!(waits(&mut gather, start, 1_000, Duration::from_micros(900)), 0);
    }
}
