//! The counter of a process: numbers that order events of different servers without their clocks.

use std::time::Instant;

use crate::DecodeError;

/// Bound of all numbers of a counter, as JSON has exact integers below it.
const LIMIT: u64 = 1 << 53;

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
    /// See [`Counter::lead`].
    lead: u64,
}

impl Counter {
    /// Creates the counter of a process that starts at `now`, at this number.
    pub fn starting_at(now: Instant, number: u64) -> Self {
        Self { value: number, at: Some(now), lead: 0 }
    }

    /// Returns the present number, for other servers. It is at least as high as all numbers so far.
    pub fn present(&self, now: Instant) -> u64 {
        let elapsed = self.at.map_or(0, |at| now.saturating_duration_since(at).as_micros());
        self.value.saturating_add(u64::try_from(elapsed).unwrap_or(u64::MAX)).min(LIMIT - 1)
    }

    /// Returns by how much numbers of other servers have raised it so far. What it has risen since
    /// some event is what an earlier number of that event lacks: with all numbers received in time,
    /// it would have been higher by that.
    pub fn lead(&self) -> u64 {
        self.lead
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
            self.lead += if self.at.is_some() { number - present } else { 0 };
            (self.value, self.at) = (number, self.at.map(|at| at.max(now)).or(Some(now)));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

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
}
