//! Changes of one room in version order, batched and without a gap. A node announces them to its
//! clients.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use signaling_protocol::ClientId;

use crate::{Change, Stamp};

/// Minimum interval between announcements. After a longer pause a change is announced at once.
const TELL_EVERY: Duration = Duration::from_millis(200);
/// Time that a missing version may be late from the node that made it.
const PATIENCE: Duration = Duration::from_secs(1);
/// Maximum runs of changes that are held for an earlier one.
const MAX_EARLY: usize = 64;

/// Changes to announce.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct News {
    /// The room's version after these changes.
    pub version: u64,
    /// The last change of each client, in order, each with the version that it made.
    pub changes: Vec<(u64, Change)>,
}

/// Sequencer of one room's changes. Nodes send changes in any order and more than once. Some are
/// missing, because their node died or the store lost them.
#[derive(Debug)]
pub struct ChangeSequencer {
    /// All changes up to here were announced, or are `pending`.
    at: Stamp,
    pending: Vec<(u64, Change)>,
    /// Runs of changes behind a gap, by the version that they start from.
    early: BTreeMap<u64, (u64, Vec<Change>)>,
    /// The highest version known to exist.
    newest: u64,
    /// Another incarnation that was reported, or the own one if its version fell.
    other: Option<u64>,
    /// Values of `other` and of the followed version when the last resync was requested.
    asked: (Option<u64>, u64),
    gap_since: Option<Instant>,
    told: Option<Instant>,
}

impl ChangeSequencer {
    /// Creates a sequencer for a room whose local clients have this state.
    #[must_use]
    pub fn new(at: Stamp) -> Self {
        Self {
            at,
            pending: Vec::new(),
            early: BTreeMap::new(),
            newest: at.version,
            other: None,
            asked: (None, 0),
            gap_since: None,
            told: None,
        }
    }

    /// Returns the state that the local clients have, including pending changes.
    #[must_use]
    pub fn at(&self) -> Stamp {
        self.at
    }

