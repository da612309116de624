//! Puts the changes of one room into version order, batched and without a gap, for the clients
//! of a node.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use crate::{Change, RoomEvents, Stamp};

/// Minimum interval between announcements, except with [`RoomEvents::Prompt`].
const ANNOUNCE_INTERVAL: Duration = Duration::from_millis(200);
/// Time that a missing version may be late from the node that made it. Then a resync is needed.
const GAP_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum runs of changes held for an earlier one. A further one drops the oldest, and a resync is
/// needed at once.
const MAX_EARLY: usize = 64;

/// Changes to announce.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Announcement {
    /// The room's version after these changes.
    pub(super) version: u64,
    /// The last change of each client, in order, each with the version that it made.
    pub(super) changes: Vec<(u64, Change)>,
}

/// Sequencer of one room's changes, which arrive in any order, repeatedly, or never.
#[derive(Debug, Default)]
pub(super) struct ChangeSequencer {
    /// All changes up to here were announced, or are `pending`.
    at: Stamp,
    pending: Vec<(u64, Change)>,
    /// Runs of changes after a gap, by the version that they start from.
    early: BTreeMap<u64, (u64, Vec<Change>)>,
    /// The highest version known to exist.
    newest: u64,
    /// Another incarnation that was reported, or the own one if its version fell.
    other: Option<u64>,
    /// Values of `other` and of the followed version when the last resync was requested.
    at_request: (Option<u64>, u64),
    gap_since: Option<Instant>,
    announced_at: Option<Instant>,
    /// `true` if announcements need no interval.
    is_prompt: bool,
}

impl ChangeSequencer {
    /// Creates a sequencer for a room whose local clients have this state. With
    /// [`RoomEvents::Prompt`] there is no interval between announcements.
    pub(super) fn new(at: Stamp, events: RoomEvents) -> Self {
        Self { at, newest: at.version, is_prompt: events == RoomEvents::Prompt, ..Self::default() }
    }

    /// Returns the state that the local clients have, including pending changes.
    pub(super) fn at(&self) -> Stamp {
        self.at
    }

    /// Adds changes, the last of which made the state `at`. Known ones have no effect. Changes of
    /// another incarnation are dropped, and mark a possible loss.
    pub(super) fn changed(&mut self, now: Instant, at: Stamp, changes: Vec<Change>) {
        if self.is_followed(now, at.incarnation) {
            self.take_in(now, at.version, changes);
        }
    }

    fn take_in(&mut self, now: Instant, version: u64, changes: Vec<Change>) {
        let start = version.saturating_sub(changes.len() as u64);
        if version > self.at.version {
            let longest = self.early.entry(start).or_default();
            if longest.0 < version {
                *longest = (version, changes);
            }
        }
        while let Some(first) = self.early.first_entry().filter(|first| *first.key() <= self.at.version) {
            let (start, (end, changes)) = first.remove_entry();
            // The first changes of the run may be known already.
            let known = usize::try_from(self.at.version - start).unwrap_or(usize::MAX);
            if end > self.at.version {
                self.pending.extend((start + 1..).zip(changes).skip(known));
                self.at.version = end;
            }
        }
        self.check_gap(now, version);
        if self.early.len() > MAX_EARLY {
            // The requested state has the oldest run. It may lack the newest.
            self.early.pop_first();
            self.gap_since = now.checked_sub(GAP_TIMEOUT).or(self.gap_since);
        }
    }

    /// Records that the room has reached this state. Its changes are missing until they arrive.
    /// Another incarnation marks a possible loss.
    pub(super) fn exists(&mut self, now: Instant, at: Stamp) {
        if self.is_followed(now, at.incarnation) {
            self.check_gap(now, at.version);
        }
    }

    /// Records that the room's version has fallen, so the room has lost changes.
    pub(super) fn version_fell(&mut self, now: Instant) {
        self.other = Some(self.at.incarnation);
        self.gap_since.get_or_insert(now);
    }

    /// Returns `true` if this is the followed incarnation. Another one marks a possible loss.
    fn is_followed(&mut self, now: Instant, incarnation: u64) -> bool {
        if self.at.incarnation == 0 {
            self.at.incarnation = incarnation;
        }
        let is_followed = !self.is_other(incarnation);
        if !is_followed {
            self.other = Some(incarnation);
            self.gap_since.get_or_insert(now);
        }
        is_followed
    }

    fn check_gap(&mut self, now: Instant, version: u64) {
        self.newest = self.newest.max(version);
        let is_whole = self.newest <= self.at.version && self.other.is_none();
        self.gap_since = if is_whole { None } else { self.gap_since.or(Some(now)) };
    }

