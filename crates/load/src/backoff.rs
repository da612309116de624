use std::time::Duration;

use rand::{Rng, RngExt as _};

/// How long a client waits before it tries to connect again: any time up to a bound that doubles with each try, so that
/// clients that lost their sockets together do not come back together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BackOff {
    bound: Duration,
    last: Duration,
}

impl BackOff {
    /// The first wait is drawn too. No bound is above `last`.
    pub(crate) fn new(first: Duration, last: Duration) -> Self {
        Self { bound: first, last }
    }

    /// As the clients of the mesh do by its protocol, where `last` is 30 s.
    pub(crate) fn of_clients(last: Duration) -> Self {
        Self::new(Duration::from_secs(1), last)
    }

    /// Before the next try. What the server asked for wins, and leaves the bound as it is.
    pub(crate) fn wait(&mut self, asked_for: Option<Duration>, random: &mut impl Rng) -> Duration {
        if let Some(asked_for) = asked_for {
            return asked_for;
        }
        let bound = self.bound;
        self.bound = self.last.min(bound * 2);
        random.random_range(Duration::ZERO..=bound)
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;
    use rand::rngs::StdRng;

    use super::*;

    const LAST: Duration = Duration::from_secs(30);

    /// The longest of many waits at each try.
    fn longest_waits(tries: usize) -> Vec<f64> {
        let mut random = StdRng::seed_from_u64(1);
        let mut longest = vec![Duration::ZERO; tries];
        for _ in 0..2_000 {
            let mut back_off = BackOff::of_clients(LAST);
            for longest in &mut longest {
                *longest = back_off.wait(None, &mut random).max(*longest);
            }
        }
        longest.iter().map(Duration::as_secs_f64).collect()
    }

    #[test]
    fn the_bound_doubles_from_one_second_to_thirty_and_waits_come_close_to_it() {
        for (longest, bound) in longest_waits(7).iter().zip([1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]) {
            assert!((0.98 * bound..=bound).contains(longest), "{longest} is not just below {bound}");
        }
    }

    #[test]
    fn what_the_server_asks_for_is_kept_to_the_letter() {
        let mut back_off = BackOff::of_clients(LAST);

        let wait = back_off.wait(Some(Duration::from_millis(1_234)), &mut StdRng::seed_from_u64(1));

        assert_eq!(wait, Duration::from_millis(1_234));
    }
}
