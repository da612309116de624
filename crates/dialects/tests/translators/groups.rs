//! matchbox clients form groups: any number of translators with a model of the mesh, which delays,
//! combines, refuses and repeats, and in which clients die at any time.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value;
use signaling_dialects::Dialect;
use signaling_rooms::{Room, Rules, Seat, SeatStatus};

use crate::mesh::{Fault, Frames, Message};

/// Cases of each test.
const CASES: u64 = 2000;
/// Maximum members in a list, by seed.
const PAGES: [usize; 3] = [1, 2, 100];

type Mesh = crate::mesh::Mesh<Groups>;

/// Numbers from a seed (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % bound
    }

    fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

/// Knowledge of a client about a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Peer {
    Offered,
    Answered,
    Connected,
    Left,
}

struct Groups {
    random: Random,
    /// Clients of a group. 0: all.
    size: usize,
    /// Peers of each client.
    peers: Vec<BTreeMap<usize, Peer>>,
    /// Number of clients that had connected when a client got its id.
    named_before: BTreeMap<usize, usize>,
    /// Seats of dead clients.
    dead_seats: Vec<(usize, String)>,
}

impl Frames for Groups {
    /// Handles a frame to a client, as matchbox's client does.
    fn receive(mesh: &mut Mesh, number: usize, frame: Value) {
        let (kind, content) = frame.as_object().unwrap().iter().next().unwrap();
        let id = content.as_str().or_else(|| content["sender"].as_str()).unwrap();
        let peer = mesh.clients.iter().position(|client| client.name.ends_with(id)).unwrap();
        let peers = &mut mesh.state.peers;
        peers.resize(mesh.clients.len(), BTreeMap::new());
        let known = peers[number].get(&peer).copied();
        let (state, answer) = match (&**kind, content["data"].as_str(), known) {
            ("IdAssigned", ..) => {
                let rooms = mesh.rooms_of(number);
                let is_in = rooms.iter().any(|room| has_peers(room, mesh.state.size));
                assert!(peer == number && is_in, "client {number} gets an id before it has its room");
                let again = mesh.state.named_before.insert(number, mesh.clients.len());
                return assert_eq!(again, None, "client {number} gets its id twice");
            }
            ("NewPeer", _, None) => {
                assert!(matches!(peers[peer].get(&number), None | Some(Peer::Left)), "both sides offer");
                (Peer::Offered, Some("offer"))
            }
            ("PeerLeft", _, None | Some(Peer::Offered | Peer::Answered | Peer::Connected)) => (Peer::Left, None),
            ("Signal", Some("offer"), None) => (Peer::Answered, Some("answer")),
            ("Signal", Some("answer"), Some(Peer::Offered)) => (Peer::Connected, None),
            other => panic!("{other:?}"),
        };
        peers[number].insert(peer, state);
        if let Some(answer) = answer {
            mesh.text(number, &format!(r#"{{"Signal":{{"receiver":"{id}","data":"{answer}"}}}}"#));
        }
    }
}

fn has_peers(room: &str, size: usize) -> bool {
    size == 0 || room.starts_with("~mb.")
}

impl Mesh {
    fn of_groups(seed: u64, sizes: &[usize]) -> Self {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        // The first numbers of small seeds are alike.
        (0..8).for_each(|_| random.0 = random.0.rotate_left(u32::try_from(random.below(64)).unwrap()));
        let size = sizes[random.below(sizes.len())];
        let (peers, named_before, dead_seats) = Default::default();
        Self::new(PAGES[random.below(3)], Groups { random, size, peers, named_before, dead_seats })
    }

    /// Returns the members of a room in order of joining.
    fn members(&self, room: &Room) -> Vec<usize> {
        let rules = Rules::default();
        let mut seats: Vec<&Seat> = room.seats(&rules).map(|(seat, _)| seat).collect();
        seats.sort_by_key(|seat| match seat.status {
            SeatStatus::Member { place } => place,
            other => panic!("{other:?}"),
        });
        let number = |seat: &&Seat| self.clients.iter().position(|it| it.name == seat.requester.client.as_str());
        seats.iter().filter_map(number).collect()
    }

    /// Returns the rooms in which a client has a seat.
    fn rooms_of(&self, number: usize) -> Vec<String> {
        let rooms = self.rooms.iter().filter(|(_, room)| self.members(room).contains(&number));
        rooms.map(|(name, _)| name.clone()).collect()
    }

    /// Executes or refuses the next request of a client. Its answer may be lost.
    fn execute_with_faults(&mut self, number: usize) {
        let random = &mut self.state.random;
        let fault = match (random.percent(10), random.percent(50)) {
            (false, _) => Fault::None,
            (true, false) => Fault::Refused,
            (true, true) => Fault::AnswerLost,
        };
        self.execute(number, fault);
        let (rooms, size) = (self.rooms_of(number), self.state.size);
        assert!(rooms.iter().filter(|room| has_peers(room, size)).count() <= 1, "client {number} is in two groups");
    }

    /// Sends the state of a room unasked, in place of changes.
    fn resync(&mut self, number: usize) {
        for room in self.rooms_of(number) {
            let queue = self.clients[number].inbox.entry(room.clone()).or_default();
            while let Some(Message::Changes(_)) = queue.back() {
                queue.pop_back();
            }
            let list = self.list(&room, None);
            self.push(number, &room, Message::Text(list));
        }
    }

    fn end_dead_seat(&mut self) {
        let count = self.state.dead_seats.len();
        if count > 0 {
            let at = self.state.random.below(count);
            let (number, room) = self.state.dead_seats.swap_remove(at);
            self.end_seat(number, &room);
        }
    }

    /// Executes a random event.
    fn act(&mut self, max_clients: usize, deaths: usize) {
        let count = self.clients.len();
        if count == 0 || count < max_clients && self.state.random.percent(10) {
            let target = format!("?next={}", self.state.size);
            self.connect(Dialect::Matchbox, &target);
            return;
        }
        let number = self.state.random.below(count);
        if !self.clients[number].is_open {
            return self.end_dead_seat();
        }
        match self.state.random.below(100) {
            0..35 => self.execute_with_faults(number),
            35..85 => {
                let pick = self.state.random.below(100);
                self.deliver(number, pick, |groups| groups.random.percent(50));
            }
            85..95 => {
                let random = &mut self.state.random;
                let ms = [random.below(100), random.below(2000)][usize::from(random.percent(10))] as u64;
                self.advance(Duration::from_millis(ms));
            }
            95..97 => self.resync(number),
            _ if self.state.random.percent(deaths) => {
                let seats = self.kill(number);
                self.state.dead_seats.extend(seats.into_iter().map(|room| (number, room)));
            }
            _ => {}
        }
    }

    /// Checks groups, and peers of each client.
    fn check(&self) {
        let Groups { size, peers, named_before, .. } = &self.state;
        assert!(self.left_full.is_empty(), "clients have left full groups: {:?}", self.left_full);
        let mut waiting = 0;
        let mut grouped = BTreeSet::new();
        for (name, room) in self.rooms.iter().filter(|(name, _)| has_peers(name, *size)) {
            let living = self.members(room);
            assert!(*size == 0 || living.len() <= *size);
            waiting += if self.full.contains(name) { 0 } else { living.len() };
            for (at, one) in living.iter().enumerate() {
                assert!(grouped.insert(*one), "client {one} is in two groups");
                for other in &living[at + 1..] {
                    assert!(*one < named_before[other], "{one} connected after {other} had its id, and is older");
                    let ends = [peers[*one].get(other), peers[*other].get(one)];
                    assert_eq!(ends, [Some(&Peer::Connected), Some(&Peer::Answered)], "{one} and {other}");
                }
            }
            let group: BTreeSet<usize> = living.iter().copied().collect();
            for member in &living {
                let strangers =
                    peers[*member].iter().filter(|(peer, state)| **state != Peer::Left && !group.contains(peer));
                assert_eq!(strangers.count(), 0, "client {member} has peers outside its group");
            }
        }
        assert!(self.clients.iter().all(|client| client.close.is_none()));
        let living = self.clients.iter().filter(|client| client.is_open).count();
        assert_eq!(grouped.len(), living, "each client is in a group");
        assert!(*size == 0 || waiting < *size, "{waiting} clients wait for a group of {size}");
    }
}

fn run(seed: u64, sizes: &[usize]) {
    let mut mesh = Mesh::of_groups(seed, sizes);
    let random = &mut mesh.state.random;
    let (max_clients, events, deaths) = (2 + random.below(5), random.below(180), random.below(100));
    (0..events).for_each(|_| mesh.act(max_clients, deaths));
    while !mesh.state.dead_seats.is_empty() {
        mesh.end_dead_seat();
    }
    mesh.finish();
    mesh.check();
}

fn run_all(seeds: std::ops::Range<u64>, sizes: &[usize]) {
    for seed in seeds {
        if let Err(panic) = std::panic::catch_unwind(|| run(seed, sizes)) {
            eprintln!("seed {seed}");
            std::panic::resume_unwind(panic);
        }
    }
}

#[test]
fn pairs_form_despite_faults() {
    run_all(0..CASES, &[2]);
}

#[test]
fn groups_form_despite_faults() {
    run_all(0..CASES, &[3, 4]);
}

#[test]
fn clients_of_a_room_meet_despite_faults() {
    run_all(0..CASES / 5, &[0]);
}
