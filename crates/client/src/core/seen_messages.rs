//! Deduplication of received messages, for `Core`.

use std::collections::{HashMap, VecDeque};

use super::Ms;
use crate::rules::{MAX_NAMES, MAX_SAVED_NAMES, NAME_LIFETIME};

/// Names (`m`) of received messages, kept for a time after their latest arrival.
#[derive(Debug, Default)]
pub(crate) struct SeenMessages {
    seen_at_by_name: HashMap<String, Ms>,
    /// In order of arrival. If a name arrived twice, its earlier entry is void.
    order: VecDeque<(Ms, String)>,
}

impl SeenMessages {
    /// Records the arrival of a name. Returns `false` for a duplicate.
    pub(crate) fn insert(&mut self, now: Ms, name: &str) -> bool {
        self.forget(now);
        self.order.push_back((now, name.to_owned()));
        self.seen_at_by_name.insert(name.to_owned(), now).is_none()
    }

    fn forget(&mut self, now: Ms) {
        while let Some((seen, _)) = self.order.front()
            && (self.order.len() >= MAX_NAMES || now.saturating_sub(*seen) >= NAME_LIFETIME)
            && let Some((seen, name)) = self.order.pop_front()
        {
            if self.seen_at_by_name.get(&name) == Some(&seen) {
                self.seen_at_by_name.remove(&name);
            }
        }
    }

    /// Returns the latest names, at most 4,096, oldest first, for a saved session.
    pub(crate) fn latest(&self) -> Vec<String> {
        let skipped = self.order.len().saturating_sub(MAX_SAVED_NAMES);
        self.order.iter().skip(skipped).map(|(_, name)| name.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicate_extends_the_lifetime_of_a_name() {
        let mut names = SeenMessages::default();
        let seen =
            [0, NAME_LIFETIME - 1, 2 * NAME_LIFETIME - 2, 3 * NAME_LIFETIME - 2].map(|now| names.insert(now, "a"));
        assert_eq!(seen, [true, false, false, true]);
    }

    #[test]
    fn oldest_names_are_dropped_at_the_limit() {
        let mut names = SeenMessages::default();
        for number in 0..=MAX_NAMES {
            assert!(names.insert(0, &number.to_string()));
        }
        assert_eq!((names.order.len(), names.seen_at_by_name.len()), (MAX_NAMES, MAX_NAMES));
        assert!(names.insert(0, "0") && !names.insert(0, &MAX_NAMES.to_string()));
        assert_eq!(names.latest().len(), MAX_SAVED_NAMES);
    }
}
