//! One server decides whether it is unready by what its peers say; and however many do so, at most half are.

use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use signaling_server::crowding::core::Standing::{Closed, Crowded, Draining, Leaning, Ready, Returning};
use signaling_server::crowding::core::{Crowding, Decision, Heard, Own, Peer, Settings, Standing};

const SECOND: Duration = Duration::from_secs(1);
const SETTINGS: Settings = Settings {
    above: 0.2,
    below: 0.05,
    floor: 100,
    longest: Duration::from_secs(600),
    settle: Duration::from_secs(10),
    period: SECOND,
};

#[test]
fn one_far_above_its_peers_is_unready_until_it_is_at_the_mean_and_then_returns() {
    let mut scene = Scene::new();
    scene.peers(&[(900, Ready), (900, Ready)]);
    assert_eq!(scene.look(1_150), Ready, "17% above");
    assert_eq!(scene.look(1_300), Leaning);
    assert_eq!(scene.look(1_300), Crowded);
    scene.peers(&[(1_200, Ready), (1_200, Ready)]);
    assert_eq!(scene.look(1_201), Crowded);
    assert_eq!(scene.look(1_200), Returning);
    for _ in 0..9 {
        assert_eq!(scene.look(1_900), Returning, "proxies may not know yet");
    }
    assert_eq!(scene.look(1_200), Ready);
}

#[test]
fn a_place_is_taken_only_when_each_peer_was_asked_since_this_one_leans() {
    let mut scene = Scene::new();
    scene.peers(&[(900, Ready), (900, Ready)]);
    assert_eq!(scene.look(2_000), Leaning);
    scene.asked[1] = false;
    assert_eq!(scene.look(2_000), Leaning);
    assert_eq!(scene.look(2_000), Leaning);
    scene.asked[1] = true;
    assert_eq!(scene.look(2_000), Crowded);
}

#[test]
fn what_peers_are_told_of_one_that_leans_stands_still() {
    let mut scene = Scene::new();
    scene.peers(&[(900, Ready), (900, Ready)]);
    assert_eq!(scene.decide(2_000).connections, 2_000);
    scene.asked = vec![false; 2];
    let decision = scene.decide(2_100);
    assert_eq!((decision.standing, decision.connections), (Leaning, 2_000));
}

#[test]
fn nobody_is_unready_alone_or_among_peers_that_do_not_answer_or_take_no_clients() {
    for peers in [&[][..], &[(0, Closed)], &[(500, Ready), (0, Closed)], &[(500, Ready), (500, Returning)]] {
        let mut scene = Scene::new();
        scene.peers(peers);
        for _ in 0..20 {
            assert_eq!(scene.look(5_000), Ready, "{peers:?}");
        }
    }
    let mut scene = Scene::new();
    scene.peers(&[(500, Ready), (500, Ready)]);
    scene.asked = vec![false; 2];
    for _ in 0..20 {
        assert_eq!(scene.look(5_000), Ready);
    }
}

#[test]
fn of_three_one_may_be_unready_of_four_two() {
    for (others, expected) in [
        (&[(500, Ready), (3_000, Crowded)][..], Ready),
        (&[(500, Ready), (500, Ready), (3_000, Crowded)], Crowded),
        (&[(500, Ready), (3_000, Crowded), (3_000, Crowded)], Ready),
    ] {
        let mut scene = Scene::new();
        scene.peers(others);
        scene.look(3_000);
        assert_eq!(scene.look(3_000), expected, "{others:?}");
    }
}

#[test]
fn of_two_that_lean_for_one_place_the_one_with_fewer_gives_way() {
    for (other, expected) in [(3_001, Ready), (2_999, Leaning)] {
        let mut scene = Scene::new();
        scene.peers(&[(500, Ready), (500, Ready)]);
        assert_eq!(scene.look(3_000), Leaning);
        scene.peers(&[(500, Ready), (other, Leaning)]);
        assert_eq!(scene.look(3_000), expected, "the other has {other}");
    }
}

#[test]
fn leaning_does_not_go_on_for_ever() {
    let mut scene = Scene::new();
    scene.peers(&[(500, Ready), (500, Ready)]);
    assert_eq!(scene.look(3_000), Leaning);
    scene.peers(&[(500, Ready), (2_999, Leaning)]);
    let stays = (0..10).take_while(|_| scene.look(3_000) == Leaning).count();
    assert_eq!(stays, 5);
}

