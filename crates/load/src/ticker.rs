use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::os::fd::OwnedFd;
use std::time::Duration;

use anyhow::{Context, Result};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use tokio::io::unix::AsyncFd;

/// A clock with a resolution of some microseconds. The runtime's own timers round up to 1 ms.
pub(crate) struct Ticker {
    timer: AsyncFd<File>,
}

impl Ticker {
    pub(crate) fn every(interval: Duration) -> Result<Self> {
        let make = || -> nix::Result<TimerFd> {
            let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC)?;
            timer.set(Expiration::Interval(TimeSpec::from(interval)), TimerSetTimeFlags::empty())?;
            Ok(timer)
        };
        let timer = make().context("cannot make a timer")?;
        #[expect(deprecated, reason = "its sound successor is unsafe to call; a File keeps its one descriptor open")]
        let timer = AsyncFd::new(File::from(OwnedFd::from(timer))).context("cannot watch a timer")?;
        Ok(Self { timer })
    }

    /// Waits for the next tick. Missed ticks count as one.
    pub(crate) async fn tick(&mut self) -> Result<()> {
        loop {
            let mut guard = self.timer.readable_mut().await.context("the timer is broken")?;
            match guard.try_io(|timer| timer.get_mut().read(&mut [0; 8])) {
                Ok(Ok(_)) => return Ok(()),
                Ok(Err(error)) if error.kind() == ErrorKind::Interrupted => {}
                Ok(Err(error)) => return Err(error).context("the timer is broken"),
                Err(_would_block) => {}
            }
        }
    }
}