    /// Returns the version of that state.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.at.version
    }

    /// Adds changes, the last of which led to the state `at`.
    pub fn changed(&mut self, now: Instant, at: Stamp, changes: Vec<Change>) {
        if self.hears_of(now, at.incarnation) {
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
        self.look_for_gap(now, version);
        if self.early.len() > MAX_EARLY {
            self.gap_since = now.checked_sub(PATIENCE).or(self.gap_since);
        }
    }

    /// Records that the room has reached this state.
    pub fn exists(&mut self, now: Instant, at: Stamp) {
        if self.hears_of(now, at.incarnation) {
            self.look_for_gap(now, at.version);
        }
    }

    /// Records that the store's version has fallen, so the store has lost changes.
    pub fn fell(&mut self, now: Instant) {
        self.other = Some(self.at.incarnation);
        self.gap_since.get_or_insert(now);
    }

    /// Returns `true` if this is the followed incarnation. Any other one means that the store may
    /// have lost changes.
    fn hears_of(&mut self, now: Instant, incarnation: u64) -> bool {
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

    fn look_for_gap(&mut self, now: Instant, version: u64) {
        self.newest = self.newest.max(version);
        let is_whole = self.newest <= self.at.version && self.other.is_none();
        self.gap_since = if is_whole { None } else { self.gap_since.or(Some(now)) };
    }

    /// Returns `true` if the store may have lost the followed state.
    #[must_use]
    pub fn may_be_lost(&self) -> bool {
        self.other.is_some()
    }

    /// Returns `true` if the local clients need a resync, because a version was lost or is missing
    /// for too long. The caller reports the request to [`ChangeSequencer::asked`] and the received
    /// state to [`ChangeSequencer::healed`].
    #[must_use]
    pub fn must_heal(&self, now: Instant) -> bool {
        let patience = if self.may_be_lost() { Duration::ZERO } else { PATIENCE };
        self.gap_since.is_some_and(|since| now.saturating_duration_since(since) >= patience)
    }

    /// Records that the whole state was requested from the store.
    pub fn asked(&mut self) {
        self.asked = (self.other, self.at.version);
    }

    /// Returns `true` if a loss was suspected when the resync was requested.
    #[must_use]
    pub fn asked_as_lost(&self) -> bool {
        self.asked.0.is_some()
    }

    /// Returns `true` if this is another incarnation than the followed one.
    #[must_use]
    pub fn is_other(&self, incarnation: u64) -> bool {
        self.at.incarnation != 0 && self.at.incarnation != incarnation
    }

    /// Returns `true` if the store answered with a lower version than was followed at the request,
    /// so it has lost changes.
    #[must_use]
    pub fn fell_to(&self, at: Stamp) -> bool {
        at.incarnation == self.at.incarnation && at.version < self.asked.1 && !self.asked_as_lost()
    }

    /// Returns `true` if the local clients have a later state than this one, and it is still valid.
    #[must_use]
    pub fn is_past(&self, at: Stamp) -> bool {
        at.incarnation == self.at.incarnation && at.version < self.at.version && !self.has_fallen()
    }

    fn has_fallen(&self) -> bool {
        self.other == Some(self.at.incarnation)
    }

    /// Records that the local clients received this state, which the store had when it was
    /// [asked](ChangeSequencer::asked).
    pub fn healed(&mut self, now: Instant, at: Stamp) {
        let is_lost = at.incarnation != self.at.incarnation || self.has_fallen();
        if is_lost {
            self.early.clear();
            self.newest = at.version;
        }
        if is_lost || at.version >= self.at.version {
            self.at = at;
            self.pending.clear();
            self.told = Some(now);
        }
        // An incarnation reported after the request may be a later one.
        if self.other == self.asked.0 || self.other == Some(at.incarnation) {
            self.other = None;
        }
        self.early.retain(|_, (end, _)| *end > at.version);
        self.gap_since = None;
        self.take_in(now, 0, Vec::new());
    }

    /// Returns the changes to announce, in order.
    pub fn pending(&self) -> impl Iterator<Item = &Change> {
        self.pending.iter().map(|(_, change)| change)
    }

    /// Returns `true` while changes are held behind a missing one.
    #[must_use]
    pub fn misses_changes(&self) -> bool {
        !self.early.is_empty()
    }

    /// Takes the changes that are due for announcement.
    pub fn take_due(&mut self, now: Instant) -> Option<News> {
        if self.pending.is_empty() || self.told.is_some_and(|told| now.saturating_duration_since(told) < TELL_EVERY) {
            return None;
        }
        self.told = Some(now);
        let mut seen = BTreeSet::new();
        let mut changes = std::mem::take(&mut self.pending);
        changes.reverse();
        changes.retain(|(_, change)| seen.insert(who(change).clone()));
        changes.reverse();
        Some(News { version: self.at.version, changes })
    }

    /// Returns the time of the next check if no change arrives before.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        let tell = self.told.filter(|_| !self.pending.is_empty()).map(|told| told + TELL_EVERY);
        let heal = self.gap_since.map(|since| since + PATIENCE);
        tell.into_iter().chain(heal).min()
    }
}

