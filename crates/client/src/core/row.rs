//! Tries in a row that led to nothing lasting, and how long the next one may wait.

use super::Ms;
use crate::rules::{BACKOFF_BASE, BACKOFF_CAP};

#[derive(Debug, Default)]
pub(super) struct RetryState {
    tries: u32,
    /// When the first of them became necessary.
    since: Ms,
}

impl RetryState {
    /// Counts a loss, and gives the time of which the next try waits a random part. It doubles with each try, but is never
    /// more than twice the time since the first loss: who drew short waits would else be away for long after a short outage.
    pub(super) fn window(&mut self, now: Ms) -> Ms {
        if self.tries == 0 {
            self.since = now;
        }
        let doubled = BACKOFF_BASE << self.tries.min(16);
        let away = now.saturating_sub(self.since);
        self.tries = self.tries.saturating_add(1);
        doubled.min(away.saturating_mul(2).max(BACKOFF_BASE)).min(BACKOFF_CAP)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn windows(losses: impl IntoIterator<Item = Ms>) -> Vec<Ms> {
        let mut row = RetryState::default();
        losses.into_iter().map(|at| row.window(at)).collect()
    }

    #[test]
    fn after_few_tries_that_took_long_the_number_of_tries_counts() {
        assert_eq!(windows([5, 20_000, 40_000, 60_000]), [1_000, 2_000, 4_000, 8_000]);
    }

    #[test]
    fn after_many_tries_in_a_short_time_the_time_counts() {
        assert_eq!(windows([7, 8, 9, 107, 707, 1_507, 3_007]), [1_000, 1_000, 1_000, 1_000, 1_400, 3_000, 6_000]);
    }

    #[test]
    fn no_window_is_above_the_cap_however_many_tries_there_were_and_however_long_it_took() {
        let hours = windows((0..200).map(|number| number * 3_600_000));
        assert!(hours[5..].iter().all(|window| *window == BACKOFF_CAP));
        assert_eq!(windows([0, 0, 0, 0, 0, Ms::MAX]).last(), Some(&BACKOFF_CAP));
    }
}
