//! Guarantees of rendezvous hashing for any nodes and keys.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;

use proptest::{collection::btree_set, prelude::*, sample::Index};
use signaling_rendezvous::{KeyHash, Ranking};

const KEYS: usize = 32;

proptest! {
    #[test]
    fn only_keys_of_a_leaving_node_move(
        hash_seed: u64, nodes in node_ids(2..20), leaver: Index, keys in keys()
    ) {
        let leaver = (*leaver.get(&Vec::from_iter(&nodes))).clone();
        let before = Ranking::new(hash_seed, &nodes);
        let after = Ranking::new(hash_seed, nodes.iter().filter(|id| **id != leaver));

        for key in keys {
            let (was, is) = (owner(&before, key), owner(&after, key));
            prop_assert!(was == is || was == leaver, "{} moved from {} to {}", key.get(), was, is);
            prop_assert_ne!(is, leaver.as_str());
        }
    }

    #[test]
    fn joining_node_only_takes_keys(hash_seed: u64, nodes in node_ids(1..20), joiner in node_id(), keys in keys()) {
        prop_assume!(!nodes.contains(&joiner));
        let before = Ranking::new(hash_seed, &nodes);
        let after = Ranking::new(hash_seed, nodes.iter().chain([&joiner]));
        let joined = after.index_of(&joiner).unwrap();

        for key in keys {
            let old_owner = before.owner(key).unwrap();
            let takes = after.score_of(key, joined) > before.score_of(key, old_owner);
            let expected = if takes { joiner.as_str() } else { before.id(old_owner) };
            prop_assert_eq!(owner(&after, key), expected);
        }
    }

    #[test]
    fn ranking_is_independent_of_node_order(
        hash_seed: u64,
        (sorted, shuffled) in node_ids(1..20).prop_flat_map(|ids| {
            let ids = Vec::from_iter(ids);
            (Just(ids.clone()), Just(ids).prop_shuffle())
        }),
        keys in keys(),
    ) {
        let (one, other) = (Ranking::new(hash_seed, sorted), Ranking::new(hash_seed, &shuffled));
        let repeated = Ranking::new(hash_seed, shuffled.iter().chain(&shuffled));

        prop_assert_eq!(&one, &other);
        prop_assert_eq!(&one, &repeated);
        for key in keys {
            prop_assert_eq!(one.candidates(key), other.candidates(key));
        }
    }

    #[test]
    fn owner_is_the_first_eligible_candidate(
        hash_seed: u64, nodes in node_ids(1..20), skipped in any::<u32>(), keys in keys()
    ) {
        let nodes = Ranking::new(hash_seed, nodes);
        let eligible = |index: usize| skipped >> index & 1 == 0;
        for key in keys {
            let candidates = nodes.candidates(key);
            prop_assert_eq!(nodes.owner(key), Some(candidates[0]));
            prop_assert_eq!(nodes.owner_where(key, eligible), candidates.into_iter().find(|&index| eligible(index)));
            prop_assert_eq!(nodes.owner_where(key, |_| false), None);
        }
    }

    #[test]
    fn candidates_are_all_nodes_by_descending_score(hash_seed: u64, nodes in node_ids(1..20), keys in keys()) {
        let nodes = Ranking::new(hash_seed, nodes);
        for key in keys {
            let candidates = nodes.candidates(key);
            prop_assert!(candidates.is_sorted_by(|&a, &b| nodes.score_of(key, a) >= nodes.score_of(key, b)));
            prop_assert_eq!(BTreeSet::from_iter(candidates), (0..nodes.len()).collect::<BTreeSet<_>>());
        }
    }
}

/// The bound is six standard deviations of a binomial distribution. A fair hash exceeds it about
/// once in 500 million tries, and the inputs are fixed.
#[test]
fn node_owns_its_share_within_binomial_bounds() {
    const SAMPLE: u32 = 50_000;
    for (node_count, hash_seed) in [(2_u32, 0), (3, 0), (3, 1), (10, 0), (50, u64::MAX)] {
        let nodes = Ranking::new(hash_seed, (0..node_count).map(|i| format!("signaling-node-{i}")));
        let mut owned = vec![0_u32; nodes.len()];
        for i in 0..SAMPLE {
            owned[nodes.owner(KeyHash::of(&format!("peer-{i}"))).unwrap()] += 1;
        }

        let share = 1.0 / f64::from(node_count);
        let expected = f64::from(SAMPLE) * share;
        let tolerance = 6.0 * (expected * (1.0 - share)).sqrt();
        for (index, &count) in owned.iter().enumerate() {
            let off = (f64::from(count) - expected).abs();
            assert!(off <= tolerance, "{} of {node_count} owns {count} keys, not {expected:.0}", nodes.id(index));
        }
    }
}

fn node_id() -> impl Strategy<Value = String> {
    "[A-Za-z0-9._~:@-]{1,40}"
}

fn node_ids(count: std::ops::Range<usize>) -> impl Strategy<Value = BTreeSet<String>> {
    btree_set(node_id(), count)
}

fn keys() -> impl Strategy<Value = Vec<KeyHash>> {
    proptest::collection::vec("[A-Za-z0-9._~:@-]{1,128}".prop_map(|key| KeyHash::of(&key)), KEYS)
}

fn owner(nodes: &Ranking, key: KeyHash) -> &str {
    nodes.id(nodes.owner(key).unwrap())
}
