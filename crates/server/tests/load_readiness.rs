//! Readiness by load: who reports unready, for how long, and that servers become even.

use std::time::{Duration, Instant};

use signaling_server::load_readiness::Settings;
use signaling_server::load_readiness::rule::{Decision, Load, LoadReadiness, Peer, ReadinessState};

const SETTINGS: Settings = Settings { above: 0.05, min_clients: 500 };
const IDS: [&str; 5] = ["a", "b", "c", "d", "e"];

fn ready(clients: u64) -> Load {
    Load { clients, state: ReadinessState::Ready }
}

/// Decision of `a` with `own` clients beside peers with these loads; `None` for a silent one.
fn first_decision(own: u64, peers: &[Option<Load>]) -> Decision {
    let now = Instant::now();
    let peers: Vec<Peer<'_>> =
        IDS[1..].iter().zip(peers).map(|(id, load)| (*id, load.map(|load| (now, load)))).collect();
    LoadReadiness::new("a", SETTINGS).decide(now, ready(own), &peers)
}

fn is_unready(own: u64, peers: &[Option<Load>]) -> bool {
    first_decision(own, peers).state == ReadinessState::Unready
}

#[test]
fn server_far_above_the_mean_is_unready() {
    let peers = [Some(ready(1_000)), Some(ready(1_000))];
    assert!(is_unready(1_400, &peers));
    assert!(!is_unready(1_040, &peers), "within 5% of the mean");
    assert!(!is_unready(1_130, &peers), "more than 5%, but chance explains it");
    assert_eq!(first_decision(1_300, &peers).mean, 1_100.0);
}

#[test]
fn every_server_is_ready_below_the_minimum() {
    assert!(!is_unready(700, &[Some(ready(0)), Some(ready(0))]));
}

#[test]
fn only_the_top_third_is_unready() {
    let low = Some(ready(1_000));
    assert!(is_unready(4_000, &[Some(ready(4_100)), low, low, low]), "second of five");
    assert!(!is_unready(4_000, &[Some(ready(4_100)), Some(ready(4_200)), low, low]), "third of five");
    assert!(!is_unready(4_000, &[Some(ready(4_100)), low]), "second of three");
    let unready = Some(Load { clients: 3_000, state: ReadinessState::Unready });
    assert!(!is_unready(4_000, &[unready, low]), "the one place is taken");
}

#[test]
fn silent_and_closed_peers_use_up_places() {
    let (low, closed) = (Some(ready(1_000)), Some(Load { clients: 0, state: ReadinessState::Closed }));
    assert!(!is_unready(4_000, &[None, low]));
    assert!(!is_unready(4_000, &[closed, low]));
    assert!(is_unready(4_000, &[None, low, low, low]));
    assert!(!is_unready(4_000, &[None, None, low, low]));
    assert!(!is_unready(4_000, &[]), "alone");
}

#[test]
fn every_server_is_ready_while_a_peer_drains() {
    let draining = Some(Load { clients: 900, state: ReadinessState::Draining });
    let low = Some(ready(1_000));
    assert!(!is_unready(4_000, &[draining, low, low, low]));
}

#[test]
fn unready_ends_near_the_mean_and_after_the_longest_time() {
    let begin = Instant::now();
    let mut rule = LoadReadiness::new("a", SETTINGS);
    let mut state_at = |seconds: u64, own: u64| {
        let now = begin + Duration::from_secs(seconds);
        let peers: [Peer<'_>; 2] = ["b", "c"].map(|id| (id, Some((now, ready(1_000)))));
        rule.decide(now, ready(own), &peers).state
    };
    assert_eq!(state_at(0, 2_000), ReadinessState::Unready);
    assert_eq!(state_at(20, 1_040), ReadinessState::Unready, "stays so until it is near the mean");
    assert_eq!(state_at(21, 1_000), ReadinessState::Ready);
    assert_eq!(state_at(30, 2_000), ReadinessState::Unready);
    assert_eq!(state_at(629, 2_000), ReadinessState::Unready);
    assert_eq!(state_at(631, 2_000), ReadinessState::Ready, "10 minutes are the longest time");
    assert_eq!(state_at(1_200, 2_000), ReadinessState::Ready, "the pause is as long");
    assert_eq!(state_at(1_231, 2_000), ReadinessState::Unready);
}

/// Five servers behind a front that does round robin over those that its probes, 5 s apart, found ready. One starts empty.
#[test]
fn empty_server_catches_up_and_half_stay_ready() {
    let begin = Instant::now();
    let mut rules = IDS.map(|id| LoadReadiness::new(id, SETTINGS));
    let mut loads = [ready(0), ready(2_000), ready(2_000), ready(2_000), ready(2_000)];
    let (mut probed, mut turn, mut evened_after) = ([true; 5], 0, None);
    for second in 0..600 {
        let now = begin + Duration::from_secs(second);
        let polled = loads;
        for server in 0..5 {
            let peers: Vec<Peer<'_>> =
                (0..5).filter(|other| *other != server).map(|other| (IDS[other], Some((now, polled[other])))).collect();
            let own = ready(loads[server].clients);
            loads[server].state = rules[server].decide(now, own, &peers).state;
        }
        let unready = loads.iter().filter(|load| load.state == ReadinessState::Unready).count();
        assert!(unready <= 2, "{unready} of 5 are unready after {second} s");
        if second % 5 == 0 {
            probed = loads.map(|load| load.state == ReadinessState::Ready);
        }
        for _ in 0..30 {
            turn = (1..=5).map(|step| (turn + step) % 5).find(|server| probed[*server]).unwrap_or(turn);
            loads[turn].clients += 1;
        }
        let counts = loads.map(|load| load.clients);
        let (most, least) = (counts.iter().max().copied().unwrap_or(0), counts.iter().min().copied().unwrap_or(0));
        let mean = counts.iter().sum::<u64>() / 5;
        if evened_after.is_none() && (most - least) * 10 < mean {
            evened_after = Some(second);
        }
    }
    // A third of 30 clients/s reaches the empty server while the others get the rest: even after about 330 s.
    assert!(evened_after.is_some_and(|second| second < 450), "even after {evened_after:?} s");
}
