//! A token bucket: a long-term rate with bursts. Limits of messages, bytes, control frames, new
//! clients, new rooms and fan-out use it.

use std::time::{Duration, Instant};

/// A rate with its burst.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// Units per second. 0 counts as 1.
    pub per_second: u32,
    /// Maximum units at once. A larger item needs a full bucket. 0 counts as 1.
    pub burst: u32,
}

/// A token bucket, stored as the time at which it is full again. Callers pass its rate each time.
#[derive(Debug, Clone, Copy)]
pub struct TokenBucket {
    full_at: Instant,
}

impl TokenBucket {
    /// Returns a full bucket.
    pub fn full(now: Instant) -> Self {
        Self { full_at: now }
    }

    /// Returns the time at which the bucket is full, or was.
    pub fn full_at(&self) -> Instant {
        self.full_at
    }

    /// Returns `true` if the bucket is full.
    pub fn is_full(&self, now: Instant) -> bool {
        self.full_at <= now
    }

    /// Returns the time until `amount` units are available. More than the burst are available once
    /// the bucket is full. `None`: they are available now.
    pub fn wait(&self, now: Instant, rate: Rate, amount: u32) -> Option<Duration> {
        // An item above the burst needs a full bucket.
        let room = cost(rate, rate.burst.max(1)).saturating_sub(cost(rate, amount));
        let debt = self.full_at.saturating_duration_since(now);
        debt.checked_sub(room).filter(|wait| !wait.is_zero())
    }

    /// Returns the units that are available now.
    pub fn level(&self, now: Instant, rate: Rate) -> u32 {
        let debt = self.full_at.saturating_duration_since(now).as_nanos() * u128::from(rate.per_second.max(1));
        let used = u32::try_from(debt.div_ceil(1_000_000_000)).unwrap_or(u32::MAX);
        rate.burst.max(1).saturating_sub(used)
    }

    /// Takes `amount` units, available or not. A lack delays the next units.
    pub fn pay(&mut self, now: Instant, rate: Rate, amount: u32) {
        self.full_at = self.full_at.max(now) + cost(rate, amount);
    }

    /// Takes `amount` units if they are available. Returns `true` if so, else takes none.
    pub fn take(&mut self, now: Instant, rate: Rate, amount: u32) -> bool {
        let is_there = self.wait(now, rate, amount).is_none();
        if is_there {
            self.pay(now, rate, amount);
        }
        is_there
    }
}

/// Returns the time in which the rate yields `amount` units.
fn cost(rate: Rate, amount: u32) -> Duration {
    Duration::from_nanos(u64::from(amount) * 1_000_000_000 / u64::from(rate.per_second.max(1)))
}

/// Returns a waiting time in milliseconds, rounded up: the client must not return too early.
pub fn whole_ms(wait: Duration) -> u64 {
    u64::try_from(wait.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}
