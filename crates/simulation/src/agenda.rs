//! The simulated clock and its scheduler.

use std::collections::BTreeMap;
use std::collections::btree_map::OccupiedEntry;
use std::time::{Duration, Instant};

/// Simulated time: microseconds since the world began.
pub(crate) type Micros = u64;
pub(crate) const MS: Micros = 1_000;
pub(crate) const SECOND: Micros = 1_000_000;

/// Scheduled events, and the present time.
#[derive(Debug)]
pub(crate) struct Agenda<E> {
    /// Events by time, then in the order of scheduling.
    events: BTreeMap<(Micros, u64), E>,
    scheduled: u64,
    now: Micros,
    /// Arbitrary start of the simulated time, since an `Instant` has no zero.
    base: Instant,
}

impl<E> Agenda<E> {
    pub(crate) fn new() -> Self {
        Self { events: BTreeMap::new(), scheduled: 0, now: 0, base: Instant::now() }
    }

    pub(crate) fn now(&self) -> Micros {
        self.now
    }

    /// Returns the present time for the cores.
    pub(crate) fn instant(&self) -> Instant {
        self.base + Duration::from_micros(self.now)
    }

    pub(crate) fn base(&self) -> Instant {
        self.base
    }

    pub(crate) fn schedule(&mut self, at: Micros, event: E) {
        self.scheduled += 1;
        self.events.insert((at.max(self.now), self.scheduled), event);
    }

    pub(crate) fn after(&mut self, delay: Micros, event: E) {
        self.schedule(self.now + delay, event);
    }

    /// Removes the next event before `end` and advances the time to it, or to `end` without one.
    pub(crate) fn next_before(&mut self, end: Micros) -> Option<E> {
        let next = self.events.first_entry().filter(|entry| entry.key().0 < end);
        self.now = next.as_ref().map_or(end, |entry| entry.key().0);
        next.map(OccupiedEntry::remove)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_one_time_come_as_they_were_scheduled() {
        let mut agenda = Agenda::new();
        for (at, name) in [(5, "b"), (3, "a"), (5, "c"), (9, "late")] {
            agenda.schedule(at, name);
        }
        let mut seen = Vec::new();
        while let Some(name) = agenda.next_before(9) {
            seen.push((agenda.now(), name));
        }
        assert_eq!(seen, [(3, "a"), (5, "b"), (5, "c")]);
        assert_eq!(agenda.now(), 9);
    }
}
