use std::time::{Duration, Instant};

use tokio::time::sleep;

/// The one clock of a run: microseconds since it was made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock(Instant);

impl Clock {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn now_us(self) -> u64 {
        u64::try_from(self.0.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    /// Waits for a moment; one that has passed is now.
    pub(crate) async fn until_us(self, moment_us: u64) {
        sleep(Duration::from_micros(moment_us.saturating_sub(self.now_us()))).await;
    }
}
