//! Whole worlds: small numbers of seeds here, many by `mesh-sim`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use signaling_simulation::{FaultKind, Mutant, Size, run};

fn assert_kept(seeds: std::ops::Range<u64>, size: &Size) {
    for seed in seeds {
        if let Some(violation) = run(seed, size, false).violation {
            panic!("seed {seed}: {violation}");
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let size = Size::default();
    let (one, other) = (run(7, &size, true), run(7, &size, true));
    assert_eq!(one.counters, other.counters);
    assert_eq!(one.trace, other.trace);
    assert!(one.trace.len() > 1_000);
    assert_ne!(one.trace, run(8, &size, true).trace);
}

#[test]
fn promises_are_kept_while_nothing_goes_wrong() {
    assert_kept(0..10, &Size { faults: 0, restless_clients: false, ..Size::default() });
}

#[test]
fn promises_are_kept_to_clients_that_come_and_go_and_read_slowly() {
    assert_kept(0..10, &Size { faults: 0, ..Size::default() });
}

#[test]
fn promises_are_kept_through_each_kind_of_fault() {
    for kind in FaultKind::ALL {
        assert_kept(0..3, &Size { faults: 2, kinds: vec![kind], ..Size::default() });
    }
}

#[test]
fn promises_are_kept_through_five_faults_of_all_kinds() {
    assert_kept(0..20, &Size::default());
}

#[test]
fn a_rule_that_is_broken_on_purpose_is_noticed() {
    // The other two cost time or a fate's certainty, which no promise here is sharp enough to see.
    let noticed = Mutant::ALL.into_iter().filter(|mutant| !matches!(mutant, Mutant::Again | Mutant::Question));
    for mutant in noticed {
        let size = Size { mutant: Some(mutant), ..Size::default() };
        assert!((0..1_000).any(|seed| run(seed, &size, false).violation.is_some()), "{}", mutant.name());
    }
}
