use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use anyhow::{Result, ensure};

/// A process's part of the load, written as `NUMBER/OF`, from 0 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    number: u32,
    of: u32,
}

impl Share {
    pub(crate) const WHOLE: Self = Self { number: 0, of: 1 };

    pub(super) fn all(processes: u32) -> impl Iterator<Item = Self> {
        (0..processes).map(move |number| Self { number, of: processes })
    }

    /// Returns `true` for the first process, which does the work of only one.
    pub(crate) fn is_first(self) -> bool {
        self.number == 0
    }

    /// Returns its part of `total` items, disjoint from all other shares.
    pub(crate) fn of(self, total: u64) -> Range<u64> {
        let bound = |number: u32| total * u64::from(number) / u64::from(self.of);
        bound(self.number)..bound(self.number + 1)
    }

    /// Returns its part of a rate per second. Fails if the rate is too low for all shares.
    pub(crate) fn of_rate(self, rate: u64) -> Result<u64> {
        let Range { start, end } = self.of(rate);
        ensure!(start < end, "--rate {rate} is too low for {} processes", self.of);
        Ok(end - start)
    }

    /// Returns its part of the clients. A pair of an even client and the next one stays together.
    pub(crate) fn of_clients(self, clients: u32) -> Range<u32> {
        let Range { start, end } = self.of(u64::from(clients / 2));
        let bound = |pairs: u64| u32::try_from(2 * pairs).unwrap_or(clients);
        bound(start)..if self.number + 1 == self.of { clients } else { bound(end) }
    }

    /// Returns its own seed, derived from that of the run.
    pub(crate) fn seed(self, seed: u64) -> u64 {
        seed.wrapping_add(u64::from(self.number).wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }
}

impl fmt::Display for Share {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.number, self.of)
    }
}

impl FromStr for Share {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let numbers = text.split_once('/').and_then(|(number, of)| Some((number.parse().ok()?, of.parse().ok()?)));
        let share = numbers.map(|(number, of)| Self { number, of }).filter(|share| share.number < share.of);
        share.ok_or("use NUMBER/OF, as 0/4")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn shares_have_everything_once_and_about_equal_parts() {
        for (total, processes) in [(10, 3), (7, 7), (1_000_001, 16), (2, 5)] {
            let parts: Vec<_> = Share::all(processes).map(|share| share.of(total)).collect();

            assert_eq!((parts[0].start, parts[parts.len() - 1].end), (0, total));
            assert!(parts.windows(2).all(|pair| pair[0].end == pair[1].start), "{parts:?}");
            let sizes = || parts.iter().map(|part| part.end - part.start);
            assert!(sizes().max().unwrap() - sizes().min().unwrap() <= 1, "{parts:?}");
        }
    }

    #[test]
    fn pairs_rates_and_seeds_are_shared_out() {
        let shares: Vec<Share> = Share::all(3).collect();

        let parts: Vec<_> = shares.iter().map(|share| share.of_clients(20)).collect();
        assert_eq!((parts, Share::WHOLE.of_clients(7)), (vec![0..6, 6..12, 12..20], 0..7));
        let rates: Vec<u64> = shares.iter().map(|share| share.of_rate(10).unwrap()).collect();
        assert_eq!(rates, [3, 3, 4]);
        assert!(shares.iter().any(|share| share.of_rate(2).is_err()));
        assert_eq!(shares[0].seed(7), 7, "as a single process draws");
        assert_ne!(shares[0].seed(7), shares[1].seed(7));
    }

    #[test]
    fn share_is_read_as_it_is_written() {
        let share: Share = "2/4".parse().unwrap();

        assert_eq!(share.to_string(), "2/4");
        assert!(!share.is_first() && Share::WHOLE.is_first());
        for wrong in ["4/4", "1", "a/b", ""] {
            assert!(wrong.parse::<Share>().is_err(), "{wrong}");
        }
    }
}
