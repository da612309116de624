//! The send times of a load, and the clock of a run, for `driver` and the scenarios.

use std::time::{Duration, Instant};

use tokio::time::sleep;

/// Send times in microseconds: evenly at `rate` per second, each moved to the next tick of 1 ms.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Schedule {
    /// Units per second, above 0.
    pub(crate) rate: u64,
    pub(crate) duration_us: u64,
}

/// Resolution of a schedule, in microseconds. Units due within one tick start together.
pub(crate) const TICK_US: u64 = 1_000;
const SECOND_US: u64 = 1_000_000;

impl Schedule {
    pub(crate) fn total(&self) -> u64 {
        (self.rate * self.duration_us).div_ceil(SECOND_US)
    }

    /// Returns the send time of unit `number` (from 0), in microseconds since the start.
    pub(crate) fn time_us(&self, number: u64) -> u64 {
        (number * SECOND_US).div_ceil(self.rate).next_multiple_of(TICK_US)
    }

    /// Returns the number of units that are due at this time since the start.
    pub(crate) fn due(&self, now_us: u64) -> u64 {
        let tick = now_us / TICK_US * TICK_US;
        (tick * self.rate / SECOND_US + 1).min(self.total())
    }
}

/// The clock of a run: microseconds since its creation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock(Instant);

impl Clock {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn now_us(self) -> u64 {
        u64::try_from(self.0.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    /// Waits for a time, and up to 1 ms longer. Returns at once if it is in the past.
    pub(crate) async fn until_us(self, moment_us: u64) {
        let now_us = self.now_us();
        if moment_us > now_us {
            sleep(Duration::from_micros(moment_us - now_us)).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEDULE: Schedule = Schedule { rate: 2_500, duration_us: 2 * SECOND_US };

    #[test]
    fn messages_are_spread_evenly_over_the_ticks() {
        let times: Vec<u64> = (0..6).map(|number| SCHEDULE.time_us(number)).collect();

        assert_eq!(times, [0, 1_000, 1_000, 2_000, 2_000, 2_000]);
    }

    #[test]
    fn message_is_due_from_its_time_on_and_not_before() {
        for number in 0..SCHEDULE.total() {
            let time = SCHEDULE.time_us(number);
            assert!(SCHEDULE.due(time) > number, "{number} is not due at its time");
            if time > 0 {
                assert!(SCHEDULE.due(time - 1) <= number, "{number} is due too early");
            }
        }
    }

    #[test]
    fn rate_is_kept_and_does_not_drift() {
        assert_eq!([SCHEDULE.total(), SCHEDULE.due(10 * SECOND_US)], [5_000, 5_000]);
        let uneven = Schedule { rate: 7_001, duration_us: 3_600 * SECOND_US };
        assert_eq!(uneven.total(), 7_001 * 3_600);
        assert_eq!(uneven.time_us(7_001 * 1_800), 1_800 * SECOND_US);
    }
}
