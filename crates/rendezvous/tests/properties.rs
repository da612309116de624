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
}

fn node_ids(count: std::ops::Range<usize>) -> impl Strategy<Value = BTreeSet<String>> {
    btree_set("[A-Za-z0-9._~:@-]{1,40}", count)
}

fn keys() -> impl Strategy<Value = Vec<KeyHash>> {
    proptest::collection::vec("[A-Za-z0-9._~:@-]{1,128}".prop_map(|key| KeyHash::of(&key)), KEYS)
}

fn owner(nodes: &Ranking, key: KeyHash) -> &str {
    nodes.id(nodes.owner(key).unwrap())
}
