//! Common times of all delayed and periodic work of a process, so that one wake-up serves all, the
//! time of day, and waits for a condition.

use std::sync::LazyLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::time::{self, Interval, MissedTickBehavior, interval_at};

/// Returns the time since the Unix epoch, for tokens and sessions; 0 if the clock is earlier.
pub fn unix_time() -> Duration {
    time_of_day().duration_since(UNIX_EPOCH).unwrap_or_default()
}

#[cfg(not(test))]
pub(crate) fn time_of_day() -> SystemTime {
    SystemTime::now()
}

/// Returns the time of the test's own clock, [`TEST_DELAY`] behind the machine's.
#[cfg(test)]
pub(crate) fn time_of_day() -> SystemTime {
    SystemTime::now() - TEST_DELAY.get()
}

#[cfg(test)]
std::thread_local! {
    /// Seconds by which this thread's time of day is behind the machine's.
    pub(crate) static TEST_DELAY: std::cell::Cell<Duration> = const { std::cell::Cell::new(Duration::ZERO) };
}

/// Returns the first multiple of `period` after `now`, on the time of day at the first call. All
/// servers of a machine have nearly equal multiples, so that their delayed output arrives together.
/// `period` must divide one second; 0 panics.
pub fn next_multiple(now: Instant, period: Duration) -> Instant {
    static ORIGIN: LazyLock<Instant> = LazyLock::new(|| {
        let now = Instant::now();
        now.checked_sub(Duration::from_nanos(unix_time().subsec_nanos().into())).unwrap_or(now)
    });
    let since_multiple = now.saturating_duration_since(*ORIGIN).as_nanos() % period.as_nanos();
    now + period - Duration::from_nanos(u64::try_from(since_multiple).unwrap_or_default())
}

/// Returns an interval that ticks at the multiples of [`next_multiple`]. It skips missed ticks.
/// Panics outside a Tokio runtime, and for a `period` of 0.
pub fn ticks(period: Duration) -> Interval {
    let mut ticks = interval_at(next_multiple(time::Instant::now().into_std(), period).into(), period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    ticks
}

/// Checks `is_so` at once and then at this interval until it returns `true`; returns `true` then,
/// or `false` after `limit`. Panics outside a Tokio runtime.
pub async fn until(limit: Duration, interval: Duration, is_so: impl Fn() -> bool) -> bool {
    let waiting = async {
        while !is_so() {
            time::sleep(interval).await;
        }
    };
    time::timeout(limit, waiting).await.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn multiples_do_not_depend_on_the_time_of_the_call() {
        let period = Duration::from_millis(10);
        let first = next_multiple(Instant::now(), period);
        assert_eq!(next_multiple(first, period), first + period);
        assert_eq!(next_multiple(first + period / 3, period), first + period);
        assert_eq!(next_multiple(first + period * 5 / 2, period), first + period * 3);
    }
}
