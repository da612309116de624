//! The counter of a process: numbers that order events of different servers without their clocks.

use std::time::{Duration, Instant};

use crate::DecodeError;

/// Bound of all numbers of a counter, as JSON has exact integers below it.
const LIMIT: u64 = 1 << 53;
/// Jumps that are remembered.
const MAX_JUMPS: usize = 4;
/// Minimum rise that is a jump: 1 ms.
const MIN_JUMP: u64 = 1_000;
/// Time in which a jump has further parts: the first number of a server that is ahead may be old.
const CATCH_UP: Duration = Duration::from_secs(2);

/// The counter of one process.
///
/// It starts at the wall clock, in microseconds since 1970, and rises by one in each microsecond
/// that the process runs. Each number from another server raises it, so all counters of a mesh go
/// together within a second. It never falls, whatever the clocks do. No number of it is a time.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counter {
    /// Its value at the time `at`.
    value: u64,
    /// `None`: it starts with the first number from another server.
    at: Option<Instant>,
    /// The latest jumps, the newest one first.
    jumps: [Option<Jump>; MAX_JUMPS],
}

/// A rise by a number of a server that is ahead.
#[derive(Debug, Clone, Copy)]
struct Jump {
    from: u64,
    by: u64,
    at: Instant,
}

impl Counter {
    /// Creates the counter of a process that starts at `now`, at this number.
    pub fn starting_at(now: Instant, number: u64) -> Self {
        Self { value: number, at: Some(now), ..Self::default() }
    }

    /// Returns the present number, for other servers. It is at least as high as all numbers so far.
    pub fn present(&self, now: Instant) -> u64 {
        let elapsed = self.at.map_or(0, |at| now.saturating_duration_since(at).as_micros());
        self.value.saturating_add(u64::try_from(elapsed).unwrap_or(u64::MAX)).min(LIMIT - 1)
    }

    /// Returns what a number would be, had its server received in time the numbers of the server
    /// that gave the higher number `other`. It is the same if no jump separates the two here.
    pub fn in_time(&self, number: u64, other: u64) -> u64 {
        let (mut corrected, mut begun) = (number, None);
        for jump in self.jumps.iter().rev().flatten().filter(|jump| jump.from >= number) {
            let goes_on = |at| jump.at.saturating_duration_since(at) < CATCH_UP;
            if jump.from < other || begun.is_some_and(goes_on) {
                corrected += jump.by;
                begun.get_or_insert(jump.at);
            }
        }
        corrected
    }

    /// Returns a number above all that this process has returned or received.
    pub fn next(&mut self, now: Instant) -> u64 {
        let next = self.present(now).saturating_add(1).min(LIMIT - 1);
        (self.value, self.at) = (next, self.at.map(|at| at.max(now)).or(Some(now)));
        next
    }

    /// Raises the counter to a number from a frame.
    ///
    /// # Errors
    /// If the number is 2^53 or more: the frame is damaged. The counter stays as it was.
    pub fn receive(&mut self, now: Instant, number: u64) -> Result<(), DecodeError> {
        if number >= LIMIT {
            return Err(DecodeError::new(format!("the number {number} is above 2^53 - 1")));
        }
        let present = self.present(now);
        if number > present {
            self.record_jump(now, present, number - present);
            (self.value, self.at) = (number, self.at.map(|at| at.max(now)).or(Some(now)));
        }
        Ok(())
    }

    /// Records a rise. Smaller ones come from clocks that drift, and from delays.
    fn record_jump(&mut self, now: Instant, from: u64, by: u64) {
        if by >= MIN_JUMP && self.at.is_some() {
            self.jumps.rotate_right(1);
            self.jumps[0] = Some(Jump { from, by, at: now });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counter_rises_with_time_and_received_numbers() {
        let start = Instant::now();
        let mut counter = Counter::starting_at(start, 100);
        assert_eq!([counter.next(start), counter.next(start)], [101, 102]);
        let later = start + Duration::from_micros(10);
        assert_eq!(counter.present(later), 112);
        counter.receive(later, 50).unwrap();
        assert_eq!(counter.next(later), 113);
        counter.receive(later, 5_000).unwrap();
        assert_eq!(counter.next(later), 5_001);
        assert_eq!(counter.next(start), 5_002, "it never falls");
        assert_eq!(counter.next(later), 5_003);
    }

    #[test]
    fn counters_that_met_go_together() {
        let start = Instant::now();
        let [mut ahead, mut behind] = [9_000_000, 1].map(|number| Counter::starting_at(start, number));
        behind.receive(start, ahead.next(start)).unwrap();
        let later = start + Duration::from_secs(5);
        let earlier = ahead.next(later);
        assert!(behind.next(later + Duration::from_micros(10)) > earlier);
    }

    #[test]
    fn number_of_2_to_the_53_is_damaged() {
        let (now, mut counter) = (Instant::now(), Counter::default());
        assert!(counter.receive(now, LIMIT).is_err());
        assert_eq!(counter.present(now), 0);
        counter.receive(now, LIMIT - 1).unwrap();
        assert_eq!(counter.next(now), LIMIT - 1, "no frame gets a damaged number");
    }

    #[test]
    fn number_is_corrected_by_the_jumps_between_it_and_another() {
        let (start, second) = (Instant::now(), Duration::from_secs(1));
        let mut counter = Counter::starting_at(start, 0);
        // Another server is 100 s ahead. Its first number is 1 s old.
        counter.receive(start + 20 * second, 119_000_000).unwrap();
        counter.receive(start + 21 * second, 121_000_000).unwrap();
        counter.receive(start + 24 * second, 124_000_999).unwrap();
        for (number, other, expected) in [
            // That server gave the other number.
            (15_000_000, 114_000_000, 115_000_000),
            (15_000_000, 117_000_000, 115_000_000),
            // It was given before the jump.
            (15_000_000, 18_000_000, 15_000_000),
            // The number was given between the two parts of the jump, or after it.
            (119_500_000, 130_000_000, 120_500_000),
            (122_000_000, 130_000_000, 122_000_000),
        ] {
            assert_eq!(counter.in_time(number, other), expected, "{number} and {other}");
        }
    }
}
