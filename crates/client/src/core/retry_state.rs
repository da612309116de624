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
    /// attempt, up to twice the time since the first loss: a short outage must cause no long wait.
    pub(super) fn next_max_wait(&mut self, now: Ms) -> Ms {
        if self.backoff.is_fresh() {
            self.since = now;
        }
        let away = now.saturating_sub(self.since);
        let limit = self.backoff.next_limit().as_millis() as Ms;
        limit.min(away.saturating_mul(2).max(FIRST_BACKOFF))
    }
}
