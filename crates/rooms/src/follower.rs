//! What one node tells its clients of a room: changes in the order of versions, gathered, without a gap.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use signaling_protocol::ClientId;

use crate::Change;

/// Members are told of changes no more often, and at once if nothing was told for so long.
const TELL_EVERY: Duration = Duration::from_millis(200);
/// A missing version may still be on its way from the node that made it; after so long it is not waited for.
const PATIENCE: Duration = Duration::from_secs(1);
/// Most runs of changes that wait for an earlier one.
const MAX_EARLY: usize = 64;

/// What is to be told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct News {
    /// The room's version after these changes.
    pub version: u64,
    /// Of each client the last change, in order, each with the version that it made.
    pub changes: Vec<(u64, Change)>,
}

/// Follows one room. Changes come from whichever node made them, in any order, and more than once; some never come, because
/// their node died first.
#[derive(Debug)]
pub struct Follower {
    /// All changes up to here were told, or are `pending`.
    version: u64,
    pending: Vec<(u64, Change)>,
    /// Runs of changes behind a gap, by the version that they start from.
    early: BTreeMap<u64, (u64, Vec<Change>)>,
    /// The highest version that is known to exist.
    newest: u64,
    gap_since: Option<Instant>,
    told: Option<Instant>,
}

impl Follower {
    /// Follows a room whose clients here know its state at `version`.
    #[must_use]
    pub fn new(version: u64) -> Self {
        Self { version, pending: Vec::new(), early: BTreeMap::new(), newest: version, gap_since: None, told: None }
    }

    /// The version that the clients here know, or are about to be told.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Takes in changes, the last of which made `version`.
    pub fn changed(&mut self, now: Instant, version: u64, changes: Vec<Change>) {
        let start = version.saturating_sub(changes.len() as u64);
        if version > self.version {
            let longest = self.early.entry(start).or_default();
            if longest.0 < version {
                *longest = (version, changes);
            }
        }
        while let Some(first) = self.early.first_entry().filter(|first| *first.key() <= self.version) {
            let (start, (end, changes)) = first.remove_entry();
            // Its front may be known already.
            let known = usize::try_from(self.version - start).unwrap_or(usize::MAX);
            if end > self.version {
                self.pending.extend((start + 1..).zip(changes).skip(known));
                self.version = end;
            }
        }
        self.exists(now, version);
        if self.early.len() > MAX_EARLY {
            self.gap_since = now.checked_sub(PATIENCE).or(self.gap_since);
        }
    }

    /// The store says that the room has come to `version`.
    pub fn exists(&mut self, now: Instant, version: u64) {
        self.newest = self.newest.max(version);
        self.gap_since = if self.newest > self.version { self.gap_since.or(Some(now)) } else { None };
    }

    /// Whether a version is missing for so long that the clients here must be given the whole state, and [`Follower::healed`] told.
    #[must_use]
    pub fn must_heal(&self, now: Instant) -> bool {
        self.gap_since.is_some_and(|since| now.saturating_duration_since(since) >= PATIENCE)
    }

    /// The clients here have been given the whole state at `version`.
    pub fn healed(&mut self, now: Instant, version: u64) {
        if version >= self.version {
            self.version = version;
            self.pending.clear();
            self.told = Some(now);
        }
        self.early.retain(|_, (end, _)| *end > version);
        self.gap_since = None;
        self.changed(now, 0, Vec::new());
        self.exists(now, self.newest);
    }

    /// Takes what is to be told now.
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
        Some(News { version: self.version, changes })
    }

    /// When to look again, if nothing comes in before.
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

    fn left(name: &str) -> Change {
        Change::Left { client: ClientId::new(name).unwrap(), reason: Reason::Left }
    }

    #[test]
    fn the_first_change_is_told_at_once_and_the_next_are_gathered() {
        let (now, mut room) = (Instant::now(), Follower::new(7));
        room.changed(now, 8, vec![joined("a")]);
        assert_eq!(room.take_due(now), Some(News { version: 8, changes: vec![(8, joined("a"))] }));
        room.changed(now, 9, vec![joined("b")]);
        room.changed(now, 10, vec![left("b")]);
        room.changed(now, 11, vec![joined("c")]);
        assert_eq!(room.take_due(now), None);
        assert_eq!(room.deadline(), Some(now + TELL_EVERY));
        let news = News { version: 11, changes: vec![(10, left("b")), (11, joined("c"))] };
        assert_eq!(room.take_due(now + TELL_EVERY), Some(news));
        assert_eq!(room.deadline(), None);
    }

    #[test]
    fn a_change_that_never_comes_is_missed_after_a_while_and_the_whole_state_heals_it() {
        let (now, mut room) = (Instant::now(), Follower::new(7));
        room.changed(now, 9, vec![joined("b")]);
        assert_eq!((room.take_due(now), room.must_heal(now)), (None, false));
        assert!(room.must_heal(now + PATIENCE));
        room.healed(now + PATIENCE, 8);
        assert_eq!((room.must_heal(now + PATIENCE * 2), room.version()), (false, 9));
        assert_eq!(room.take_due(now + PATIENCE * 2), Some(News { version: 9, changes: vec![(9, joined("b"))] }));
    }

    #[test]
    fn a_version_that_only_the_store_knows_is_a_gap_too() {
        let (now, mut room) = (Instant::now(), Follower::new(7));
        room.exists(now, 7);
        assert_eq!(room.deadline(), None);
        room.exists(now, 8);
        assert!(room.must_heal(now + PATIENCE));
        room.changed(now + PATIENCE, 8, vec![left("a")]);
        assert!(!room.must_heal(now + PATIENCE), "it came after all");
    }

    proptest! {
        #[test]
        fn however_changes_come_each_is_told_once_and_in_order(
            sizes in prop::collection::vec(1..4_usize, 1..30),
            order in prop::collection::vec(any::<prop::sample::Index>(), 0..60),
        ) {
            let (mut now, mut room) = (Instant::now(), Follower::new(0));
            let mut version = 0;
            let mut runs = Vec::new();
            for size in sizes {
                let changes: Vec<_> = (0..size).map(|at| joined(&format!("c{}", version + at))).collect();
                version += size;
                runs.push((version as u64, changes));
            }
            let mut told = Vec::new();
            let shuffled: Vec<_> = order.iter().map(|at| at.get(&runs).clone()).collect();
            // Then those that were not drawn, and all of them once more.
            for (version, changes) in shuffled.into_iter().chain(runs.clone()).chain(runs.clone()) {
                room.changed(now, version, changes);
                now += TELL_EVERY;
                told.extend(room.take_due(now).into_iter().flat_map(|news| news.changes).map(|(_, change)| change));
            }
            let all: Vec<_> = runs.into_iter().flat_map(|(_, changes)| changes).collect();
            prop_assert_eq!(told, all);
            prop_assert!(!room.must_heal(now + PATIENCE));
        }
    }
}
