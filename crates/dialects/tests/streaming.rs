//! Streamers and players of Pixel Streaming in a small model of the mesh, which delays messages and
//! refuses requests.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::panic)]

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use signaling_dialects::peerjs::Keys;
use signaling_dialects::{Answer, Dialect, Head, Input, Out, Settings, Translator};
use signaling_protocol::client::{self, ClientMessage};

const MAX_PLAYERS: usize = 2;
/// Longest end of a model run: claims, probes and repetitions.
const TAIL_STEPS: usize = 3000;

struct Client {
    translator: Translator,
    requests: VecDeque<String>,
    /// Messages of the mesh under way.
    inbox: VecDeque<String>,
    frames: Vec<String>,
    /// `false`: the socket is broken, and nothing answers a Ping.
    is_alive: bool,
    is_closed: bool,
}

/// Members of a room in order of joining, with their data.
type Room = Vec<(String, Option<String>)>;

struct Mesh {
    now: Instant,
    clients: BTreeMap<String, Client>,
    rooms: BTreeMap<String, Room>,
}

fn list(room: &str, members: &[(String, Option<String>)]) -> String {
    let member = |(name, data): &(String, Option<String>)| match data {
        Some(data) => format!(r#"{{"client_id":"{name}","data":{data}}}"#),
        None => format!(r#"{{"client_id":"{name}"}}"#),
    };
    // Pages of two members, so that clients need several.
    let more = members.len() > 2;
    let page: Vec<String> = members.iter().take(2).map(member).collect();
    format!(r#"{{"type":"joined","room":"{room}","members":[{}],"more":{more}}}"#, page.join(","))
}

impl Mesh {
    fn new() -> Self {
        Self { now: Instant::now(), clients: BTreeMap::new(), rooms: BTreeMap::new() }
    }

    fn connect(&mut self, path: &str, number: u8) -> String {
        let settings = Settings {
            tokens: false,
            peerjs_keys: Keys::default(),
            pixelstreaming_max_players: u32::try_from(MAX_PLAYERS).ok(),
        };
        let head = Head { method: "GET", path, upgrade: true, ..Head::default() };
        let Answer::Upgrade(opening) = Dialect::PixelStreaming.request(&settings, &head, &[number; 32]) else {
            panic!()
        };
        let name = opening.client_id.as_str().to_owned();
        let client = Client {
            translator: opening.translator,
            requests: VecDeque::new(),
            inbox: VecDeque::from([r#"{"type":"welcome","ice_servers":[]}"#.to_owned()]),
            frames: Vec::new(),
            is_alive: true,
            is_closed: false,
        };
        self.clients.insert(name.clone(), client);
        name
    }

    fn input(&mut self, name: &str, input: Input<'_>) {
        let Some(client) = self.clients.get_mut(name).filter(|client| !client.is_closed) else { return };
        let mut out = Out::default();
        client.translator.input(self.now, input, &mut out);
        client.requests.extend(out.requests);
        client.frames.extend(out.frames);
        if out.close.is_some() {
            return self.end(name);
        }
        if out.ping && client.is_alive {
            self.input(name, Input::Pong);
        }
    }

    fn text(&mut self, name: &str, text: &str) {
        self.input(name, Input::Text(text.as_bytes()));
    }

    /// Ends a session: it has no seat any more.
    fn end(&mut self, name: &str) {
        if let Some(client) = self.clients.get_mut(name) {
            client.is_closed = true;
            client.requests.clear();
        }
        for room in self.rooms.keys().cloned().collect::<Vec<_>>() {
            self.leave(&room, name);
        }
    }

    fn send(&mut self, to: &str, message: String) {
        if let Some(client) = self.clients.get_mut(to) {
            client.inbox.push_back(message);
        }
    }

    fn has_events(room: &str) -> bool {
        room != "~ps:list"
    }

    fn leave(&mut self, room: &str, name: &str) {
        let members = self.rooms.entry(room.to_owned()).or_default();
        let before = members.len();
        members.retain(|(member, _)| member != name);
        if members.len() < before && Self::has_events(room) {
            let left = format!(
                r#"{{"type":"members_changed","room":"{room}","joined":[],"left":[{{"client_id":"{name}","reason":"left"}}]}}"#
            );
            self.send_to_members(room, name, &left);
        }
    }

    fn send_to_members(&mut self, room: &str, except: &str, message: &str) {
        let members: Vec<String> = self.rooms[room].iter().map(|(name, _)| name.clone()).collect();
        for member in members.iter().filter(|member| *member != except) {
            self.send(member, message.to_owned());
        }
    }

    fn join(&mut self, room: &str, name: &str, data: Option<String>) -> bool {
        let members = self.rooms.entry(room.to_owned()).or_default();
        if !members.iter().any(|(member, _)| member == name) {
            if room.starts_with("~ps:s:") && !members.is_empty() {
                return false;
            }
            members.push((name.to_owned(), data.clone()));
            if Self::has_events(room) {
                let data = data.map_or_else(String::new, |data| format!(r#","data":{data}"#));
                let joined = format!(
                    r#"{{"type":"members_changed","room":"{room}","joined":[{{"client_id":"{name}"{data}}}],"left":[]}}"#
                );
                self.send_to_members(room, name, &joined);
            }
        }
        if Self::has_events(room) {
            let state = list(room, &self.rooms[room]);
            self.send(name, state);
        }
        true
    }

    /// Executes or refuses the next request of a client.
    fn execute(&mut self, name: &str, refuse: bool) {
        let Some(text) = self.clients.get_mut(name).and_then(|client| client.requests.pop_front()) else { return };
        let message = client::parse(text.as_bytes()).unwrap();
        let id = message.id().unwrap_or_default();
        let mut answer = format!(r#"{{"type":"ack","id":{id}}}"#);
        let unavailable = r#""code":"room_store_unavailable","message":"","retry_after_ms":100}"#;
        match message {
            ClientMessage::Members { room, .. } if refuse => {
                answer = format!(r#"{{"type":"error","room":"{room}",{unavailable}"#);
            }
            ClientMessage::Join { .. } | ClientMessage::Leave { .. } if refuse => {
                answer = format!(r#"{{"type":"error","id":{id},{unavailable}"#);
            }
            ClientMessage::Members { room, after } => {
                let members = self.rooms.get(&*room).cloned().unwrap_or_default();
                let at =
                    after.map_or(0, |after| members.iter().position(|(name, _)| *name == after).map_or(0, |at| at + 1));
                answer = list(&room, &members[at..]);
            }
            ClientMessage::Join { room, data, .. } => {
                if !self.join(&room, name, data.map(|data| data.get().to_owned())) {
                    answer =
                        format!(r#"{{"type":"error","code":"overloaded","message":"","id":{id},"room":"{room}"}}"#);
                }
            }
            ClientMessage::Leave { room, .. } => self.leave(&room, name),
            ClientMessage::Signal { to, data, .. } => {
                if self.clients.get(&*to).is_some_and(|client| !client.is_closed) {
                    self.send(&to, format!(r#"{{"type":"signal","from":"{name}","data":{data},"id":{id}}}"#));
                } else {
                    answer = format!(r#"{{"type":"error","code":"recipient_unavailable","message":"","id":{id}}}"#);
                }
            }
            other => panic!("{other:?}"),
        }
        self.send(name, answer);
    }

    /// Has a client receive one message, executes one request of it, and lets time pass.
    fn step(&mut self, pick: usize, refuse: bool, ms: u64) {
        let names: Vec<String> = self.clients.keys().cloned().collect();
        let name = &names[pick % names.len()];
        self.now += Duration::from_millis(ms);
        self.execute(name, refuse);
        if let Some(message) = self.clients.get_mut(name).and_then(|client| client.inbox.pop_front()) {
            self.input(name, Input::Mesh(message.as_bytes()));
        }
        for name in &names {
            while let Some(deadline) = self.clients[name].translator.deadline().filter(|at| *at <= self.now)
                && !self.clients[name].is_closed
            {
                self.input(name, Input::Tick);
                assert!(self.clients[name].is_closed || self.clients[name].translator.deadline() != Some(deadline));
            }
        }
    }

    fn finish(&mut self) {
        (0..TAIL_STEPS).for_each(|step| self.step(step, false, 3));
        let is_idle = |client: &Client| client.is_closed || (client.requests.is_empty() && client.inbox.is_empty());
        assert!(self.clients.values().all(is_idle));
    }

    fn frames(&self, name: &str, part: &str) -> Vec<&String> {
        self.clients[name].frames.iter().filter(|frame| frame.contains(part)).collect()
    }

    /// Returns the id that a streamer was given last.
    fn id_of(&self, name: &str) -> String {
        let confirm: serde_json::Value =
            serde_json::from_str(self.frames(name, "endpointIdConfirm").last().unwrap()).unwrap();
        confirm["committedId"].as_str().unwrap().to_owned()
    }

    /// Returns the players that a streamer was sent as connected, and not as disconnected since.
    fn players(&self, streamer: &str) -> Vec<String> {
        let mut players: Vec<String> = Vec::new();
        for frame in self.frames(streamer, "playerId") {
            let frame: serde_json::Value = serde_json::from_str(frame).unwrap();
            let id = frame["playerId"].as_str().unwrap().to_owned();
            match frame["type"].as_str() {
                Some("playerConnected") => {
                    assert!(!players.contains(&id), "{id} is connected twice");
                    players.push(id);
                }
                Some("playerDisconnected") => {
                    assert!(players.contains(&id), "{id} is disconnected twice");
                    players.retain(|player| *player != id);
                }
                _ => {}
            }
        }
        players
    }
}

fn steps() -> impl Strategy<Value = Vec<(usize, bool, u64)>> {
    prop::collection::vec((0_usize..100, prop::bool::weighted(0.2), 0_u64..20), 0..120)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn live_streamers_have_different_ids(schedule in steps()) {
        let mut mesh = Mesh::new();
        let streamers: Vec<String> = (1..=4).map(|number| mesh.connect("/streamer", number)).collect();
        for streamer in &streamers {
            mesh.text(streamer, r#"{"type":"endpointId","id":"Foo"}"#);
        }
        for (pick, refuse, ms) in schedule {
            mesh.step(pick, refuse, ms);
        }
        mesh.finish();
        let mut ids: Vec<String> = streamers.iter().map(|name| mesh.id_of(name)).collect();
        ids.sort();
        prop_assert_eq!(ids, ["Foo", "Foo1", "Foo2", "Foo3"]);
        let player = mesh.connect("/player", 9);
        mesh.text(&player, r#"{"type":"listStreamers"}"#);
        mesh.finish();
        prop_assert_eq!(mesh.rooms["~ps:list"].len(), 4);
        let frames = mesh.frames(&player, "streamerList");
        prop_assert!(frames.len() == 1 && frames[0].matches("Foo").count() == 4, "{:?}", frames);
    }

    #[test]
    fn dead_socket_yields_its_id(schedule in steps()) {
        let mut mesh = Mesh::new();
        let dead = mesh.connect("/streamer", 1);
        mesh.text(&dead, r#"{"type":"endpointId","id":"Foo"}"#);
        mesh.finish();
        let player = mesh.connect("/player", 2);
        mesh.text(&player, r#"{"type":"subscribe","streamerId":"Foo"}"#);
        mesh.finish();
        mesh.clients.get_mut(&dead).unwrap().is_alive = false;
        let next = mesh.connect("/streamer", 3);
        mesh.text(&next, r#"{"type":"endpointId","id":"Foo"}"#);
        // Slow meshes end the holder too late for the claim.
        for (pick, _, _) in schedule {
            mesh.step(pick, false, 1);
        }
        mesh.finish();
        prop_assert!(mesh.clients[&dead].is_closed && mesh.clients[&player].is_closed);
        prop_assert_eq!(mesh.id_of(&next), "Foo");
    }

    #[test]
    fn each_player_has_one_verdict(
        schedule in steps(),
        actions in prop::collection::vec((0_usize..4, 0_usize..4), 1..12),
    ) {
        let mut mesh = Mesh::new();
        let streamer = mesh.connect("/streamer", 1);
        mesh.text(&streamer, r#"{"type":"endpointId","id":"Foo"}"#);
        mesh.finish();
        let players: Vec<String> = (2..6).map(|number| mesh.connect("/player", number)).collect();
        let mut actions = actions.into_iter();
        for (at, (pick, refuse, ms)) in schedule.into_iter().enumerate() {
            if at % 8 == 0 && let Some((player, action)) = actions.next() {
                let text = match action {
                    0 => r#"{"type":"unsubscribe"}"#,
                    1 => r#"{"type":"subscribe","streamerId":"nobody"}"#,
                    _ => r#"{"type":"subscribe","streamerId":"Foo"}"#,
                };
                mesh.text(&players[player], text);
            }
            mesh.step(pick, refuse, ms);
        }
        mesh.finish();
        let connected = mesh.players(&streamer);
        prop_assert!(connected.len() <= MAX_PLAYERS);
        // A member of the streamer's room is its player, and the other way round.
        prop_assert_eq!(mesh.rooms["~ps:sub:Foo"].len(), 1 + connected.len());
        // An offer reaches the player and no other.
        for id in &connected {
            mesh.text(&streamer, &format!(r#"{{"type":"offer","sdp":"of {id}","playerId":"{id}"}}"#));
        }
        mesh.finish();
        let offers: usize = players.iter().map(|player| mesh.frames(player, r#""offer""#).len()).sum();
        prop_assert_eq!(offers, connected.len());
        // The players lose the streamer with its socket.
        mesh.end(&streamer);
        mesh.finish();
        let closed = players.iter().filter(|player| mesh.clients[*player].is_closed).count();
        prop_assert_eq!(closed, connected.len());
    }
}
