//! Random numbers from a seed.

use crate::agenda::Micros;

/// SplitMix64: the same numbers on every machine and in every release.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x1234_5678_9abc_def0)
    }

    /// Returns the next random number.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number in `low..high`, or `low` if the range is empty.
    pub(crate) fn within(&mut self, low: u64, high: u64) -> u64 {
        if high <= low { low } else { low + self.next() % (high - low) }
    }

    /// Returns a number in `0..length`, or 0 if `length` is 0.
    pub(crate) fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.within(0, length as u64)).unwrap_or_default()
    }

    /// Returns `true` with a probability of `percent`.
    pub(crate) fn percent(&mut self, percent: u64) -> bool {
        self.next() % 100 < percent
    }

    /// Returns random bytes.
    pub(crate) fn bytes<const N: usize>(&mut self) -> [u8; N] {
        std::array::from_fn(|_| self.next().to_le_bytes()[0])
    }

    /// Returns one of `choices`, or `None` if there are none.
    pub(crate) fn pick<T: Copy>(&mut self, choices: &[T]) -> Option<T> {
        if choices.is_empty() { None } else { choices.get(self.index(choices.len())).copied() }
    }

    /// Returns a packet delay: 0.15 ms to 2 ms in 90% of cases, and rarely up to 200 ms.
    pub(crate) fn delay(&mut self) -> Micros {
        match self.next() % 100 {
            0..=89 => self.within(150, 2_000),
            90..=98 => self.within(2_000, 30_000),
            _ => self.within(30_000, 200_000),
        }
    }
}
