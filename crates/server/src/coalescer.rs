//! Delayed reads of a busy server. A message that arrives alone costs a wake-up, a read and a
//! write; messages that arrive during a delay share them. An idle server never delays, and a busier
//! one delays longer. The hooks of `runtime` and the edge's event loop call it. The hooks also
//! announce the end of each turn here.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::turn_end::TurnEnd;

/// Window over which the busy share of time is measured.
const WINDOW: Duration = Duration::from_millis(50);

/// Thresholds of the thread's busy share of time, in percent, over windows of at least 50 ms.
#[derive(Debug, Clone, Copy)]
pub struct BusyThresholds {
    /// Percentage from which reads are delayed.
    pub enter: u32,
    /// Percentage below which delays end. At most `enter`, because coalesced input costs less work.
    pub exit: u32,
    /// Percentage from which delays are largest. Below it they are in proportion to the share.
    pub full_delay_percent: u32,
}

/// The read delay of one thread, and the end of its turns. Clones share both. The delay reacts at
/// the end of each window.
#[derive(Debug, Clone)]
pub struct Coalescer {
    meter: Arc<Mutex<BusyMeter>>,
    turn_end: Arc<TurnEnd>,
}

impl Coalescer {
    /// Creates a coalescer that delays reads up to `max_delay` while the thread is busy; 0: none.
    pub fn new(max_delay: Duration, thresholds: BusyThresholds) -> Self {
        let meter = BusyMeter::new(Instant::now(), max_delay, thresholds);
        Self { meter: Arc::new(Mutex::new(meter)), turn_end: Arc::default() }
    }

    /// Creates a coalescer that never delays.
    pub fn disabled() -> Self {
        Self::new(Duration::ZERO, BusyThresholds { enter: 100, exit: 100, full_delay_percent: 100 })
    }

    /// With `true`, reads are not delayed until a call with `false`, however busy the thread is.
    pub fn set_prompt(&self, is_prompt: bool) {
        self.with(|meter| meter.is_prompt = is_prompt);
    }

    /// Records that no task of the thread is ready. Wakes the tasks that wait for the end of the
    /// turn. Calls [`Coalescer::on_idle`] if there are none.
    pub(crate) fn on_turn_end(&self) {
        if self.turn_end.announce() {
            self.with(|meter| meter.count_work(Instant::now()));
        } else {
            self.on_idle();
        }
    }

    /// Returns the end of each turn, which [`Coalescer::on_turn_end`] announces.
    pub(crate) fn turn_end(&self) -> &Arc<TurnEnd> {
        &self.turn_end
    }

    /// Records that the thread has no work. If it was busy in the last window, blocks it for the
    /// delay and returns `true`. Else returns `false` at once.
    #[expect(clippy::disallowed_methods, reason = "the whole thread has no work but the input that it waits for")]
    pub fn on_idle(&self) -> bool {
        let delay = self.with(|meter| meter.on_idle(Instant::now()));
        self.turn_end.set_coalescing(delay.is_some());
        delay.inspect(|delay| sleep(*delay)).is_some()
    }

    /// Records that the thread has work again.
    pub fn on_wake(&self) {
        self.with(|meter| meter.woke_at = Instant::now());
    }

    /// Calls [`Coalescer::on_idle`] and [`Coalescer::on_wake`], for an event loop that polls
    /// without waiting. Returns `true` if it blocked.
    pub fn coalesce_now(&self) -> bool {
        let slept = self.on_idle();
        self.on_wake();
        slept
    }

