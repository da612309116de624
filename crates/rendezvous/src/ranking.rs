//! Ranks a set of nodes for a key. Nodes, balancers, the operators' API and the simulation build a
//! ranking from each view, the set of nodes that discovery reports.

use std::{cmp::Reverse, fmt, hint::select_unpredictable};

use crate::score::{KeyHash, NodeSeed};

/// An immutable set of nodes for owner lookups. A node's index is its position in bytewise order of
/// ids, valid only within one ranking. A lookup takes 1 to 2 ns per node.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Ranking {
    ids: Vec<Box<str>>,
    /// Same length and order as `ids`. Separate from them, because a lookup reads only the seeds.
    seeds: Vec<NodeSeed>,
}

impl Ranking {
    /// Builds a ranking from node ids in any order; duplicates count once. All servers of a mesh
    /// must use the same `hash_seed`: with different ones they find different owners.
    pub fn new(hash_seed: u64, node_ids: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        let mut ids: Vec<Box<str>> = node_ids.into_iter().map(|id| id.as_ref().into()).collect();
        ids.sort_unstable();
        ids.dedup();
        let seeds = ids.iter().map(|id| NodeSeed::of(id, hash_seed)).collect();
        Self { ids, seeds }
    }

    /// Returns the number of nodes.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Returns `true` if there is no node, so no key has an owner.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Returns the node ids in bytewise order.
    pub fn ids(&self) -> &[Box<str>] {
        &self.ids
    }

    /// Returns the id of the node at `index`.
    ///
    /// # Panics
    /// If `index` is not below [`len`](Self::len). Below it, an index of another ranking gives a
    /// wrong result.
    pub fn id(&self, index: usize) -> &str {
        &self.ids[index]
    }

    /// Returns the index of the node with this id, or `None` if it is not in the set.
    pub fn index_of(&self, node_id: &str) -> Option<usize> {
        self.ids.binary_search_by(|id| (**id).cmp(node_id)).ok()
    }

    /// Returns the index of the key's owner, the node with the highest score. `None`: there is no
    /// node.
    pub fn owner(&self, key: KeyHash) -> Option<usize> {
        let key = key.mixed();
        let (first, rest) = self.seeds.split_first()?;
        let (mut best, mut owner) = (first.score(key), 0);
        for (index, seed) in (1..).zip(rest) {
            let score = seed.score(key);
            // Ids are sorted, so keeping the earlier node on a tie prefers the smaller id.
            let better = score > best;
            best = select_unpredictable(better, score, best);
            owner = select_unpredictable(better, index, owner);
        }
        Some(owner)
    }

    /// Returns the index of the node with the highest score of all that `eligible` accepts. `None`:
    /// it accepts none.
    ///
    /// The result is the first accepted node of [`candidates`](Self::candidates). `eligible` is
    /// called with the index of a node, at most once per node. The caller can reject nodes that are
    /// suspect or draining.
    pub fn owner_where(&self, key: KeyHash, eligible: impl Fn(usize) -> bool) -> Option<usize> {
        let key = key.mixed();
        let mut best = None;
        for (index, seed) in self.seeds.iter().enumerate() {
            let score = seed.score(key);
            if best.is_none_or(|(highest, _)| score > highest) && eligible(index) {
                best = Some((score, index));
            }
        }
        best.map(|(_, index)| index)
    }

    /// Returns the indices of all nodes by descending score, the owner first. Equal scores are in
    /// order of ids.
    pub fn candidates(&self, key: KeyHash) -> Vec<usize> {
        let mut indices: Vec<usize> = (0..self.len()).collect();
        indices.sort_by_cached_key(|&index| Reverse(self.score_of(key, index)));
        indices
    }

    /// Returns the score of the node at `index` for this key. The node with the highest score owns
    /// the key; the smaller id wins a tie. Only scores of one key and hash seed are comparable.
    ///
    /// # Panics
    /// If `index` is not below [`len`](Self::len). Below it, an index of another ranking gives a
    /// wrong result.
    #[inline]
    pub fn score_of(&self, key: KeyHash, index: usize) -> u64 {
        self.seeds[index].score(key.mixed())
    }
}

/// Prints only the ids; the seeds may derive from a secret.
impl fmt::Debug for Ranking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Ranking").field(&self.ids).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_ranking_has_no_owner_and_no_candidates() {
        let empty = Ranking::new(0, [""; 0]);

        assert!(empty.is_empty());
        assert_eq!(empty.owner(KeyHash::of("alice")), None);
        assert_eq!(empty.owner_where(KeyHash::of("alice"), |_| true), None);
        assert!(empty.candidates(KeyHash::of("alice")).is_empty());
    }

    #[test]
    fn ids_are_sorted_bytewise_and_deduplicated() {
        let nodes = Ranking::new(0, ["node-10", "node-2", "Node-3", "node-10", "é"]);

        assert_eq!(nodes.ids().iter().map(|id| &**id).collect::<Vec<_>>(), ["Node-3", "node-10", "node-2", "é"]);
        assert_eq!(nodes.len(), 4);
        assert_eq!(nodes.id(2), "node-2");
        assert_eq!(nodes.index_of("node-2"), Some(2));
        assert_eq!(nodes.index_of("node-3"), None);
    }

    #[test]
    fn equal_scores_go_to_the_smaller_id() {
        let seed = NodeSeed::of("twin", 0);
        let twins = Ranking { ids: vec!["a".into(), "b".into(), "c".into()], seeds: vec![seed; 3] };
        let key = KeyHash::of("alice");

        assert_eq!(twins.owner(key), Some(0));
        assert_eq!(twins.owner_where(key, |index| index != 0), Some(1));
        assert_eq!(twins.candidates(key), [0, 1, 2]);
    }

    #[test]
    fn debug_output_has_only_the_node_ids() {
        assert_eq!(format!("{:?}", Ranking::new(42, ["b", "a"])), r#"Ranking(["a", "b"])"#);
    }
}
