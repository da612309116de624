//! Each rule of custody, broken on purpose: whoever runs enough seeds sees it.
//!
//! Most break a promise to clients. A few cannot, because other rules stand behind them; they cost repeats, or hide a
//! fate, and are seen by how often that happens next to a sound mesh over the same seeds.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::iter;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use signaling_simulation::{Counters, FaultKind, Mutant, Size, run};

const SEEDS: u64 = 1_000;

/// What shows that a rule is broken.
enum Shows {
    /// A promise that a sound mesh keeps; a seed that is known to break it comes first.
    Promise(u64),
    /// Something that happens three times as often, over so many seeds.
    More(&'static str, u64),
    /// Something that happens a third as often.
    Less(&'static str, u64),
}

use Shows::{Less, More, Promise};

/// Where a rule is put to the test, and what shows that it is broken.
fn trial(mutant: Mutant) -> (Size, Shows) {
    let all = Size::default;
    let cuts = || Size { faults: 2, kinds: vec![FaultKind::CutNodes, FaultKind::CutOneWay], ..all() };
    let moves = || Size { faults: 3, kinds: vec![FaultKind::Join, FaultKind::Drain, FaultKind::Flap], ..all() };
    let calm = || Size { faults: 0, ..all() };
    let crowd = || Size { clients: 6, messages: 1_500, ..calm() };
    let hasty = || Size { hasty_percent: 60, ..all() };
    match mutant {
        Mutant::Prev => (all(), Promise(0)),
        Mutant::Written => (all(), Promise(0)),
        Mutant::Again => (all(), Promise(0)),
        Mutant::Life => (all(), Promise(0)),
        Mutant::OneByOne => (all(), Promise(0)),
        Mutant::Path => (all(), Promise(0)),
        Mutant::Answers => (cuts(), Promise(0)),
        Mutant::Located => (cuts(), Promise(0)),
        Mutant::PassingOn => (all(), Promise(0)),
        Mutant::Via => (all(), Promise(0)),
        Mutant::Takeover => (crowd(), Promise(142)),
        Mutant::Born => (all(), Promise(0)),
        Mutant::LastWord => (hasty(), Promise(0)),
        Mutant::ClockJump => (all(), Promise(0)),
        Mutant::Detour => (cuts(), Promise(0)),
        Mutant::Suspects => (cuts(), Promise(0)),
        Mutant::Incarnation => (all(), Promise(0)),
        Mutant::Number => (all(), Promise(0)),
        Mutant::StoreRepeats => (all(), Promise(0)),
        Mutant::Timer => (all(), Promise(0)),
        Mutant::Lingering => (moves(), Promise(0)),
        Mutant::Filter => (all(), Promise(0)),
        Mutant::Store => (all(), Promise(0)),
        Mutant::Receipts => (all(), Promise(0)),
        Mutant::Held => (calm(), More("nodes: resends", 40)),
        Mutant::Flood => (calm(), Less("messages given up early", 60)),
        Mutant::Question => (all(), More("unavailable though written", 100)),
        Mutant::KeptFates => (cuts(), More("doubled there after an ack", 100)),
        Mutant::Forget => (moves(), More("doubled on the recipient's next socket", 100)),
    }
}

fn counted(seeds: u64, size: &Size, what: &str) -> u64 {
    let mut all = Counters::default();
    (0..seeds).for_each(|seed| all.merge(&run(seed, size, false).counters));
    all.get(what)
}

/// What was seen of the broken rule, or none.
fn shows(mutant: Mutant) -> Option<String> {
    let (sound, shows) = trial(mutant);
    let broken = Size { mutant: Some(mutant), ..sound.clone() };
    let compared = |what: &str, seeds: u64| (counted(seeds, &sound, what), counted(seeds, &broken, what));
    match shows {
        Promise(known) => {
            let violation = |seed: u64| {
                let violation = run(seed, &broken, false).violation?;
                run(seed, &sound, false).violation.is_none().then_some((seed, violation))
            };
            let (seed, violation) = iter::once(known).chain(0..SEEDS).find_map(violation)?;
            Some(format!("seed {seed}: {violation}"))
        }
        More(what, seeds) => {
            let (sound, broken) = compared(what, seeds);
            (broken > 3 * sound).then(|| format!("{what}: {broken} in place of {sound} in {seeds} seeds"))
        }
        Less(what, seeds) => {
            let (sound, broken) = compared(what, seeds);
            (sound > 3 * broken).then(|| format!("{what}: {broken} in place of {sound} in {seeds} seeds"))
        }
    }
}

#[test]
fn each_rule_that_is_broken_on_purpose_is_noticed() {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut unnoticed = Vec::new();
        while let Some(&mutant) = Mutant::ALL.get(next.fetch_add(1, Ordering::Relaxed)) {
            match shows(mutant) {
                Some(seen) => println!("{}: {seen}", mutant.name()),
                None => unnoticed.push(mutant.name()),
            }
        }
        unnoticed
    };
    let unnoticed = thread::scope(|scope| {
        let other = scope.spawn(work);
        let mut unnoticed = work();
        unnoticed.extend(other.join().unwrap());
        unnoticed
    });
    assert!(unnoticed.is_empty(), "nobody would notice if these rules were broken: {unnoticed:?}");
}
