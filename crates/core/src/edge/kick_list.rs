//! Clients that operators have kicked. The cores of edges and nodes keep a list each.

use std::borrow::Borrow;
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;

use signaling_protocol::ids::check_name;
use signaling_wire::grant::MAX_SUBJECT;

/// Maximum difference of the servers' clocks, in seconds.
const CLOCKS_DIFFER_S: u64 = 60;

/// Name of a kick: the id of a client, or the subject of tokens, which can have any characters.
/// Only the first 255 characters count.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KickName(Arc<str>);

impl KickName {
    /// Returns the name for a client id or a subject.
    pub fn new(text: &str) -> Self {
        let end = text.char_indices().nth(MAX_SUBJECT).map_or(text.len(), |(at, _)| at);
        Self(text.get(..end).unwrap_or(text).into())
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for KickName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// Quotes and escapes a subject that is no name: it may contain control characters.
impl fmt::Display for KickName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if check_name(&self.0).is_ok() { f.write_str(&self.0) } else { write!(f, "{:?}", self.0) }
    }
}

/// The time of each client's latest kick, in seconds since 1970. Edges check tokens against it.
/// Nodes keep it for edges that connect later.
#[derive(Debug, Default)]
pub struct KickList {
    at_by_name: HashMap<KickName, u64>,
    by_age: BTreeSet<(u64, KickName)>,
    forgotten: u64,
    changes: u64,
}

impl KickList {
    /// Maximum clients in the list. A later kick of one more client replaces the oldest kick.
    pub const MAX_CLIENTS: usize = 10_000;

    /// Returns the latest plausible time of a kick at `now`, both in seconds since 1970. A later
    /// kick comes from a wrong clock, and would reject all tokens until then.
    pub fn latest_believable(now: u64) -> u64 {
        now + CLOCKS_DIFFER_S
    }

    /// Adds a kick at `at`, in seconds since 1970. Returns `false` if a kick of the client at `at`
    /// or later is in the list, or if a full list has no earlier kick.
    pub fn add(&mut self, name: &KickName, at: u64) -> bool {
        if let Some(&known) = self.at_by_name.get(name) {
            if known >= at {
                return false;
            }
            self.by_age.remove(&(known, name.clone()));
        } else if self.by_age.len() >= Self::MAX_CLIENTS {
            if self.by_age.first().is_some_and(|(oldest, _)| *oldest >= at) {
                return false;
            }
            if let Some((_, oldest)) = self.by_age.pop_first() {
                self.at_by_name.remove(&oldest);
                self.forgotten += 1;
            }
        }
        self.at_by_name.insert(name.clone(), at);
        self.by_age.insert((at, name.clone()));
        self.changes += 1;
        true
    }

    /// Returns `true` if a token of the client issued at `issued` (Unix seconds; 0 without a time)
    /// is not newer than its kick. `false` without a kick in the list.
    pub fn bars(&self, name: &str, issued: u64) -> bool {
        self.at_by_name.get(name).is_some_and(|at| issued <= *at)
    }

    /// Returns all kicks with their times in seconds since 1970, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = (&KickName, u64)> {
        self.by_age.iter().map(|(at, name)| (name, *at))
    }

    /// Returns the number of changes since the start.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Returns the number of clients in the list, and of kicks forgotten for lack of room since the
    /// start.
    pub fn counts(&self) -> (usize, u64) {
        (self.by_age.len(), self.forgotten)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_of_a_kick_has_255_characters() {
        let mut kicks = KickList::default();
        assert!(kicks.add(&KickName::new(&"ä".repeat(300)), 1));
        assert!(kicks.bars(KickName::new(&"ä".repeat(256)).as_str(), 1) && !kicks.bars(&"ä".repeat(254), 1));
        let shown = ["anna", "a\nb"].map(|name| KickName::new(name).to_string());
        assert_eq!(shown, ["anna", "\"a\\nb\""]);
    }

    #[test]
    fn oldest_kick_is_forgotten_when_the_list_is_full() {
        let mut kicks = KickList::default();
        for n in 0..=KickList::MAX_CLIENTS {
            assert!(kicks.add(&KickName::new(&format!("c{n}")), 1 + n as u64));
        }
        assert_eq!(kicks.counts(), (KickList::MAX_CLIENTS, 1));
        assert!(!kicks.bars("c0", 0) && kicks.bars("c1", 0));
        assert!(!kicks.add(&KickName::new("c0"), 1), "it is older than all kicks in the list");
        assert_eq!(kicks.counts(), (KickList::MAX_CLIENTS, 1), "a refused kick replaces none");
        assert!(kicks.add(&KickName::new("c1"), 1_000_000), "a known client needs no further place");
        assert_eq!(kicks.counts(), (KickList::MAX_CLIENTS, 1));
    }
}