    /// Returns `true` if the room may have lost the followed state: since the last resync another
    /// incarnation was reported, or the version fell.
    pub(super) fn may_be_lost(&self) -> bool {
        self.other.is_some()
    }

    /// Returns `true` if the local clients need a resync: the state may be lost, a version is
    /// missing for 1 s, or over 64 runs of changes had to be held. The caller reports the request
    /// to [`ChangeSequencer::state_requested`] and the state to [`ChangeSequencer::resynced`].
    pub(super) fn needs_resync(&self, now: Instant) -> bool {
        let timeout = if self.may_be_lost() { Duration::ZERO } else { GAP_TIMEOUT };
        self.gap_since.is_some_and(|since| now.saturating_duration_since(since) >= timeout)
    }

    /// Records that the whole state was requested from the owner.
    pub(super) fn state_requested(&mut self) {
        self.at_request = (self.other, self.at.version);
    }

    /// Returns `true` if a loss was suspected when the resync was requested.
    pub(super) fn requested_as_lost(&self) -> bool {
        self.at_request.0.is_some()
    }

    /// Returns `true` if this is not the followed incarnation. `false` if there is none yet.
    pub(super) fn is_other(&self, incarnation: u64) -> bool {
        self.at.incarnation != 0 && self.at.incarnation != incarnation
    }

    /// Returns `true` if the owner answered with a lower version than was followed at the request,
    /// so it has lost changes. `false` for another incarnation, or if a loss was suspected before.
    pub(super) fn fell_to(&self, at: Stamp) -> bool {
        at.incarnation == self.at.incarnation && at.version < self.at_request.1 && !self.requested_as_lost()
    }

    /// Returns `true` if clients have a later state of the incarnation, and it has not fallen.
    pub(super) fn is_past(&self, at: Stamp) -> bool {
        at.incarnation == self.at.incarnation && at.version < self.at.version && !self.has_fallen()
    }

    fn has_fallen(&self) -> bool {
        self.other == Some(self.at.incarnation)
    }

    /// Records that the local clients received this state, which the owner had when it was
    /// [requested](Self::state_requested). Ends the gap; changes behind the state stay held.
    pub(super) fn resynced(&mut self, now: Instant, at: Stamp) {
        let is_lost = at.incarnation != self.at.incarnation || self.has_fallen();
        if is_lost {
            self.early.clear();
            self.newest = at.version;
        }
        if is_lost || at.version >= self.at.version {
            self.at = at;
            self.pending.clear();
            self.announced_at = Some(now);
        }
        // An incarnation reported after the request may be a later one.
        if self.other == self.at_request.0 || self.other == Some(at.incarnation) {
            self.other = None;
        }
        self.early.retain(|_, (end, _)| *end > at.version);
        self.gap_since = None;
        self.take_in(now, 0, Vec::new());
    }

    pub(super) fn pending(&self) -> impl Iterator<Item = &Change> {
        self.pending.iter().map(|(_, change)| change)
    }

    /// Returns `true` while changes are held because an earlier one is missing. A version known
    /// from [`ChangeSequencer::exists`] alone does not count.
    pub(super) fn misses_changes(&self) -> bool {
        !self.early.is_empty()
    }