#[test]
fn one_that_cannot_hear_its_peers_any_more_is_ready_again() {
    let mut scene = Scene::crowded();
    scene.asked = vec![false; 2];
    let unready = (0..10).take_while(|_| scene.look(3_000) == Crowded).count();
    assert_eq!(unready, 5, "an answer holds for 5.5 s");
    assert_eq!(scene.look(3_000), Returning);
}

#[test]
fn while_a_peer_sends_its_clients_away_everybody_is_ready() {
    let mut scene = Scene::crowded();
    scene.peers(&[(900, Ready), (900, Draining), (900, Ready), (900, Ready)]);
    assert_eq!(scene.look(3_000), Returning);
    scene.now += SETTINGS.settle;
    for _ in 0..20 {
        assert_eq!(scene.look(3_000), Ready);
    }
}

#[test]
fn few_clients_are_not_worth_it() {
    let mut scene = Scene::new();
    scene.peers(&[(0, Ready), (0, Ready)]);
    for _ in 0..20 {
        assert_eq!(scene.look(299), Ready);
    }
    scene.look(300);
    assert_eq!(scene.look(300), Crowded);
}

#[test]
fn what_chance_does_begins_nothing() {
    let settings = Settings { above: 0.01, ..SETTINGS };
    let mut scene = Scene { crowding: Crowding::new("b", settings), ..Scene::new() };
    scene.peers(&[(1_000, Ready), (1_000, Ready), (1_000, Ready)]);
    assert_eq!(scene.look(1_150), Ready, "3.5 times the root of the mean above it");
    assert_eq!(scene.look(1_200), Leaning);
}

#[test]
fn while_somebody_is_unready_those_a_little_above_the_mean_take_their_turn() {
    let mut scene = Scene::new();
    scene.peers(&[(8_000, Ready), (10_000, Ready), (10_000, Ready)]);
    assert_eq!(scene.look(10_500), Ready, "9% above");
    scene.peers(&[(8_000, Ready), (10_000, Ready), (10_000, Returning)]);
    assert_eq!(scene.look(10_500), Leaning);
    assert_eq!(scene.look(10_500), Crowded);
}

#[test]
fn a_place_goes_to_one_that_has_far_more_by_now() {
    let mut scene = Scene::crowded();
    scene.peers(&[(100, Ready), (3_000, Ready)]);
    let unready = (0..100).take_while(|_| scene.look(2_000) == Crowded).count();
    assert_eq!(unready, 19, "after twice the time that proxies take");
}

#[test]
fn nobody_is_unready_for_longer_than_the_longest_time_without_a_break_as_long() {
    let mut scene = Scene::crowded();
    let mut count = |standing| (0..10_000).take_while(|_| scene.look(3_000) == standing).count() as u64;
    let longest = SETTINGS.longest.as_secs();
    assert_eq!(count(Crowded), longest - 1);
    let (returning, ready) = (count(Returning), count(Ready));
    assert!(returning + ready >= longest - 3, "{returning} + {ready} s");
    assert!(count(Leaning) < 3);
    assert_eq!(count(Crowded), longest - 1);
}

#[test]
fn whoever_cannot_take_clients_for_another_reason_says_that() {
    let mut scene = Scene::crowded();
    scene.own = Closed;
    assert_eq!(scene.look(3_000), Closed);
    scene.own = Ready;
    assert_eq!(scene.look(3_000), Returning, "proxies have long held it for unready");
}

/// Whatever the counts, in whatever order servers ask, are answered and look.
#[test]
fn at_most_half_have_a_place_at_any_time() {
    let mut taken = 0;
    for seed in 0..150 {
        let mut rng = StdRng::seed_from_u64(seed);
        let count = rng.random_range(2..=7);
        let mut mesh = Mesh::new(count);
        for _ in 0..4_000 {
            mesh.step(&mut rng);
            let places = mesh.reports.iter().filter(|(_, standing)| matches!(standing, Crowded | Returning)).count();
            assert!(places <= count / 2, "{places} of {count}, seed {seed}");
            taken += places;
        }
    }
    assert!(taken > 100_000, "places were taken in {taken} steps");
}

