//! Whole worlds: a few seeds of each kind. `make simulate` runs thousands with `mesh-sim`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use clap::ValueEnum as _;
use signaling_simulation::{Counters, FaultKind, Size, run, run_digested};

fn assert_kept(seeds: std::ops::Range<u64>, size: &Size) {
    for seed in seeds {
        if let Some(violation) = run(seed, size, false).violation {
            panic!("seed {seed}: {violation}");
        }
    }
}

#[test]
fn same_seed_gives_the_same_run() {
    let size = Size::default();
    let (one, other) = (run(7, &size, true), run(7, &size, true));
    assert_eq!(one.counters, other.counters);
    assert_eq!(one.trace, other.trace);
    assert!(one.trace.len() > 1_000);
    assert_ne!(one.trace, run(8, &size, true).trace);
}

#[test]
fn digest_changes_nothing_in_a_run() {
    let size = Size { rooms_percent: 100, ..Size::default() };
    for seed in 0..4 {
        let (silent, digested, traced) = (run(seed, &size, false), run_digested(seed, &size), run(seed, &size, true));
        assert_eq!(silent.digest, None);
        assert!(digested.digest.is_some());
        assert_eq!(digested.digest, traced.digest);
        assert!(digested.trace.is_empty());
        assert_eq!(silent.counters, digested.counters);
    }
}

#[test]
fn promises_are_kept_without_faults() {
    // Without steady clients, some reconnect and some read slowly.
    for steady_clients in [true, false] {
        assert_kept(0..5, &Size { faults: 0, steady_clients, ..Size::default() });
    }
}

#[test]
fn promises_are_kept_through_each_kind_of_fault() {
    for kind in FaultKind::value_variants() {
        assert_kept(0..3, &Size { faults: 2, kinds: vec![*kind], ..Size::default() });
    }
}

#[test]
fn rooms_that_nodes_own_survive_faults() {
    let size = Size { rooms_percent: 100, mesh_rooms_percent: 100, ..Size::default() };
    let mut counters = Counters::default();
    for seed in 0..100 {
        let outcome = run(seed, &size, false);
        assert_eq!(outcome.violation, None, "seed {seed}");
        counters.merge(&outcome.counters);
    }
    let demanded =
        ["copies sent", "taken over", "rebuilt", "requests without an answer in time", "admitted from the queue"];
    for what in demanded {
        assert!(counters.get(&format!("rooms: {what}")) > 0, "{what} never happened");
    }
}
