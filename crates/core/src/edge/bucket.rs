//! A rate that holds in the long run, and may be run ahead of for a while.

use std::time::{Duration, Instant};

/// How much may pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// Units a second.
    pub per_second: u32,
    /// Units at once, after a quiet time. A single thing that is larger passes when nothing was before it.
    pub burst: u32,
}

/// A token bucket as one moment: when it would be full again. Which rate it goes by is said each time, always the same one.
#[derive(Debug, Clone, Copy)]
pub struct TokenBucket {
    full_at: Instant,
}

impl TokenBucket {
    /// A full one.
    #[must_use]
    pub fn full(now: Instant) -> Self {
        Self { full_at: now }
    }

    /// Whether nothing was taken lately.
    #[must_use]
    pub fn is_full(&self, now: Instant) -> bool {
        self.full_at <= now
    }

    /// How long until so much may be taken; none: now.
    #[must_use]
    pub fn wait(&self, now: Instant, rate: Rate, amount: u32) -> Option<Duration> {
        // More than a full bucket holds is taken from a full one.
        let room = cost(rate, rate.burst.max(1)).saturating_sub(cost(rate, amount));
        let debt = self.full_at.saturating_duration_since(now);
        debt.checked_sub(room).filter(|wait| !wait.is_zero())
    }

    /// Takes so much, whether or not it is there.
    pub fn pay(&mut self, now: Instant, rate: Rate, amount: u32) {
        self.full_at = self.full_at.max(now) + cost(rate, amount);
    }

    /// Takes so much if it is there, and says whether it was.
    pub fn take(&mut self, now: Instant, rate: Rate, amount: u32) -> bool {
        let is_there = self.wait(now, rate, amount).is_none();
        if is_there {
            self.pay(now, rate, amount);
        }
        is_there
    }
}

/// How long the rate takes for so much.
fn cost(rate: Rate, amount: u32) -> Duration {
    Duration::from_nanos(u64::from(amount) * 1_000_000_000 / u64::from(rate.per_second.max(1)))
}

/// What somebody is told who has to wait. Rounded up: who waits so long must not come too early.
#[must_use]
pub fn whole_ms(wait: Duration) -> u64 {
    u64::try_from(wait.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}
