//! Lateness of batches. A batch carries its time on its sender's clock, and its TTLs count from
//! that time. A network that stalled, or a process that was paused, delivers it late.
//!
//! Clocks of servers differ, but the difference hardly changes. So the least delayed of the recent
//! batches is the measure, and the excess delay of another one is its lateness. Lanes and trunks
//! measure it alike, and subtract it from each TTL.

use std::time::{Duration, Instant};

use signaling_wire::Elapsed;

/// Age from which measurements are dropped once there are later ones: twice as long at most. Clocks
/// drift apart by some milliseconds in it.
const WINDOW: Duration = Duration::from_secs(60);
/// Silence after which a lane or trunk adds a time to measure. It keeps the receiver's window
/// filled, or the drift of hours would count as lateness. It also spreads counters within 1 s, with
/// the interval of an edge's sweeps. Its acknowledgement shows that the peer's view has this node,
/// which rooms require every 2 s.
pub(crate) const BEAT_INTERVAL: Duration = Duration::from_millis(500);
/// Maximum lateness. A connection that is later delivers what was sent again on another one.
pub(crate) const MAX_LATENESS: Duration = Duration::from_secs(5);

/// A batch is more than 5 s late. Its connection has to end.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("a batch is {0:?} late")]
pub struct TooLate(Duration);

/// Clock of one direction of a trunk, at its sender.
#[derive(Debug)]
pub(crate) struct TrunkClock {
    start: Instant,
    /// The last time that was sent; at first the start.
    last: Instant,
}

impl TrunkClock {
    /// Creates the clock of a trunk that was asked for, or accepted, at this time.
    pub(crate) fn new(start: Instant) -> Self {
        Self { start, last: start }
    }

    /// Returns the time of a frame with a TTL that is queued now.
    pub(crate) fn time(&mut self, now: Instant) -> Elapsed {
        self.last = now;
        Elapsed::between(self.start, now)
    }

    /// Returns the time to send if there was none for 500 ms. `None`: it is not due.
    pub(crate) fn beat(&mut self, now: Instant) -> Option<Elapsed> {
        let is_due = now.saturating_duration_since(self.last) >= BEAT_INTERVAL;
        is_due.then(|| self.time(now))
    }
}

/// Measurements of one exchange, or one direction of a trunk.
///
/// A measurement is the start of the sender's clock on this server's clock, later by the delay of
/// the batch. So the earliest one has the least delay.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lateness {
    /// The earliest start by the batches of the last minute, and of the one before.
    earliest: [Instant; 2],
    /// Start of the last minute.
    since: Instant,
}

impl Lateness {
    /// Starts by the request or answer that opened the connection. It was sent at the start of the
    /// sender's clock and arrives now.
    pub(crate) fn new(now: Instant) -> Self {
        Self { earliest: [now; 2], since: now }
    }

    /// Measures a batch with this time that arrives now. Returns how much later it is than the
    /// least late one of the last one or two minutes, itself included.
    ///
    /// # Errors
    /// If it is more than 5 s late.
    pub(crate) fn measure(&mut self, now: Instant, elapsed: Elapsed) -> Result<Duration, TooLate> {
        let start = now.checked_sub(elapsed.as_duration()).unwrap_or(now);
        let [recent, earlier] = &mut self.earliest;
        if now.saturating_duration_since(self.since) >= WINDOW {
            (self.since, *earlier, *recent) = (now, *recent, start);
        }
        *recent = start.min(*recent);
        let late = start.saturating_duration_since(*recent.min(earlier));
        if late > MAX_LATENESS { Err(TooLate(late)) } else { Ok(late) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Measures batches, each with its time and its arrival in milliseconds. Returns how late each
    /// is; `None` for too late.
    fn lateness(batches: &[(u64, u64)]) -> Vec<Option<u64>> {
        let (sender, receiver) = (Instant::now(), Instant::now() + Duration::from_secs(1_000));
        let mut lateness = Lateness::new(receiver);
        let after = |start: Instant, ms: u64| start + Duration::from_millis(ms);
        let measure = |(sent, arrives): &(u64, u64)| {
            let late = lateness.measure(after(receiver, *arrives), Elapsed::between(sender, after(sender, *sent)));
            late.ok().map(|late| u64::try_from(late.as_millis()).unwrap())
        };
        batches.iter().map(measure).collect()
    }

    #[test]
    fn batch_is_late_by_more_delay_than_the_least_delayed() {
        assert_eq!(lateness(&[(500, 570), (1_500, 1_480), (1_900, 3_880)]), [70, 0, 2_000].map(Some));
    }

    #[test]
    fn batch_over_5_s_late_is_too_late() {
        assert_eq!(lateness(&[(0, 0), (100, 5_100), (100, 5_110), (100, 27_100)]), [Some(0), Some(5_000), None, None]);
    }

    #[test]
    fn longer_path_is_the_measure_after_two_minutes() {
        let batches: Vec<_> = (0..20).map(|at| (at * 10_000, at * 10_000 + if at > 3 { 400 } else { 0 })).collect();
        let late = lateness(&batches);
        assert_eq!((late[3], late[4], late[11], late[12]), (Some(0), Some(400), Some(400), Some(0)));
    }

    #[test]
    fn drift_of_hours_is_no_lateness_while_batches_arrive() {
        // The receiver's clock gains 0.1 s in 1,000 s.
        let batches: Vec<_> = (0..1_000).map(|at| (at * 30_000, at * 30_003)).collect();
        assert!(lateness(&batches).iter().all(|late| *late < Some(13)));
        let batches: Vec<_> = (0..1_000).map(|at| (at * 30_003, at * 30_000)).collect();
        assert!(lateness(&batches).iter().all(|late| *late < Some(13)));
    }

    #[test]
    fn trunk_clock_beats_500_ms_after_its_last_time() {
        let start = Instant::now();
        let (mut clock, after) = (TrunkClock::new(start), |ms| start + Duration::from_millis(ms));
        assert_eq!(clock.time(after(5_019)), Elapsed::between(start, after(5_010)));
        assert_eq!(clock.beat(after(5_518)), None);
        assert_eq!(clock.beat(after(5_519)), Some(Elapsed::between(start, after(5_510))));
        assert_eq!(clock.beat(after(6_018)), None);
    }

    #[test]
    fn batch_after_a_long_silence_is_measured_by_the_last_ones() {
        assert_eq!(lateness(&[(0, 0), (10_000, 10_000), (20_000, 620_000), (620_000, 620_010)])[2..], [None, Some(10)]);
    }
}
