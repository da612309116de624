use std::time::Duration;

use rand::{Rng, RngExt as _};

/// Random reconnect delays, so that clients that lost their sockets together do not return
/// together. The bound of the delay doubles with each attempt. It is at most twice the time that
/// the client has been away: otherwise some clients would be away for long after a short outage.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BackOff {
    first: Duration,
    bound: Duration,
    last: Duration,
}

impl BackOff {
    /// Creates a back-off whose first delay is random too. No bound exceeds `last`.
    pub(crate) fn new(first: Duration, last: Duration) -> Self {
        Self { first, bound: first, last }
    }

    /// Returns the delay before the next attempt of a client that has been `away` for this time. A
    /// delay that the server requested takes precedence and leaves the bound unchanged.
    pub(crate) fn wait(&mut self, away: Duration, asked_for: Option<Duration>, random: &mut impl Rng) -> Duration {
        if let Some(asked_for) = asked_for {
            return asked_for;
        }
        let bound = self.bound.min(self.first.max(away * 2));
        self.bound = self.last.min(self.bound * 2);
        random.random_range(Duration::ZERO..=bound)
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;
    use rand::rngs::StdRng;

    use super::*;

    fn back_off() -> BackOff {
        BackOff::new(Duration::from_secs(1), Duration::from_secs(30))
    }

    /// Returns the maximum of many delays at each attempt.
    fn longest_waits(away: Duration, tries: usize) -> Vec<f64> {
        let mut random = StdRng::seed_from_u64(1);
        let mut longest = vec![Duration::ZERO; tries];
        for _ in 0..2_000 {
            let mut waits = back_off();
            for longest in &mut longest {
                *longest = waits.wait(away, None, &mut random).max(*longest);
            }
        }
        longest.iter().map(Duration::as_secs_f64).collect()
    }

    #[test]
    fn bound_doubles_up_to_twice_the_time_away() {
        let cases: [(u64, &[f64]); 3] = [
            (60_000, &[1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]),
            (300, &[1.0, 1.0, 1.0, 1.0]),
            (3_000, &[1.0, 2.0, 4.0, 6.0, 6.0]),
        ];
        for (away_ms, bounds) in cases {
            for (longest, bound) in longest_waits(Duration::from_millis(away_ms), bounds.len()).iter().zip(bounds) {
                assert!((0.98 * bound..=*bound).contains(longest), "{longest} is not just below {bound}");
            }
        }
    }

    #[test]
    fn retry_after_of_the_server_is_kept_exactly() {
        let mut waits = back_off();

        let wait = waits.wait(Duration::ZERO, Some(Duration::from_millis(1_234)), &mut StdRng::seed_from_u64(1));

        assert_eq!(wait, Duration::from_millis(1_234));
    }
}
