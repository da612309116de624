//! The simulated clock and its scheduler, which `world` runs.

use std::collections::BTreeMap;
use std::collections::btree_map::OccupiedEntry;
use std::time::{Duration, Instant};

/// Simulated time: microseconds since the world began.
pub(crate) type Micros = u64;
/// Microseconds of a millisecond.
pub(crate) const MS: Micros = 1_000;
/// Microseconds of a second.
pub(crate) const SECOND: Micros = 1_000_000;

/// Returns a duration in microseconds; half of the maximum if it does not fit.
pub(crate) fn micros(duration: Duration) -> Micros {
    Micros::try_from(duration.as_micros()).unwrap_or(Micros::MAX / 2)
}

/// An action on the world `W` at its time.
pub(crate) type Act<W> = Box<dyn FnOnce(&mut W)>;

/// Scheduled actions on the world `W`, and the present time.
pub(crate) struct Agenda<W> {
    /// Actions by time, then in the order of scheduling.
    acts: BTreeMap<(Micros, u64), Act<W>>,
    scheduled: u64,
    now: Micros,
    /// Arbitrary start of the simulated time, since an `Instant` has no zero.
    pub(crate) base: Instant,
}

impl<W> Default for Agenda<W> {
    fn default() -> Self {
        Self { acts: BTreeMap::new(), scheduled: 0, now: 0, base: Instant::now() }
    }
}

impl<W> Agenda<W> {
    /// Returns the present time since the start of the run.
    pub(crate) fn now(&self) -> Micros {
        self.now
    }

    /// Returns the present time as the cores get it.
    pub(crate) fn instant(&self) -> Instant {
        self.base + Duration::from_micros(self.now)
    }

    /// Schedules an action for `at`, or for now if that is in the past.
    pub(crate) fn schedule(&mut self, at: Micros, act: impl FnOnce(&mut W) + 'static) {
        self.scheduled += 1;
        self.acts.insert((at.max(self.now), self.scheduled), Box::new(act));
    }

    /// Schedules an action after a delay.
    pub(crate) fn after(&mut self, delay: Micros, act: impl FnOnce(&mut W) + 'static) {
        self.schedule(self.now + delay, act);
    }

    /// Removes the next action before `end` and advances the time to it. Without one returns `None`
    /// and advances the time to `end`.
    pub(crate) fn next_before(&mut self, end: Micros) -> Option<Act<W>> {
        let next = self.acts.first_entry().filter(|entry| entry.key().0 < end);
        self.now = next.as_ref().map_or(end, |entry| entry.key().0);
        next.map(OccupiedEntry::remove)
    }
}