    fn with<R>(&self, act: impl FnOnce(&mut BusyMeter) -> R) -> R {
        act(&mut self.meter.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Measures the busy share of time, and decides the delay.
#[derive(Debug)]
struct BusyMeter {
    max_delay: Duration,
    thresholds: BusyThresholds,
    woke_at: Instant,
    window_start: Instant,
    worked: Duration,
    /// `None` while the server is not busy.
    delay: Option<Duration>,
    /// `true` while reads are not delayed, however busy the server is.
    is_prompt: bool,
}

impl BusyMeter {
    fn new(now: Instant, max_delay: Duration, thresholds: BusyThresholds) -> Self {
        let (woke_at, window_start, worked) = (now, now, Duration::ZERO);
        Self { max_delay, thresholds, woke_at, window_start, worked, delay: None, is_prompt: false }
    }

    fn count_work(&mut self, now: Instant) {
        self.worked += now.saturating_duration_since(self.woke_at);
    }

    fn on_idle(&mut self, now: Instant) -> Option<Duration> {
        self.count_work(now);
        let window = now.saturating_duration_since(self.window_start);
        if window >= WINDOW {
            self.delay = self.delay_after(window);
            self.worked = Duration::ZERO;
            self.window_start = now;
        }
        self.delay.filter(|_| !self.is_prompt)
    }

    fn delay_after(&self, window: Duration) -> Option<Duration> {
        let BusyThresholds { enter, exit, full_delay_percent } = self.thresholds;
        let percent = self.worked.as_secs_f64() * 100.0 / window.as_secs_f64();
        let limit = if self.delay.is_some() { exit } else { enter };
        let is_busy = percent >= f64::from(limit) && !self.max_delay.is_zero();
        is_busy.then(|| self.max_delay.mul_f64((percent / f64::from(full_delay_percent)).min(1.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAIT: Duration = Duration::from_millis(1);
    const BUSY: BusyThresholds = BusyThresholds { enter: 15, exit: 7, full_delay_percent: 20 };

    /// Returns the delays of one second with `times` periods of work.
    fn waits(meter: &mut BusyMeter, start: Instant, times: u32, work: Duration) -> usize {
        let mut waits = 0;
        for turn in 0..times {
            let resumed = start + Duration::from_secs(1) * turn / times;
            meter.woke_at = resumed;
            waits += usize::from(meter.on_idle(resumed + work).is_some());
        }
        waits
    }

    #[test]
    fn idle_prompt_or_zero_delay_server_never_delays() {
        let start = Instant::now();
        let meter = |max_delay, is_prompt| BusyMeter { is_prompt, ..BusyMeter::new(start, max_delay, BUSY) };
        for (what, mut meter, times, work_us) in [
            ("idle", meter(WAIT, false), 1, 50),
            ("idle of late", meter(WAIT, false), 2_000, 70),
            ("prompt", meter(WAIT, true), 4_000, 50),
            ("zero delay", meter(Duration::ZERO, false), 1_000, 900),
        ] {
            assert_eq!(waits(&mut meter, start, times, Duration::from_micros(work_us)), 0, "{what}");
        }
    }

    #[test]
    fn busy_server_delays_until_below_the_exit_threshold() {
        let start = Instant::now();
        let mut meter = BusyMeter::new(start, WAIT, BUSY);
        assert!(waits(&mut meter, start, 4_000, Duration::from_micros(50)) > 3_790);
        let later = start + Duration::from_secs(1);
        assert_eq!(waits(&mut meter, later, 1_000, Duration::from_micros(100)), 1_000, "10%");
        let later = start + Duration::from_secs(2);
        assert!(waits(&mut meter, later, 1_000, Duration::from_micros(50)) < 60, "5%");
    }

    #[test]
    fn delay_grows_with_the_busy_share() {
        let start = Instant::now();
        let wait = |percent: u32| {
            let mut meter = BusyMeter::new(start, WAIT, BUSY);
            meter.on_idle(start + WINDOW * percent / 100);
            meter.woke_at = start + WINDOW;
            meter.on_idle(start + WINDOW)
        };
        assert_eq!([wait(14), wait(16), wait(20)], [None, Some(WAIT * 8 / 10), Some(WAIT)]);
        assert_eq!(wait(90), Some(WAIT));
    }
}