    /// Takes the changes to announce. `None`: there are none, or the last announcement or resync is
    /// under 200 ms ago. [`RoomEvents::Prompt`] does not wait.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<Announcement> {
        let is_early = |last: Instant| !self.is_prompt && now.saturating_duration_since(last) < ANNOUNCE_INTERVAL;
        if self.pending.is_empty() || self.announced_at.is_some_and(is_early) {
            return None;
        }
        self.announced_at = Some(now);
        let mut seen = BTreeSet::new();
        let mut changes = std::mem::take(&mut self.pending);
        changes.reverse();
        changes.retain(|(_, change)| seen.insert(change.client().clone()));
        changes.reverse();
        Some(Announcement { version: self.at.version, changes })
    }

    /// Returns a time by which changes are due or a resync is needed; either can be so earlier.
    /// `None`: nothing is expected, or changes before the first announcement are due now.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let announce = self.announced_at.filter(|_| !self.pending.is_empty()).map(|last| last + ANNOUNCE_INTERVAL);
        let resync = self.gap_since.map(|since| since + GAP_TIMEOUT);
        announce.into_iter().chain(resync).min()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use signaling_protocol::ClientId;

    use super::*;
    use crate::{LeftReason, Member};

    fn joined(name: &str) -> Change {
        Change::Joined(Member { client: ClientId::new(name).unwrap(), data: None })
    }

    fn at(version: u64) -> Stamp {
        Stamp { incarnation: 1, version }
    }

    fn left(name: &str) -> Change {
        Change::Left { client: ClientId::new(name).unwrap(), reason: LeftReason::Left }
    }

    #[test]
    fn first_change_is_due_at_once_and_the_next_are_batched() {
        let (now, mut room) = (Instant::now(), ChangeSequencer::new(at(7), RoomEvents::Usual));
        room.changed(now, at(8), vec![joined("a")]);
        assert_eq!(room.take_due(now), Some(Announcement { version: 8, changes: vec![(8, joined("a"))] }));
        room.changed(now, at(9), vec![joined("b")]);
        room.changed(now, at(10), vec![left("b")]);
        room.changed(now, at(11), vec![joined("c")]);
        assert_eq!(room.take_due(now), None);
        assert_eq!(room.deadline(), Some(now + ANNOUNCE_INTERVAL));
        let announcement = Announcement { version: 11, changes: vec![(10, left("b")), (11, joined("c"))] };
        assert_eq!(room.take_due(now + ANNOUNCE_INTERVAL), Some(announcement));
        assert_eq!(room.deadline(), None);
    }

    #[test]
    fn missing_change_needs_a_resync_after_the_timeout() {
        let (now, mut room) = (Instant::now(), ChangeSequencer::new(at(7), RoomEvents::Usual));
        room.changed(now, at(9), vec![joined("b")]);
        assert_eq!((room.take_due(now), room.needs_resync(now)), (None, false));
        assert!(room.needs_resync(now + GAP_TIMEOUT));
        room.resynced(now + GAP_TIMEOUT, at(8));
        assert_eq!((room.needs_resync(now + GAP_TIMEOUT * 2), room.at()), (false, at(9)));
        let announced = Announcement { version: 9, changes: vec![(9, joined("b"))] };
        assert_eq!(room.take_due(now + GAP_TIMEOUT * 2), Some(announced));
    }

    #[test]
    fn runs_above_the_limit_are_dropped_until_the_resync() {
        let (now, mut room) = (Instant::now(), ChangeSequencer::new(at(0), RoomEvents::Usual));
        let newest = 2 * MAX_EARLY as u64;
        for version in 2..=newest {
            assert_eq!(room.needs_resync(now), version > MAX_EARLY as u64 + 2);
            room.changed(now, at(version), vec![joined(&format!("c{version}"))]);
        }
        assert_eq!(room.early.len(), MAX_EARLY);
        room.changed(now, at(1), vec![joined("c1")]);
        assert!(room.at() == at(1) && room.needs_resync(now), "the dropped runs are missing");
        room.state_requested();
        room.resynced(now, at(MAX_EARLY as u64));
        assert_eq!((room.at(), room.needs_resync(now + GAP_TIMEOUT)), (at(newest), false));
        let announced = room.take_due(now + ANNOUNCE_INTERVAL).unwrap();
        assert!(announced.changes.iter().map(|(version, _)| *version).eq(MAX_EARLY as u64 + 1..=newest));
    }

    #[test]
    fn version_without_its_change_is_a_gap() {
        let (now, mut room) = (Instant::now(), ChangeSequencer::new(at(7), RoomEvents::Usual));
        room.exists(now, at(7));
        assert_eq!(room.deadline(), None);
        room.exists(now, at(8));
        assert!(room.needs_resync(now + GAP_TIMEOUT));
        room.changed(now + GAP_TIMEOUT, at(8), vec![left("a")]);
        assert!(!room.needs_resync(now + GAP_TIMEOUT), "the change arrived late");
    }

    #[test]
    fn lost_room_needs_exactly_one_resync() {
        let (now, mut room) = (Instant::now(), ChangeSequencer::new(at(7), RoomEvents::Usual));
        room.changed(now, at(9), vec![joined("early")]);
        let new = |version| Stamp { incarnation: 2, version };
        room.changed(now, new(6), vec![joined("b")]);
        assert!(room.needs_resync(now) && room.may_be_lost());
        assert_eq!(room.take_due(now), None, "changes of another incarnation are not announced");
        room.state_requested();
        room.exists(now, new(6));
        room.resynced(now, new(6));
        assert_eq!((room.at(), room.needs_resync(now + GAP_TIMEOUT), room.deadline()), (new(6), false, None));
        room.changed(now, new(7), vec![joined("c")]);
        let announced = room.take_due(now + ANNOUNCE_INTERVAL);
        assert_eq!(announced, Some(Announcement { version: 7, changes: vec![(7, joined("c"))] }));
    }

    #[test]
    fn former_incarnation_costs_one_resync() {
        let (now, mut room) = (Instant::now(), ChangeSequencer::new(at(7), RoomEvents::Usual));
        room.exists(now, Stamp { incarnation: 5, version: 3 });
        room.state_requested();
        room.resynced(now, at(7));
        assert!(!room.may_be_lost() && !room.needs_resync(now + GAP_TIMEOUT));
    }

    #[test]
    fn loss_reported_after_the_request_needs_a_resync() {
        let (now, mut room) = (Instant::now(), ChangeSequencer::new(at(7), RoomEvents::Usual));
        room.state_requested();
        room.exists(now, Stamp { incarnation: 2, version: 3 });
        room.resynced(now, at(8));
        assert!(room.may_be_lost() && room.needs_resync(now + GAP_TIMEOUT));
    }

    #[test]
    fn lower_version_of_the_owner_is_a_loss() {
        let (now, mut room) = (Instant::now(), ChangeSequencer::new(at(7), RoomEvents::Usual));
        room.state_requested();
        assert!(room.fell_to(at(6)) && !room.fell_to(at(7)));
        room.version_fell(now);
        assert!(room.needs_resync(now));
        room.state_requested();
        room.resynced(now, at(6));
        assert_eq!((room.at(), room.needs_resync(now + GAP_TIMEOUT)), (at(6), false));
    }

    proptest! {
        #[test]
        fn changes_are_announced_once_in_order_however_they_arrive(
            sizes in prop::collection::vec(1..4_usize, 1..30),
            order in prop::collection::vec(any::<prop::sample::Index>(), 0..60),
        ) {
            let (mut now, mut room) = (Instant::now(), ChangeSequencer::new(at(0), RoomEvents::Usual));
            let mut version = 0;
            let mut runs = Vec::new();
            for size in sizes {
                let changes: Vec<_> = (0..size).map(|at| joined(&format!("c{}", version + at))).collect();
                version += size;
                runs.push((version as u64, changes));
            }
            let mut announced = Vec::new();
            let shuffled: Vec<_> = order.iter().map(|at| at.get(&runs).clone()).collect();
            // Adds each run once more, so that none is missing, and then again as duplicates.
            for (version, changes) in shuffled.into_iter().chain(runs.clone()).chain(runs.clone()) {
                room.changed(now, at(version), changes);
                now += ANNOUNCE_INTERVAL;
                let due = room.take_due(now).into_iter().flat_map(|due| due.changes);
                announced.extend(due.map(|(_, change)| change));
            }
            let all: Vec<_> = runs.into_iter().flat_map(|(_, changes)| changes).collect();
            prop_assert_eq!(announced, all);
            prop_assert!(!room.needs_resync(now + GAP_TIMEOUT));
        }

        #[test]
        fn each_change_is_announced_or_in_a_state_above_the_limit(
            order in Just((1..=4 * MAX_EARLY as u64).collect::<Vec<_>>()).prop_shuffle(),
            lost in prop::collection::btree_set(1..=4 * MAX_EARLY as u64, 0..4),
            answer_after in 1..3 * MAX_EARLY,
        ) {
            let (mut now, mut room) = (Instant::now(), ChangeSequencer::new(at(0), RoomEvents::Prompt));
            let (newest, mut known, mut exists) = (order.len() as u64, 0, 0);
            // The state that was requested, and the number of runs until its answer.
            let mut request = None;
            let waits = std::iter::repeat_n(None, 4 * order.len());
            for version in order.iter().map(Some).chain(waits) {
                match version {
                    Some(version) if !lost.contains(version) => {
                        exists = exists.max(*version);
                        room.changed(now, at(*version), vec![joined(&format!("c{version}"))]);
                    }
                    Some(_) => {}
                    None => {
                        exists = newest;
                        room.exists(now, at(newest));
                        now += GAP_TIMEOUT;
                    }
                }
                prop_assert!(room.early.len() <= MAX_EARLY);
                for (version, _) in room.take_due(now).into_iter().flat_map(|due| due.changes) {
                    prop_assert_eq!(version, known + 1);
                    known = version;
                }
                if request.is_none() && room.needs_resync(now) {
                    room.state_requested();
                    request = Some((exists, answer_after));
                }
                match request.take() {
                    Some((state, 0)) if !room.is_past(at(state)) => {
                        room.resynced(now, at(state));
                        known = state;
                    }
                    Some((_, 0)) | None => {}
                    Some((state, left)) => request = Some((state, left - 1)),
                }
            }
            prop_assert_eq!((known, room.at()), (newest, at(newest)));
            prop_assert!(!room.needs_resync(now + GAP_TIMEOUT));
        }
    }
}
