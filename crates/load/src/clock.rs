use std::time::{Duration, Instant};

use tokio::time::sleep;

/// The clock of a run: microseconds since its creation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock(Instant);

impl Clock {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn now_us(self) -> u64 {
        u64::try_from(self.0.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    /// Waits for a time. Returns at once if it is in the past.
    pub(crate) async fn until_us(self, moment_us: u64) {
        let now_us = self.now_us();
        if moment_us > now_us {
            sleep(Duration::from_micros(moment_us - now_us)).await;
        }
    }
}
