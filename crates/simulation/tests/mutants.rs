//! Each rule of custody and of rooms, broken on purpose: enough seeds detect it.
//!
//! Most mutants break a promise to clients. A few do not, because other rules back them up. They
//! cost retransmissions or hide an outcome, so their counts are compared with a sound mesh over
//! equal seeds.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::iter;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use clap::ValueEnum as _;
use signaling_simulation::{Counters, FaultKind, Mutant, Preset, Size, run};

/// Maximum number of seeds until a broken promise is found.
const SEEDS: u64 = 1_000;
/// Number of seeds over which counts are compared that differ by a factor of at least three.
const COMPARED: u64 = 10;
/// Number of seeds over which other counts are compared.
const COMPARED_CLOSELY: u64 = 30;

/// Evidence of a broken rule.
enum Shows {
    /// A broken promise. The field is a seed that is known to break it, which runs first.
    Promise(u64),
    /// An event that happens at least this many times per hundred times in a sound mesh.
    More(&'static str, u64),
    /// An event that happens at most this many times per hundred times in a sound mesh.
    Less(&'static str, u64),
}

use FaultKind::{
    Crash, CrashZone, CutLane, CutNodes, CutOneWay, CutTrunk, Dead, Drain, Flap, Isolate, IsolatePair, Join, PauseEdge,
    PauseNode, ShortPause, Silence,
};
use Shows::{Less, More, Promise};

/// Returns the world that tests a rule, and the evidence that it is broken.
fn trial(mutant: Mutant) -> (Size, Shows) {
    let all = || Size { rooms_percent: 0, ..Size::default() };
    let cuts = || Size { faults: 2, kinds: vec![CutNodes, CutOneWay], ..all() };
    let moves = || Size { faults: 3, kinds: vec![Join, Drain, Flap], ..all() };
    let calm = || Size { faults: 0, ..all() };
    let crowd = || Size { clients: 6, messages: 1_500, ..calm() };
    // Outcomes come late, since no confirms arrive.
    let hurried = || Size { faults: 8, hasty_percent: 100, messages: 1_000, kinds: vec![PauseEdge], ..crowd() };
    // Only outcomes are lost, and nothing else causes retransmissions.
    let answers_lost = || Size { nodes: 2, faults: 6, steady_clients: true, kinds: vec![CutOneWay], ..all() };
    // Some batches arrive late, and nothing else causes retransmissions.
    let slow_lanes = || Size { faults: 2, messages: 1_500, kinds: vec![CutLane], ..answers_lost() };
    let late_trunks = || Size { faults: 8, hasty_percent: 60, kinds: vec![ShortPause, CutTrunk], ..all() };
    let many_flaps = || Size { faults: 20, clients: 30, kinds: vec![Flap], ..all() };
    let rooms = || Size { rooms_percent: 100, messages: 100, ..all() };
    let operators = || Size { operator_requests: 40, faults: 1, ..rooms() };
    let short_pauses = || Size { faults: 4, kinds: vec![ShortPause], ..rooms() };
    let lost_rooms = || Size { faults: 10, kinds: vec![Crash, Flap], ..rooms() };
    let one_crash = || Size { faults: 1, messages: 0, kinds: vec![Crash], ..rooms() };
    let lost_zone = || Size { nodes: 6, zones: 3, kinds: vec![CrashZone], ..one_crash() };
    let parted_rooms = || Size { faults: 6, kinds: vec![Flap, CutOneWay], ..rooms() };
    let pair = || Size { nodes: 2, clients: 40, ..all() };
    let paused_pair = || Size { faults: 14, messages: 0, rooms_percent: 100, kinds: vec![Crash, PauseNode], ..pair() };
    let pauses_of_both = || Size { faults: 20, messages: 1_000, kinds: vec![PauseEdge, PauseNode], ..pair() };
    let journal = || Size::of(Preset::Journal.options());
    let skewed = || Size::of(Preset::Skewed.options());
    match mutant {
        Mutant::Seats => (Size { kinds: moves().kinds, ..rooms() }, Promise(0)),
        Mutant::LingeringSeats | Mutant::RepeatedQueries => (rooms(), Promise(4)),
        Mutant::Restore => (lost_rooms(), Promise(1)),
        Mutant::SeatDrops | Mutant::Attachments | Mutant::RoomRetired | Mutant::RoomCopies => (rooms(), Promise(0)),
        Mutant::RepeatedRequests | Mutant::RoomCopied | Mutant::OwnChanges => (rooms(), Promise(0)),
        Mutant::ClaimSeats => (rooms(), Promise(5)),
        Mutant::RoomEpochs | Mutant::Claims | Mutant::LateDrops => (rooms(), Promise(0)),
        Mutant::Blocks | Mutant::Closures | Mutant::EndedSeats => (operators(), Promise(0)),
        Mutant::RoomTime => (skewed(), Promise(9)),
        Mutant::GoneClients => (paused_pair(), Promise(2443)),
        Mutant::UnclaimedSeats => (rooms(), Promise(10)),
        // An owner without a backup commits nothing.
        Mutant::Backups => (one_crash(), Promise(0)),
        // Both copies of a room are never in one zone.
        Mutant::Zones => (lost_zone(), More("rooms: rebuilt", 100)),
        Mutant::Barrier => (parted_rooms(), Promise(450)),
        Mutant::Majority => (Size { faults: 8, kinds: vec![Isolate, IsolatePair, Dead], ..rooms() }, Promise(222)),
        Mutant::Regain => (Size { nodes: 2, faults: 12, kinds: vec![Flap, Isolate], ..rooms() }, Promise(133)),
        Mutant::FormerOwner => (Size { nodes: 4, faults: 12, kinds: vec![Flap], ..rooms() }, Promise(8)),
        Mutant::RefusedLogs => (lost_rooms(), Promise(763)),
        // Most nodes are lost at once, and the others have no copy.
        Mutant::RoomReports => (Size { faults: 8, zones: 2, ..lost_zone() }, Promise(7)),
        Mutant::RoomChanges => (rooms(), More("rooms: resyncs", 300)),
        Mutant::LateBatches => (Size { faults: 6, hasty_percent: 60, kinds: vec![CutLane], ..all() }, Promise(13)),
        Mutant::LateFrames => (late_trunks(), Promise(60)),
        Mutant::RemainingTtl => (all(), Promise(10)),
        Mutant::OneByOne | Mutant::PrevPending | Mutant::SkippedReports => (all(), Promise(2)),
        Mutant::Incarnation => (all(), Promise(26)),
        Mutant::NodeRetransmissions => (all(), Promise(16)),
        Mutant::ReceivedTracker => (all(), Promise(11)),
        Mutant::LaneWindow | Mutant::KeptOutcomes => (answers_lost(), More("edges: duplicates dropped", 200)),
        Mutant::EarlyAcknowledgement => (slow_lanes(), More("edges: duplicates dropped", 300)),
        Mutant::Located => (Size { faults: 4, kinds: vec![CutTrunk], ..all() }, Promise(7)),
        Mutant::ReturnPath => (all(), Promise(42)),
        Mutant::Eviction => (all(), Promise(7)),
        Mutant::Relays => (all(), Promise(41)),
        Mutant::Via => (all(), Promise(48)),
        Mutant::Takeover => (Size { edges: 4, ..crowd() }, Promise(266)),
        // Edges skip late copies themselves, so only the outcomes need the grace time.
        Mutant::LateOutcomes => (hurried(), More("unavailable though written", 150)),
        // Clients come back while a node is paused, and their former sockets resume.
        Mutant::ProcessPause => (pauses_of_both(), Promise(11)),
        // The paused node suspects the others, and stands in for them.
        Mutant::ShortPauses => (short_pauses(), More("nodes: detours", 200)),
        Mutant::LaneMemory => (Size { faults: 12, kinds: vec![PauseNode, Flap], ..all() }, Promise(0)),
        Mutant::Detour => (cuts(), Promise(0)),
        Mutant::Suspects => (cuts(), Promise(32)),
        Mutant::BatchNumbers | Mutant::EdgeRetransmissions => (all(), Promise(0)),
        Mutant::RetransmitBuffer | Mutant::Deduplicator => (all(), Promise(0)),
        Mutant::Written => (all(), Promise(4)),
        Mutant::Lingering => (moves(), Promise(23)),
        Mutant::Ranks => (all(), Promise(0)),
        // Messages that were refused for lack of space are retransmitted anyway.
        Mutant::Held => (Size { roomy_edges: true, ..calm() }, More("nodes: retransmissions", 180)),
        Mutant::CloseFrames => (calm(), Promise(0)),
        Mutant::HoldLimit => (calm(), Less("messages given up early", 33)),
        Mutant::OutcomeRequests => (hurried(), More("unavailable though written", 200)),
        // Copies at former destinations expire there.
        Mutant::Forget => (many_flaps(), More("nodes: holds expired", 110)),
        Mutant::JournalFence => (journal(), Promise(31)),
        Mutant::JournalChain | Mutant::Release => (journal(), Promise(0)),
        Mutant::JournalRead => (journal(), More("journal: capacities lost", 200)),
        Mutant::MissingView => (Size { faults: 1, kinds: vec![Silence], ..all() }, Promise(1)),
    }
}

fn counted(seeds: u64, size: &Size, what: &str) -> u64 {
    let mut all = Counters::default();
    (0..seeds).for_each(|seed| all.merge(&run(seed, size, false).counters));
    all.get(what)
}

/// Returns the evidence that the rule is broken, or `None`.
fn shows(mutant: Mutant) -> Option<String> {
    let (sound, shows) = trial(mutant);
    let broken = Size { mutant: Some(mutant), ..sound.clone() };
    match shows {
        Promise(known) => {
            let violation = |seed: u64| {
                let violation = run(seed, &broken, false).violation?;
                run(seed, &sound, false).violation.is_none().then_some((seed, violation))
            };
            let (seed, violation) = iter::once(known).chain(0..SEEDS).find_map(violation)?;
            Some(format!("seed {seed}: {violation}"))
        }
        More(what, percent) | Less(what, percent) => {
            let seeds = if (34..300).contains(&percent) { COMPARED_CLOSELY } else { COMPARED };
            let (sound, broken) = (counted(seeds, &sound, what), counted(seeds, &broken, what));
            let is_more = matches!(shows, More(..));
            let shown = if is_more { broken * 100 > sound * percent } else { broken * 100 < sound * percent };
            shown.then(|| format!("{what}: {broken} times in place of {sound}"))
        }
    }
}

#[test]
fn each_rule_that_is_broken_on_purpose_is_noticed() {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut unnoticed = Vec::new();
        while let Some(&mutant) = Mutant::value_variants().get(next.fetch_add(1, Ordering::Relaxed)) {
            match shows(mutant) {
                Some(seen) => println!("{mutant:?}: {seen}"),
                None => unnoticed.push(mutant),
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
    assert!(unnoticed.is_empty(), "no seed shows that these rules are broken: {unnoticed:?}");
}
