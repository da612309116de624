//! Waits between failed attempts, for the SDK and all servers. Pure: the caller passes randomness.

use std::time::Duration;

/// Limit of the wait before a retry, which grows with each failure in a row.
#[derive(Debug, Clone)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
    failures: u32,
}

impl Backoff {
    /// Returns a backoff without failures. `first` is the first limit, `longest` the maximum.
    pub const fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest, failures: 0 }
    }

    /// Returns `true` if there was no failure since the last success.
    pub fn is_fresh(&self) -> bool {
        self.failures == 0
    }

    /// Counts a failure and returns the maximum wait before the next attempt: `first` after the
    /// first failure, then twice the last limit, at most `longest`.
    pub fn next_limit(&mut self) -> Duration {
        let limit = self.first.saturating_mul(2_u32.saturating_pow(self.failures)).min(self.longest);
        self.failures = self.failures.saturating_add(1);
        limit
    }

    /// Counts a failure and returns a wait from the upper half of the limit, so that many callers
    /// do not retry at the same time. `random` is 0 to 1.
    pub fn next_wait(&mut self, random: f64) -> Duration {
        self.next_limit().mul_f64(0.5 + random.clamp(0.0, 1.0) / 2.0)
    }

    /// Resets the failure count after a success.
    pub fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn limit_doubles_up_to_the_longest_until_reset() {
        let mut backoff = Backoff::new(SECOND, 5 * SECOND);
        let limits: Vec<_> = (0..100).map(|_| backoff.next_limit().as_secs()).collect();
        assert_eq!(limits[..5], [1, 2, 4, 5, 5]);
        assert_eq!(limits[99], 5);
        backoff.reset();
        assert!(backoff.is_fresh());
        assert_eq!(backoff.next_limit(), SECOND);
    }

    #[test]
    fn wait_is_in_the_upper_half_of_the_limit() {
        let mut backoff = Backoff::new(SECOND, SECOND);
        let waits = [0.0, 0.5, 1.0].map(|random| backoff.next_wait(random));
        assert_eq!(waits, [SECOND / 2, SECOND * 3 / 4, SECOND]);
    }
}