/// One server, and what its peers say each second.
struct Scene {
    crowding: Crowding,
    now: Instant,
    own: Standing,
    said: Vec<(u64, Standing)>,
    /// Whether each is asked, and so heard, before this server looks.
    asked: Vec<bool>,
    heard: Vec<Option<Heard>>,
}

impl Scene {
    fn new() -> Self {
        let (crowding, now) = (Crowding::new("b", SETTINGS), Instant::now());
        Self { crowding, now, own: Ready, said: Vec::new(), asked: Vec::new(), heard: Vec::new() }
    }

    fn crowded() -> Self {
        let mut scene = Self::new();
        scene.peers(&[(900, Ready), (900, Ready)]);
        scene.look(3_000);
        assert_eq!(scene.look(3_000), Crowded);
        scene
    }

    fn peers(&mut self, said: &[(u64, Standing)]) {
        self.said = said.to_vec();
        self.asked = vec![true; said.len()];
        self.heard.resize(said.len(), None);
    }

    fn look(&mut self, connections: u64) -> Standing {
        self.decide(connections).standing
    }

    fn decide(&mut self, connections: u64) -> Decision {
        self.now += SECOND;
        for (n, (connections, standing)) in self.said.iter().enumerate().filter(|(n, _)| self.asked[*n]) {
            self.heard[n] = Some(Heard { asked_at: self.now, connections: *connections, standing: *standing });
        }
        let ids = ["c", "d", "e", "f"];
        let peers: Vec<_> = ids.iter().zip(&self.heard).map(|(id, heard)| Peer { id, heard: *heard }).collect();
        self.crowding.look(self.now, Own { connections, standing: self.own }, &peers)
    }
}

/// Servers whose requests and answers are on their way for any time.
struct Mesh {
    now: Instant,
    servers: Vec<Crowding>,
    clients: Vec<u64>,
    reports: Vec<(u64, Standing)>,
    heard: Vec<Vec<Option<Heard>>>,
    under_way: Vec<Request>,
}

struct Request {
    by: usize,
    whom: usize,
    asked_at: Instant,
    answer: Option<(u64, Standing)>,
}

impl Mesh {
    fn new(count: usize) -> Self {
        let settings = Settings { floor: 0, settle: SECOND, ..SETTINGS };
        Self {
            now: Instant::now(),
            servers: (0..count).map(|n| Crowding::new(&n.to_string(), settings)).collect(),
            clients: vec![1_000; count],
            reports: vec![(1_000, Ready); count],
            heard: vec![vec![None; count]; count],
            under_way: Vec::new(),
        }
    }

    fn step(&mut self, rng: &mut StdRng) {
        let who = rng.random_range(0..self.servers.len());
        match rng.random_range(0..1_000) {
            0..160 => {
                let whom = rng.random_range(0..self.servers.len());
                self.under_way.push(Request { by: who, whom, asked_at: self.now, answer: None });
            }
            160..640 if !self.under_way.is_empty() => {
                let request = rng.random_range(0..self.under_way.len());
                match self.under_way[request].answer {
                    None => self.under_way[request].answer = Some(self.reports[self.under_way[request].whom]),
                    Some(_) => self.arrives(request),
                }
            }
            640..900 => self.look(who),
            900..995 => self.now += Duration::from_millis(rng.random_range(1..150)),
            _ => self.clients[who] = rng.random_range(500..5_000),
        }
    }

    fn arrives(&mut self, request: usize) {
        let Request { by, whom, asked_at, answer } = self.under_way.swap_remove(request);
        let known = &mut self.heard[by][whom];
        // A server asks another only when it has its last answer.
        if let Some((connections, standing)) = answer.filter(|_| known.is_none_or(|known| known.asked_at <= asked_at)) {
            *known = Some(Heard { asked_at, connections, standing });
        }
    }

    fn look(&mut self, who: usize) {
        let ids: Vec<_> = (0..self.servers.len()).map(|n| n.to_string()).collect();
        let others = (0..self.servers.len()).filter(|n| *n != who);
        let peers: Vec<_> = others.map(|n| Peer { id: &ids[n], heard: self.heard[who][n] }).collect();
        let own = Own { connections: self.clients[who], standing: Ready };
        let decision = self.servers[who].look(self.now, own, &peers);
        self.reports[who] = (decision.connections, decision.standing);
    }
}
