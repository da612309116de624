//! How many clients went from which node to which. Pure.

use std::collections::HashMap;

use signaling_admin::preview::Flow;

/// Most pairs of nodes that are counted: all of 32 nodes. With one more the count begins anew.
const MOST_PAIRS: usize = 1_024;

/// Clients sent from node to node so far.
#[derive(Debug, Default)]
pub struct HandoffCounts {
    clients_by_end: HashMap<Box<str>, HashMap<Box<str>, u64>>,
    pairs: usize,
}

impl HandoffCounts {
    /// One client goes.
    pub fn count(&mut self, from: &str, to: &str) {
        if let Some(clients) = self.clients_by_end.get_mut(from).and_then(|ends| ends.get_mut(to)) {
            *clients += 1;
            return;
        }
        if self.pairs == MOST_PAIRS {
            *self = Self::default();
        }
        self.pairs += 1;
        self.clients_by_end.entry(from.into()).or_default().insert(to.into(), 1);
    }

    /// What was counted, sorted by the nodes' names.
    #[must_use]
    pub fn list(&self) -> Vec<Flow> {
        let ends = self.clients_by_end.iter();
        let flow = |from: &str, to: &str, clients: u64| Flow { from: from.into(), to: to.into(), clients };
        let mut flows: Vec<_> =
            ends.flat_map(|(from, ends)| ends.iter().map(move |(to, clients)| flow(from, to, *clients))).collect();
        flows.sort_unstable_by(|one, other| (&one.from, &one.to).cmp(&(&other.from, &other.to)));
        flows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_is_counted_by_itself() {
        let mut flows = HandoffCounts::default();
        for (from, to) in [("b", "a"), ("a", "b"), ("a", "c"), ("a", "b")] {
            flows.count(from, to);
        }
        let listed: Vec<_> =
            flows.list().iter().map(|flow| format!("{} {} {}", flow.from, flow.to, flow.clients)).collect();
        assert_eq!(listed, ["a b 2", "a c 1", "b a 1"]);
    }

    #[test]
    fn there_are_never_more_pairs_than_the_limit() {
        let mut flows = HandoffCounts::default();
        for n in 0..=MOST_PAIRS {
            flows.count("a", &n.to_string());
        }
        assert_eq!(flows.list().len(), 1);
    }
}
