//! Ids of a reliable client's delivered signals, which its session keeps when its socket breaks.
//!
//! An `ack` is lost if the sender's edge crashes before it passes the `ack` on. The client then
//! resumes its session and sends the signal again. If the recipient's edge crashed too, its new
//! edge has no record of the signal, and may have written a later one. So the sender's node has the
//! record. `directory` adds ids, `request` reads them, and `linger` sends them to other nodes.

/// Maximum runs of ids. A client numbers its requests consecutively, so one run is typical.
const MAX_RUNS: usize = 8;

/// The latest delivered ids of one session, as ascending runs without a gap.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct DeliveredIds {
    /// First and last id of each run, ascending. Runs do not touch each other.
    runs: Vec<(u64, u64)>,
}

impl DeliveredIds {
    /// Creates the record from the last 8 runs of another node. Malformed ones are left out.
    pub(super) fn from_runs(runs: &[(u64, u64)]) -> Self {
        let mut ids = Self::default();
        for &(first, last) in runs.iter().rev().take(MAX_RUNS).rev() {
            let follows = ids.runs.last().is_none_or(|&(_, earlier)| earlier.saturating_add(1) < first);
            if first <= last && follows {
                ids.runs.push((first, last));
            }
        }
        ids
    }

    /// Returns the first and the last id of each run, ascending.
    pub(super) fn runs(&self) -> &[(u64, u64)] {
        &self.runs
    }

    /// Adds an id. Beyond 8 runs it forgets the lowest one.
    pub(super) fn insert(&mut self, id: u64) {
        // The runs from `at` to `end` contain the id or touch it. They become one.
        let at = self.runs.partition_point(|&(_, last)| last.saturating_add(1) < id);
        let end = self.runs.partition_point(|&(first, _)| first <= id.saturating_add(1));
        if at < end {
            let touched = self.runs.drain(at..end);
            let joined = touched.fold((id, id), |(first, last), run| (first.min(run.0), last.max(run.1)));
            self.runs.insert(at, joined);
        } else if self.runs.len() < MAX_RUNS {
            self.runs.insert(at, (id, id));
        } else if at > 0 {
            self.runs.remove(0);
            self.runs.insert(at - 1, (id, id));
        }
    }

    /// Adds the ids of another record. Beyond 8 runs it forgets the lowest ones.
    pub(super) fn merge(&mut self, other: &Self) {
        let mut runs = [&self.runs[..], &other.runs].concat();
        runs.sort_unstable();
        let mut merged: Vec<(u64, u64)> = Vec::new();
        for (first, last) in runs {
            match merged.last_mut().filter(|earlier| first <= earlier.1.saturating_add(1)) {
                Some(earlier) => earlier.1 = earlier.1.max(last),
                None => merged.push((first, last)),
            }
        }
        *self = Self::from_runs(&merged);
    }

    /// Returns `true` if the id was delivered. `false` if not, or if its run is forgotten.
    pub(super) fn contains(&self, id: u64) -> bool {
        let at = self.runs.partition_point(|&(_, last)| last < id);
        self.runs.get(at).is_some_and(|&(first, _)| first <= id)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn run_grows_joins_and_is_forgotten_from_the_lowest() {
        let mut ids = DeliveredIds::default();
        for id in [1, 2, 4, 5, 3, 3, 1] {
            ids.insert(id);
        }
        assert_eq!(ids.runs(), [(1, 5)]);
        for id in 1..=8 {
            ids.insert(10 * id);
        }
        assert_eq!((ids.runs().len(), ids.contains(3), ids.contains(10), ids.contains(80)), (8, false, true, true));
    }

    proptest! {
        #[test]
        fn merged_records_contain_the_ids_of_both(ids in prop::collection::vec((0_u64..30, any::<bool>()), 0..10)) {
            let mut records = [DeliveredIds::default(), DeliveredIds::default()];
            let mut inserted = DeliveredIds::default();
            for (id, is_second) in ids {
                records[usize::from(is_second)].insert(id);
                inserted.insert(id);
            }
            let [mut first, second] = records;
            first.merge(&second);
            prop_assert!(inserted.runs().len() == MAX_RUNS || first == inserted, "{first:?} {inserted:?}");
        }

        #[test]
        fn only_inserted_ids_are_contained(inserted in prop::collection::vec(0_u64..40, 0..60)) {
            let mut ids = DeliveredIds::default();
            inserted.iter().for_each(|id| ids.insert(*id));
            for id in 0..40 {
                prop_assert!(!ids.contains(id) || inserted.contains(&id));
            }
            prop_assert!(ids.runs().windows(2).all(|pair| pair[0].1 + 1 < pair[1].0), "{ids:?}");
            prop_assert_eq!(&DeliveredIds::from_runs(ids.runs()), &ids);
        }
    }
}
