//! Numbers of clients handed off between each pair of nodes, for the balancer's metrics.

use std::collections::BTreeMap;

/// Maximum pairs of nodes: all pairs of 32 nodes. One more pair restarts the counts.
const MAX_PAIRS: usize = 1_024;

/// Clients handed off from node to node since the start, or since a 1,025th pair restarted them.
#[derive(Debug, Default)]
pub struct HandoffCounts {
    clients_by_end: BTreeMap<Box<str>, BTreeMap<Box<str>, u64>>,
    pairs: usize,
}

impl HandoffCounts {
    /// Counts the handoff of one session from node `from` to node `to`.
    pub fn record(&mut self, from: &str, to: &str) {
        if let Some(clients) = self.clients_by_end.get_mut(from).and_then(|ends| ends.get_mut(to)) {
            *clients += 1;
            return;
        }
        if self.pairs == MAX_PAIRS {
            *self = Self::default();
        }
        self.pairs += 1;
        self.clients_by_end.entry(from.into()).or_default().insert(to.into(), 1);
    }

    /// Returns the counts as (from, to, clients), sorted.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str, u64)> {
        let ends = self.clients_by_end.iter();
        ends.flat_map(|(from, ends)| ends.iter().map(move |(to, clients)| (&**from, &**to, *clients)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_is_counted_by_itself() {
        let mut counts = HandoffCounts::default();
        for (from, to) in [("b", "a"), ("a", "b"), ("a", "c"), ("a", "b")] {
            counts.record(from, to);
        }
        assert_eq!(counts.iter().collect::<Vec<_>>(), [("a", "b", 2), ("a", "c", 1), ("b", "a", 1)]);
    }

    #[test]
    fn there_are_never_more_pairs_than_the_limit() {
        let mut counts = HandoffCounts::default();
        for n in 0..=MAX_PAIRS {
            counts.record("a", &n.to_string());
        }
        assert_eq!(counts.iter().count(), 1);
    }
}
