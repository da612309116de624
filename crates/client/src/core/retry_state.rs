//! Attempts in a row without a lasting connection, and the maximum wait before the next one.

use std::time::Duration;

use signaling_protocol::Backoff;

use super::Ms;
use crate::rules::{FIRST_BACKOFF, MAX_BACKOFF};

/// Backoff since the last lasting connection.
#[derive(Debug)]
pub(super) struct RetryState {
    backoff: Backoff,
    since: Ms,
}

impl Default for RetryState {
    fn default() -> Self {
        let [first, longest] = [FIRST_BACKOFF, MAX_BACKOFF].map(Duration::from_millis);
        Self { backoff: Backoff::new(first, longest), since: 0 }
    }
}

impl RetryState {
    /// Records a loss and returns the maximum wait before the next attempt. It doubles with each
    /// attempt, up to twice the time since the first loss: several short waits in a short outage
    /// must not lead to a long one.
    pub(super) fn next_max_wait(&mut self, now: Ms) -> Ms {
        if self.backoff.is_fresh() {
            self.since = now;
        }
        let away = now.saturating_sub(self.since);
        let limit = self.backoff.next_limit().as_millis() as Ms;
        limit.min(away.saturating_mul(2).max(FIRST_BACKOFF))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn windows(losses: impl IntoIterator<Item = Ms>) -> Vec<Ms> {
        let mut retries = RetryState::default();
        losses.into_iter().map(|at| retries.next_max_wait(at)).collect()
    }

    #[test]
    fn window_doubles_when_attempts_take_long() {
        assert_eq!(windows([5, 20_000, 40_000, 60_000]), [1_000, 2_000, 4_000, 8_000]);
    }

    #[test]
    fn window_is_twice_the_outage_when_attempts_are_quick() {
        assert_eq!(windows([7, 8, 9, 107, 707, 1_507, 3_007]), [1_000, 1_000, 1_000, 1_000, 1_400, 3_000, 6_000]);
    }

    #[test]
    fn window_never_exceeds_the_cap() {
        let hours = windows((0..200).map(|number| number * 3_600_000));
        assert!(hours[5..].iter().all(|window| *window == MAX_BACKOFF));
        assert_eq!(windows([0, 0, 0, 0, 0, Ms::MAX]).last(), Some(&MAX_BACKOFF));
    }
}
