//! matchbox clients form groups: any number of translators with a model of the mesh, which delays,
//! combines, refuses and repeats, and in which clients die at any time.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use serde_json::value::RawValue;
use signaling_dialects::{Answer, Dialect, Head, Input, Out, Settings, Translator};
use signaling_protocol::client::{self, ClientMessage};

/// Cases of each test.
const CASES: u64 = 5000;
const ERROR: &str = r#"{"type":"error","code":"room_store_unavailable","message":"","retry_after_ms":300,"id":"#;

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

#[derive(Clone)]
enum Message {
    Text(String),
    /// Members that joined, with their data, or left.
    Change(BTreeMap<usize, Option<String>>),
}

/// Knowledge of a client about a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Peer {
    Offered,
    Answered,
    Connected,
    Left,
}

struct Client {
    translator: Translator,
    name: String,
    is_alive: bool,
    requests: VecDeque<String>,
    /// Messages of the mesh, in order for each room and each sender.
    inbox: BTreeMap<String, VecDeque<Message>>,
    peers: BTreeMap<usize, Peer>,
}

#[derive(Default)]
struct Room {
    members: Vec<(usize, String)>,
    was_full: bool,
    /// Living clients that left the room.
    leavers: BTreeSet<usize>,
}

struct Mesh {
    random: Random,
    now: Instant,
    /// Clients of a group. 0: all.
    size: usize,
    clients: Vec<Client>,
    rooms: BTreeMap<String, Room>,
    /// Seats of dead clients.
    dead_seats: Vec<(usize, String)>,
}

fn has_peers(room: &str, size: usize) -> bool {
    room.split(':').count() == if size == 0 { 2 } else { 4 }
}

impl Mesh {
    fn new(seed: u64, sizes: &[usize]) -> Self {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        // The first numbers of small seeds are alike.
        (0..8).for_each(|_| random.0 = random.0.rotate_left(u32::try_from(random.below(64)).unwrap()));
        let size = sizes[random.below(sizes.len())];
        let (clients, rooms, dead_seats) = Default::default();
        Self { random, now: Instant::now(), size, clients, rooms, dead_seats }
    }

