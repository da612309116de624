//! How long to wait before a source that fails is asked again.

use std::time::Duration;

/// Doubles with each failure in a row, up to a cap, and is drawn from the upper half, so that many servers do not ask at once.
#[derive(Debug, Clone)]
pub(crate) struct Backoff {
    base: Duration,
    cap: Duration,
    failures: u32,
}

impl Backoff {
    pub(crate) fn new(base: Duration, cap: Duration) -> Self {
        Self { base, cap, failures: 0 }
    }

    /// One more failure. `drawn` is a random number from 0 to 1.
    pub(crate) fn failed(&mut self, drawn: f64) -> Duration {
        let whole = self.base.saturating_mul(2_u32.saturating_pow(self.failures)).min(self.cap);
        self.failures = self.failures.saturating_add(1);
        whole.mul_f64(0.5 + drawn.clamp(0.0, 1.0) / 2.0)
    }

    /// It works again.
    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn it_doubles_up_to_the_cap_and_starts_anew_when_all_is_well() {
        let mut backoff = Backoff::new(SECOND, 5 * SECOND);
        let waits: Vec<_> = (0..5).map(|_| backoff.failed(1.0).as_secs()).collect();
        assert_eq!(waits, [1, 2, 4, 5, 5]);
        backoff.reset();
        assert_eq!(backoff.failed(1.0), SECOND);
    }

    #[test]
    fn it_is_drawn_from_the_upper_half() {
        let mut backoff = Backoff::new(SECOND, SECOND);
        assert_eq!(backoff.failed(0.0), SECOND / 2);
        assert_eq!(backoff.failed(0.5), SECOND * 3 / 4);
    }

    #[test]
    fn endless_failures_are_no_trouble() {
        let mut backoff = Backoff::new(SECOND, 9 * SECOND);
        assert!((0..100).all(|_| backoff.failed(1.0) <= 9 * SECOND));
    }
}
