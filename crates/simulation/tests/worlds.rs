//! Whole worlds: a few seeds of each kind. `make simulate` runs thousands with `mesh-sim`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use clap::ValueEnum as _;
use signaling_simulation::{Counters, FaultKind, Preset, Size, run, run_digested};

/// Options of a world, its seed, and the violation that it once showed.
const MENDED: [(&str, u64, &str); 30] = [
    (Preset::Operators.options(), 186_000_549, "refused join carried out by a later process of the owner"),
    (Preset::Large.options(), 112_004_783, "node back in the view had missed a change"),
    (Preset::Large.options(), 5_200_511, "restored seat above the capacity"),
    (Preset::Large.options(), 5_200_319, "restored seat above the capacity"),
    (Preset::Large.options(), 6_001_233, "resumed session lost the seats of its ended socket"),
    (Preset::Large.options(), 13_000_804, "resumed session lost the seats of its ended socket"),
    (Preset::Large.options(), 6_000_007, "players never met, since a late seat came back"),
    (Preset::Parted.options(), 5_301_307, "both of two players received NewPeer"),
    (Preset::Parted.options(), 5_301_391, "both of two players received NewPeer"),
    (Preset::Parted.options(), 5_301_770, "both of two players received NewPeer"),
    (Preset::Parted.options(), 5_301_032, "fault of a draft of the rules on restored seats"),
    (Preset::Rooms.options(), 9_001_262, "fault of a draft of the rules on restored seats"),
    (Preset::Hasty.options(), 5_401_831, "both of two players received NewPeer"),
    (Preset::Hasty.options(), 41_000_025, "restored seat above the capacity"),
    (Preset::Hasty.options(), 41_000_489, "work of a room left at a node"),
    (Preset::Default.options(), 62_004_785, "connect of a page that was gone took an id"),
    (Preset::Large.options(), 61_002_402, "connect of a page that was gone took an id"),
    ("--rooms 0 --nodes 5 --faults 14", 70_000_721, "connect of a page that was gone took an id"),
    (Preset::Default.options(), 62_007_067, "member without changes after its leave failed"),
    (Preset::Parted.options(), 63_002_314, "member without changes after its leave failed"),
    (Preset::Parted.options(), 81_007_150, "former node of a resumed session ended the seat of its earlier join"),
    (Preset::Rooms.options(), 61_002_235, "returned member got an earlier state than it had"),
    ("--rooms 100 --nodes 2 --faults 8", 7_000_535, "change of a room before its state"),
    ("", 20_004_839, "resumed session got neither state nor position"),
    ("", 30_004_977, "restored seat above the capacity"),
    ("", 40_005_971, "both of two players received NewPeer"),
    ("", 60_006_693, "report of held messages postponed a requested retransmission"),
    ("", 30_001_899, "repeated signal was refused though delivered before a handoff"),
    (GHOSTS, 865, "seats of ended sessions were restored, and stayed"),
    (
        "--rooms 80 --nodes 4 --edges 3 --faults 12 --hasty 30 --operators 20",
        4_075,
        "member learned nothing of the end of its closed room",
    ),
];

/// Options of worlds with rooms in which nodes and edges crash.
const GHOSTS: &str = "--rooms 100 --messages 0 --faults 12 --kinds crash,crash-edge --clients 30";

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
fn seeds_that_showed_violations_have_none() {
    for (options, seed, once) in MENDED {
        assert_eq!(run(seed, &Size::of(options), false).violation, None, "seed {seed} of [{options}], once: {once}");
    }
}

#[test]
fn no_room_is_rebuilt_after_the_loss_of_one_zone_of_three() {
    let size = Size::of("--rooms 100 --messages 0 --nodes 6 --zones 3 --faults 1 --kinds crash-zone");
    let mut counters = Counters::default();
    for seed in 0..60 {
        let outcome = run(seed, &size, false);
        assert_eq!(outcome.violation, None, "seed {seed}");
        for what in ["rooms: rebuilt", "rooms: owners without the latest operations"] {
            assert_eq!(outcome.counters.get(what), 0, "seed {seed}: {what}");
        }
        counters.merge(&outcome.counters);
    }
    assert_eq!(counters.get("crash-zone"), 60);
    assert!(counters.get("rooms: taken over") > 0);
}

#[test]
fn promises_to_operators_are_kept_through_faults() {
    assert_kept(0..50, &Size::of(Preset::Operators.options()));
}

#[test]
fn rooms_survive_faults() {
    let size = Size { rooms_percent: 100, ..Size::default() };
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