    fn start_client(&mut self) {
        let number = self.clients.len();
        let settings = Settings::default();
        let query = format!("next={}", self.size);
        let head = Head { method: "GET", query: &query, upgrade: true, ..Head::default() };
        let random = [u8::try_from(number).unwrap(); 32];
        let Answer::Upgrade(opening) = Dialect::Matchbox.request(&settings, &head, &random) else { panic!() };
        let (translator, name) = (opening.translator, opening.client_id.to_string());
        let (requests, inbox, peers) = Default::default();
        self.clients.push(Client { translator, name, is_alive: true, requests, inbox, peers });
        self.input(number, Input::Mesh(br#"{"type":"welcome"}"#));
    }

    fn input(&mut self, number: usize, input: Input<'_>) {
        let mut out = Out::default();
        self.clients[number].translator.input(self.now, input, &mut out);
        assert_eq!(out.close, None);
        self.clients[number].requests.extend(out.requests);
        out.frames.iter().for_each(|frame| self.frame(number, frame));
    }

    /// Handles a frame to a client, as matchbox's client does.
    fn frame(&mut self, number: usize, frame: &str) {
        let frame: serde_json::Value = serde_json::from_str(frame).unwrap();
        let (kind, content) = frame.as_object().unwrap().iter().next().unwrap();
        let id = content.as_str().or_else(|| content["sender"].as_str()).unwrap();
        let peer = self.clients.iter().position(|client| client.name.ends_with(id)).unwrap();
        let known = self.clients[number].peers.get(&peer).copied();
        let (state, answer) = match (&**kind, content["data"].as_str(), known) {
            ("IdAssigned", ..) => return,
            ("NewPeer", _, None) => {
                let other = self.clients[peer].peers.get(&number);
                assert!(matches!(other, None | Some(Peer::Left)), "both sides offer");
                (Peer::Offered, Some("offer"))
            }
            ("PeerLeft", _, None | Some(Peer::Offered | Peer::Answered | Peer::Connected)) => (Peer::Left, None),
            ("Signal", Some("offer"), None) => (Peer::Answered, Some("answer")),
            ("Signal", Some("answer"), Some(Peer::Offered)) => (Peer::Connected, None),
            other => panic!("{other:?}"),
        };
        self.clients[number].peers.insert(peer, state);
        if let Some(answer) = answer {
            let text = format!(r#"{{"Signal":{{"receiver":"{id}","data":"{answer}"}}}}"#);
            self.input(number, Input::Text(text.as_bytes()));
        }
    }

    fn push(&mut self, number: usize, source: &str, message: Message) {
        self.clients[number].inbox.entry(source.to_owned()).or_default().push_back(message);
    }

    fn answer(&mut self, number: usize, source: &str, text: String) {
        self.push(number, source, Message::Text(text));
    }

    /// Announces a change to the other members of a room.
    fn announce(&mut self, room: &str, number: usize, data: Option<&str>) {
        let others: Vec<usize> = self.rooms[room].members.iter().map(|(member, _)| *member).collect();
        for other in others.into_iter().filter(|other| *other != number) {
            self.push(other, room, Message::Change(BTreeMap::from([(number, data.map(str::to_owned))])));
        }
    }

    fn list(&self, room: &str) -> String {
        let member = |(number, data): &(usize, String)| {
            format!(r#"{{"client_id":"{}","data":{data}}}"#, self.clients[*number].name)
        };
        let members: Vec<String> = self.rooms[room].members.iter().map(member).collect();
        format!(r#"{{"type":"joined","room":"{room}","members":[{}],"more":false}}"#, members.join(","))
    }

    /// Executes or refuses the next request of a client.
    fn execute(&mut self, number: usize, faults: usize) {
        let Some(text) = self.clients[number].requests.pop_front() else { return };
        let message = client::parse(text.as_bytes()).unwrap();
        let id = message.id().unwrap();
        let ack = format!(r#"{{"type":"ack","id":{id}}}"#);
        let is_refused = self.random.percent(faults);
        let is_lost = is_refused && self.random.percent(50);
        match message {
            ClientMessage::Signal { to, data, .. } => {
                let to = self.clients.iter().position(|client| client.name == *to).unwrap();
                let from = self.clients[number].name.clone();
                self.answer(to, &from, format!(r#"{{"type":"signal","from":"{from}","data":{data}}}"#));
            }
            ClientMessage::Join { room, .. } | ClientMessage::Leave { room, .. } if is_refused && !is_lost => {
                self.answer(number, &room, format!("{ERROR}{id}}}"));
            }
            ClientMessage::Join { room, data, .. } => {
                let Some(list) = self.join(number, &room, data.map(RawValue::get)) else {
                    let wait = if self.random.percent(50) { r#","retry_after_ms":1000"# } else { "" };
                    let error = format!(r#"{{"type":"error","code":"overloaded","message":"","id":{id}{wait}}}"#);
                    return self.answer(number, &room, error);
                };
                if is_lost {
                    return self.answer(number, &room, format!("{ERROR}{id}}}"));
                }
                self.answer(number, &room, list);
                self.answer(number, &room, ack);
            }
            ClientMessage::Leave { room, .. } => {
                self.remove(number, &room, true);
                self.answer(number, &room, format!(r#"{{"type":"left","room":"{room}","reason":"left"}}"#));
                let outcome = if is_lost { format!("{ERROR}{id}}}") } else { ack };
                self.answer(number, &room, outcome);
            }
            other => panic!("{other:?}"),
        }
    }

    /// Returns the members. `None`: the room is full.
    fn join(&mut self, number: usize, name: &str, data: Option<&str>) -> Option<String> {
        let size = self.size;
        let has_seat = |room: &Room| room.members.iter().any(|(member, _)| *member == number);
        if has_peers(name, size) {
            let is_other = |(other, room): (&String, &Room)| other != name && has_peers(other, size) && has_seat(room);
            assert!(!self.rooms.iter().any(is_other), "client {number} is in two groups");
        }
        let room = self.rooms.entry(name.to_owned()).or_default();
        let is_news = match room.members.iter_mut().find(|(member, _)| *member == number) {
            Some((_, known)) => data.is_some_and(|data| std::mem::replace(known, data.to_owned()) != data),
            None if has_peers(name, size) && room.was_full => return None,
            None => {
                room.members.push((number, data.unwrap_or("null").to_owned()));
                room.was_full |= has_peers(name, size) && room.members.len() == size;
                true
            }
        };
        if is_news {
            self.announce(name, number, Some(data.unwrap_or("null")));
        }
        Some(self.list(name))
    }

    fn remove(&mut self, number: usize, name: &str, is_alive: bool) {
        let Some(room) = self.rooms.get_mut(name) else { return };
        let before = room.members.len();
        room.members.retain(|(member, _)| *member != number);
        if room.members.len() == before {
            return;
        }
        if is_alive {
            room.leavers.insert(number);
        }
        if room.members.is_empty() {
            self.rooms.remove(name);
        } else {
            self.announce(name, number, None);
        }
    }

    /// Delivers the next message of one source, with later changes at random.
    fn deliver(&mut self, number: usize, source: &str) {
        let Some(queue) = self.clients[number].inbox.get_mut(source) else { return };
        let Some(mut message) = queue.pop_front() else { return };
        while let Message::Change(changes) = &mut message
            && let Some(Message::Change(next)) = queue.front()
            && self.random.percent(50)
        {
            changes.extend(next.clone());
            queue.pop_front();
        }
        if queue.is_empty() {
            self.clients[number].inbox.remove(source);
        }
        let text = match message {
            Message::Text(text) => text,
            Message::Change(changes) => {
                let (mut joined, mut left) = (String::new(), String::new());
                for (member, data) in changes {
                    let name = &self.clients[member].name;
                    match data {
                        Some(data) => write!(joined, r#",{{"client_id":"{name}","data":{data}}}"#).unwrap(),
                        None => write!(left, r#",{{"client_id":"{name}","reason":"left"}}"#).unwrap(),
                    }
                }
                let (joined, left) = (joined.trim_start_matches(','), left.trim_start_matches(','));
                format!(r#"{{"type":"members_changed","room":"{source}","joined":[{joined}],"left":[{left}]}}"#)
            }
        };
        self.input(number, Input::Mesh(text.as_bytes()));
    }

    /// Sends the state of a room unasked, in place of changes.
    fn resync(&mut self, number: usize) {
        let seats = |(name, room): (&String, &Room)| {
            room.members.iter().any(|(member, _)| *member == number).then(|| name.clone())
        };
        let rooms: Vec<String> = self.rooms.iter().filter_map(seats).collect();
        for room in rooms {
            let queue = self.clients[number].inbox.entry(room.clone()).or_default();
            while let Some(Message::Change(_)) = queue.back() {
                queue.pop_back();
            }
            let list = self.list(&room);
            self.answer(number, &room, list);
        }
    }

    fn kill(&mut self, number: usize) {
        self.clients[number].is_alive = false;
        self.clients[number].requests.clear();
        self.clients[number].inbox.clear();
        let has_seat = |room: &Room| room.members.iter().any(|(member, _)| *member == number);
        let seats: Vec<String> =
            self.rooms.iter().filter(|(_, room)| has_seat(room)).map(|(name, _)| name.clone()).collect();
        self.dead_seats.extend(seats.into_iter().map(|room| (number, room)));
    }

    fn end_seat(&mut self) {
        if !self.dead_seats.is_empty() {
            let at = self.random.below(self.dead_seats.len());
            let (number, room) = self.dead_seats.swap_remove(at);
            self.remove(number, &room, false);
        }
    }

    fn tick(&mut self, time: Duration) {
        self.now += time;
        for number in 0..self.clients.len() {
            let is_due = self.clients[number].translator.deadline().is_some_and(|deadline| deadline <= self.now);
            if is_due && self.clients[number].is_alive {
                self.input(number, Input::Tick);
                let next = self.clients[number].translator.deadline();
                assert!(next.is_none_or(|next| next > self.now), "a tick is due at once again");
            }
        }
    }

    /// Executes a random event.
    fn act(&mut self, max_clients: usize, deaths: usize) {
        if self.clients.is_empty() || self.clients.len() < max_clients && self.random.percent(10) {
            return self.start_client();
        }
        let number = self.random.below(self.clients.len());
        if !self.clients[number].is_alive {
            return self.end_seat();
        }
        match self.random.below(100) {
            0..35 => self.execute(number, 10),
            35..85 => {
                let sources = self.clients[number].inbox.len();
                if sources > 0 {
                    let at = self.random.below(sources);
                    let source = self.clients[number].inbox.keys().nth(at).unwrap().clone();
                    self.deliver(number, &source);
                }
            }
            85..95 => {
                let ms = [self.random.below(100), self.random.below(2000)][usize::from(self.random.percent(10))] as u64;
                self.tick(Duration::from_millis(ms));
            }
            95..97 => self.resync(number),
            _ if self.random.percent(deaths) => self.kill(number),
            _ => {}
        }
    }

    /// Executes all that is left, without faults.
    fn finish(&mut self) {
        for _ in 0..1000 {
            let mut is_idle = true;
            for number in 0..self.clients.len() {
                while self.clients[number].is_alive && !self.clients[number].requests.is_empty() {
                    self.execute(number, 0);
                    is_idle = false;
                }
                while let Some(source) = self.clients[number].inbox.keys().next().cloned() {
                    if !self.clients[number].is_alive {
                        break;
                    }
                    self.deliver(number, &source);
                    is_idle = false;
                }
            }
            while !self.dead_seats.is_empty() {
                self.end_seat();
                is_idle = false;
            }
            if is_idle {
                let living = self.clients.iter().filter(|client| client.is_alive);
                let Some(next) = living.filter_map(|client| client.translator.deadline()).min() else { return };
                self.tick(next.saturating_duration_since(self.now));
            }
        }
        panic!("the mesh does not come to rest");
    }

    /// Checks groups, and peers of each client.
    fn check(&self) {
        let mut waiting = 0;
        let mut grouped = BTreeSet::new();
        for room in self.rooms.iter().filter(|(name, _)| has_peers(name, self.size)).map(|(_, room)| room) {
            let living: Vec<usize> = room.members.iter().map(|(member, _)| *member).collect();
            assert!(self.size == 0 || living.len() <= self.size);
            assert!(!room.was_full || room.leavers.is_empty(), "a client has left a full group");
            waiting += if room.was_full { 0 } else { living.len() };
            for (at, one) in living.iter().enumerate() {
                assert!(grouped.insert(*one), "client {one} is in two groups");
                for other in &living[at + 1..] {
                    let peers = (self.clients[*one].peers.get(other), self.clients[*other].peers.get(one));
                    assert_eq!(peers, (Some(&Peer::Connected), Some(&Peer::Answered)), "{one} and {other}");
                }
            }
            let group: BTreeSet<usize> = living.iter().copied().collect();
            for member in &living {
                let peers = &self.clients[*member].peers;
                let strangers = peers.iter().filter(|(peer, state)| **state != Peer::Left && !group.contains(peer));
                assert_eq!(strangers.count(), 0, "client {member} has peers outside its group");
            }
        }
        let living = self.clients.iter().filter(|client| client.is_alive).count();
        assert_eq!(grouped.len(), living, "each client is in a group");
        assert!(self.size == 0 || waiting < self.size, "{waiting} clients wait for a group of {}", self.size);
    }
}

fn run(seed: u64, sizes: &[usize]) {
    let mut mesh = Mesh::new(seed, sizes);
    let (max_clients, events) = (2 + mesh.random.below(5), mesh.random.below(180));
    let deaths = mesh.random.below(100);
    (0..events).for_each(|_| mesh.act(max_clients, deaths));
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