fn who(change: &Change) -> &ClientId {
    match change {
        Change::Joined(member) => &member.client,
        Change::Left { client, .. } => client,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Member, Reason};

    fn joined(name: &str) -> Change {
        Change::Joined(Member { client: ClientId::new(name).unwrap(), data: None })
    }

    fn at(version: u64) -> Stamp {
        Stamp { incarnation: 1, version }
    }

    fn left(name: &str) -> Change {
        Change::Left { client: ClientId::new(name).unwrap(), reason: Reason::Left }
    }

    #[test]
    fn the_first_change_is_told_at_once_and_the_next_are_gathered() {
        let (now, mut room) = (Instant::now(), ChangeSequencer::new(at(7)));
        room.changed(now, at(8), vec![joined("a")]);
        assert_eq!(room.take_due(now), Some(News { version: 8, changes: vec![(8, joined("a"))] }));
        room.changed(now, at(9), vec![joined("b")]);
        room.changed(now, at(10), vec![left("b")]);
        room.changed(now, at(11), vec![joined("c")]);
        assert_eq!(room.take_due(now), None);
        assert_eq!(room.deadline(), Some(now + TELL_EVERY));
        let news = News { version: 11, changes: vec![(10, left("b")), (11, joined("c"))] };
        assert_eq!(room.take_due(now + TELL_EVERY), Some(news));
        assert_eq!(room.deadline(), None);
    }

    #[test]
    fn a_change_that_never_comes_is_missed_after_a_while_and_the_whole_state_heals_it() {
        let (now, mut room) = (Instant::now(), ChangeSequencer::new(at(7)));
        room.changed(now, at(9), vec![joined("b")]);
        assert_eq!((room.take_due(now), room.must_heal(now)), (None, false));
        assert!(room.must_heal(now + PATIENCE));
        room.healed(now + PATIENCE, at(8));
        assert_eq!((room.must_heal(now + PATIENCE * 2), room.version()), (false, 9));
        assert_eq!(room.take_due(now + PATIENCE * 2), Some(News { version: 9, changes: vec![(9, joined("b"))] }));
    }

    #[test]
    fn a_version_that_only_the_store_knows_is_a_gap_too() {
        let (now, mut room) = (Instant::now(), ChangeSequencer::new(at(7)));
        room.exists(now, at(7));
        assert_eq!(room.deadline(), None);
        room.exists(now, at(8));
        assert!(room.must_heal(now + PATIENCE));
        room.changed(now + PATIENCE, at(8), vec![left("a")]);
        assert!(!room.must_heal(now + PATIENCE), "it came after all");
    }

    #[test]
    fn a_lost_store_is_resynchronised_exactly_once() {
        let (now, mut room) = (Instant::now(), ChangeSequencer::new(at(7)));
        room.changed(now, at(9), vec![joined("early")]);
        let new = |version| Stamp { incarnation: 2, version };
        room.changed(now, new(6), vec![joined("b")]);
        assert!(room.must_heal(now) && room.may_be_lost());
        assert_eq!(room.take_due(now), None, "what another incarnation has is no change of this one");
        room.asked();
        room.exists(now, new(6));
        room.healed(now, new(6));
        assert_eq!((room.at(), room.must_heal(now + PATIENCE), room.deadline()), (new(6), false, None));
        room.changed(now, new(7), vec![joined("c")]);
        let told = room.take_due(now + TELL_EVERY);
        assert_eq!(told, Some(News { version: 7, changes: vec![(7, joined("c"))] }));
    }

    #[test]
    fn word_of_a_former_incarnation_costs_one_question() {
        let (now, mut room) = (Instant::now(), ChangeSequencer::new(at(7)));
        room.exists(now, Stamp { incarnation: 5, version: 3 });
        room.asked();
        room.healed(now, at(7));
        assert!(!room.may_be_lost() && !room.must_heal(now + PATIENCE));
    }

    #[test]
    fn a_loss_heard_of_behind_the_question_is_asked_about() {
        let (now, mut room) = (Instant::now(), ChangeSequencer::new(at(7)));
        room.asked();
        room.exists(now, Stamp { incarnation: 2, version: 3 });
        room.healed(now, at(8));
        assert!(room.may_be_lost() && room.must_heal(now + PATIENCE));
    }

    #[test]
    fn a_version_that_falls_is_a_loss() {
        let (now, mut room) = (Instant::now(), ChangeSequencer::new(at(7)));
        room.asked();
        assert!(room.fell_to(at(6)) && !room.fell_to(at(7)));
        room.fell(now);
        assert!(room.must_heal(now));
        room.asked();
        room.healed(now, at(6));
        assert_eq!((room.at(), room.must_heal(now + PATIENCE)), (at(6), false));
    }

    proptest! {
        #[test]
        fn however_changes_come_each_is_told_once_and_in_order(
            sizes in prop::collection::vec(1..4_usize, 1..30),
            order in prop::collection::vec(any::<prop::sample::Index>(), 0..60),
        ) {
            let (mut now, mut room) = (Instant::now(), ChangeSequencer::new(at(0)));
            let mut version = 0;
            let mut runs = Vec::new();
            for size in sizes {
                let changes: Vec<_> = (0..size).map(|at| joined(&format!("c{}", version + at))).collect();
                version += size;
                runs.push((version as u64, changes));
            }
            let mut told = Vec::new();
            let shuffled: Vec<_> = order.iter().map(|at| at.get(&runs).clone()).collect();
            // Adds each run once more, so that none is missing, and then again as duplicates.
            for (version, changes) in shuffled.into_iter().chain(runs.clone()).chain(runs.clone()) {
                room.changed(now, at(version), changes);
                now += TELL_EVERY;
                told.extend(room.take_due(now).into_iter().flat_map(|news| news.changes).map(|(_, change)| change));
            }
            let all: Vec<_> = runs.into_iter().flat_map(|(_, changes)| changes).collect();
            prop_assert_eq!(told, all);
            prop_assert!(!room.must_heal(now + PATIENCE));
        }
    }
}
