//! Numbers of clients handed off between each pair of nodes. The balancer reports them at `/admin`.

use std::collections::BTreeMap;

/// Maximum pairs of nodes: all pairs of 32 nodes. One more pair restarts the counts.
const MAX_PAIRS: usize = 1_024;

/// Clients handed off from node to node since the start, or since a 1,025th pair restarted them.
#[derive(Debug, Default)]
pub struct HandoffCounts {
    clients_by_pair: BTreeMap<(Box<str>, Box<str>), u64>,
}

impl HandoffCounts {
    /// Counts the handoff of one session from node `from` to node `to`.
    pub fn record(&mut self, from: &str, to: &str) {
        let pair: (Box<str>, Box<str>) = (from.into(), to.into());
        if self.clients_by_pair.len() == MAX_PAIRS && !self.clients_by_pair.contains_key(&pair) {
            self.clients_by_pair.clear();
        }
        *self.clients_by_pair.entry(pair).or_default() += 1;
    }

    /// Returns the counts as (from, to, clients), sorted by both names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str, u64)> {
        self.clients_by_pair.iter().map(|((from, to), clients)| (&**from, &**to, *clients))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handoffs_are_counted_by_direction() {
        let mut counts = HandoffCounts::default();
        for (from, to) in [("b", "a"), ("a", "b"), ("a", "c"), ("a", "b")] {
            counts.record(from, to);
        }
        assert_eq!(counts.iter().collect::<Vec<_>>(), [("a", "b", 2), ("a", "c", 1), ("b", "a", 1)]);
    }

    #[test]
    fn counts_restart_at_one_pair_above_the_limit() {
        let mut counts = HandoffCounts::default();
        for n in 0..=MAX_PAIRS {
            counts.record("a", &n.to_string());
        }
        assert_eq!(counts.iter().count(), 1);
    }
}
