//! The loop of `exchange` and `rooms` that follows a schedule, and a run's end. Progress bars for
//! all scenarios.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::task::yield_now;
use tokio::time::sleep;

use crate::schedule::{Clock, Schedule, TICK_US};

/// Maximum overdue units that start before the readers get their turn.
const MAX_BATCH: u64 = 100;
/// Wait for late duplicates after the last message.
const QUIET: Duration = Duration::from_millis(300);
const SETTLE_INTERVAL: Duration = Duration::from_millis(1);

/// Starts each unit of a schedule at its time, independent of earlier ones.
pub(crate) struct Driver {
    schedule: Schedule,
    clock: Clock,
    /// Start of the schedule on the clock, in microseconds.
    pub(crate) start_us: u64,
    ticker: AsyncFd<File>,
    pub(crate) begun: u64,
    bar: ProgressBar,
}

impl Driver {
    /// Starts the schedule now, with a progress bar named `what`. Fails if the system has no timer.
    /// Panics outside a Tokio runtime.
    pub(crate) fn start(schedule: Schedule, clock: Clock, what: &'static str) -> Result<Self> {
        let bar = progress(schedule.duration_us / 1_000_000, what);
        // Read before the ticker starts, so that units of a tick are due at that tick.
        let start_us = clock.now_us();
        let ticker = ticker(Duration::from_micros(TICK_US))?;
        Ok(Self { schedule, clock, start_us, ticker, begun: 0, bar })
    }

    /// Runs until `end_us`, a time of the schedule in microseconds since its start. Calls `begin`
    /// per due unit with its number (from 0) and its time on the clock in microseconds. Calls
    /// `turn` at each tick of 1 ms, and at least once. A further call goes on to a later end. Fails
    /// if the timer breaks.
    pub(crate) async fn until(
        &mut self,
        end_us: u64,
        mut begin: impl FnMut(u64, u64),
        mut turn: impl FnMut(),
    ) -> Result<()> {
        loop {
            let now_us = self.clock.now_us() - self.start_us;
            let due = self.schedule.due(now_us.min(end_us));
            while self.begun < due {
                begin(self.begun, self.start_us + self.schedule.time_us(self.begun));
                self.begun += 1;
                if self.begun.is_multiple_of(MAX_BATCH) {
                    yield_now().await;
                }
            }
            turn();
            if now_us >= end_us {
                return Ok(());
            }
            self.bar.set_position(now_us / 1_000_000);
            // Ticks missed since the last one count as one.
            let tick = self.ticker.async_io_mut(Interest::READABLE, |timer| timer.read(&mut [0; 8]));
            tick.await.context("the timer is broken")?;
        }
    }
}

/// Waits until `is_settled` returns `true`, at most for this time, and 300 ms more for duplicates.
pub(crate) async fn settle(at_most: Duration, mut is_settled: impl FnMut() -> bool) {
    let give_up = Instant::now() + at_most;
    while !is_settled() && Instant::now() < give_up {
        sleep(SETTLE_INTERVAL).await;
    }
    sleep(QUIET).await;
}

/// Returns a timer that becomes readable at this interval, with a resolution of some microseconds.
/// The runtime's own timers round up to 1 ms. Fails if the system refuses it. Panics outside a
/// Tokio runtime.
fn ticker(interval: Duration) -> Result<AsyncFd<File>> {
    let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC);
    let timer = timer.context("cannot make a timer")?;
    let period = Expiration::Interval(TimeSpec::from(interval));
    timer.set(period, TimerSetTimeFlags::empty()).context("cannot make a timer")?;
    #[expect(deprecated, reason = "its sound successor is unsafe to call; a File keeps its one descriptor open")]
    let timer = AsyncFd::new(File::from(OwnedFd::from(timer))).context("cannot watch a timer")?;
    Ok(timer)
}

/// Returns a progress bar up to `total`, named `what`. It is hidden without a terminal, and cleared
/// when it is dropped.
pub(crate) fn progress(total: u64, what: &'static str) -> ProgressBar {
    let bar = ProgressBar::new(total);
    if let Ok(style) = ProgressStyle::with_template("{msg:<12} [{bar:40}] {pos}/{len} {elapsed}") {
        bar.set_style(style.progress_chars("=> "));
    }
    bar.with_message(what)
}

pub(crate) async fn wait(seconds: u64, what: &'static str) {
    let bar = progress(seconds, what);
    for _ in 0..seconds {
        sleep(Duration::from_secs(1)).await;
        bar.inc(1);
    }
}
