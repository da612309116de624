//! Results of another implementation (`data/README.md`), so that all releases choose equal owners.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use serde::Deserialize;
use signaling_rendezvous::{KeyHash, Ranking};

#[derive(Deserialize)]
struct Golden {
    cases: Vec<Case>,
    rescale_3_to_4: Rescale,
}

#[derive(Deserialize)]
struct Case {
    hash_seed: String,
    nodes: Vec<String>,
    key: String,
    key_hash: String,
    scores: Vec<String>,
    ranking: Vec<String>,
}

#[derive(Deserialize)]
struct Rescale {
    moved: usize,
    per_node: BTreeMap<String, usize>,
}

#[test]
fn golden_cases_have_equal_hashes_scores_and_rankings() {
    let cases = golden().cases;
    assert_eq!(cases.len(), 80);

    for case in cases {
        let key = KeyHash::of(&case.key);
        let nodes = Ranking::new(hex(&case.hash_seed), &case.nodes);
        let ranked: Vec<&str> = nodes.candidates(key).into_iter().map(|index| nodes.id(index)).collect();

        assert_eq!(key.get(), hex(&case.key_hash), "hash of key {:?}", case.key);
        assert_eq!(ranked, case.ranking, "ranking for key {:?}", case.key);
        assert_eq!(nodes.owner(key).map(|index| nodes.id(index)), case.ranking.first().map(String::as_str));
        for (node, expected) in case.nodes.iter().zip(&case.scores) {
            let index = nodes.index_of(node).unwrap();
            assert_eq!(nodes.score_of(key, index), hex(expected), "score of {node:?} for key {:?}", case.key);
        }
    }
}

#[test]
fn golden_keys_move_when_a_fourth_node_joins() {
    let expected = golden().rescale_3_to_4;
    let three = Ranking::new(0, (0..3).map(|i| format!("signaling-node-{i}")));
    let four = Ranking::new(0, (0..4).map(|i| format!("signaling-node-{i}")));
    let mut moved = 0;
    let mut per_node = BTreeMap::new();

    for i in 0..100_000 {
        let key = KeyHash::of(&format!("client-{i}"));
        let (before, after) = (three.owner(key).unwrap(), four.owner(key).unwrap());
        if before != after {
            assert_eq!(four.id(after), "signaling-node-3");
            moved += 1;
        }
        *per_node.entry(four.id(after).to_owned()).or_insert(0) += 1;
    }

    assert_eq!(moved, expected.moved);
    assert_eq!(per_node, expected.per_node);
}

fn golden() -> Golden {
    serde_json::from_str(include_str!("data/rendezvous.json")).unwrap()
}

fn hex(text: &str) -> u64 {
    u64::from_str_radix(text, 16).unwrap()
}
