//! Clients of GStreamer list, call and leave each other. A mesh delivers signals and changes of the
//! room in any order of their senders.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::panic)]

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use proptest::prelude::*;
use serde_json::{Value, json};
use signaling_dialects::{Answer, Dialect, Head, Input, Out, Settings, Translator};
use signaling_protocol::client::{self, ClientMessage};

const CLIENTS: usize = 3;

struct Client {
    name: String,
    translator: Translator,
    is_alive: bool,
    requests: VecDeque<String>,
    /// Messages by their senders. The last queue is the room's, and has answers too.
    inbox: Vec<VecDeque<(String, Option<u64>)>>,
    /// Frames that the client received.
    frames: Vec<Value>,
}

impl Client {
    fn new(number: usize, path: &str) -> Self {
        let settings = Settings::default();
        let head = Head { method: "GET", path, upgrade: true, ..Head::default() };
        let random = [u8::try_from(number).unwrap(); 32];
        let Answer::Upgrade(opening) = Dialect::GStreamer.request(&settings, &head, &random) else { panic!() };
        Self {
            name: opening.client_id.as_str().to_owned(),
            translator: opening.translator,
            is_alive: true,
            requests: VecDeque::new(),
            inbox: vec![VecDeque::new(); CLIENTS + 1],
            frames: Vec::new(),
        }
    }

    fn id(&self) -> &str {
        self.name.strip_prefix("~gs:").unwrap()
    }

    fn input(&mut self, now: Instant, input: Input<'_>) {
        let mut out = Out::default();
        self.translator.input(now, input, &mut out);
        assert_eq!(out.close, None);
        self.requests.extend(out.requests);
        self.frames.extend(out.frames.iter().map(|frame| serde_json::from_str::<Value>(frame).unwrap()));
    }

    fn of_type<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Value> {
        self.frames.iter().filter(move |frame| frame["type"] == kind)
    }

    /// Returns the id of the last session.
    fn session(&self) -> Option<String> {
        let starts = |frame: &&Value| frame["type"] == "sessionStarted" || frame["type"] == "startSession";
        self.frames.iter().rev().find(starts).map(|frame| frame["sessionId"].as_str().unwrap().to_owned())
    }
}

struct Mesh {
    now: Instant,
    clients: Vec<Client>,
    /// Rooms with the members' numbers and data.
    rooms: BTreeMap<String, Vec<(usize, String)>>,
}

impl Mesh {
    fn new(paths: [&str; CLIENTS]) -> Self {
        let now = Instant::now();
        let mut clients: Vec<Client> =
            paths.iter().enumerate().map(|(number, path)| Client::new(number, path)).collect();
        clients.iter_mut().for_each(|client| client.input(now, Input::Mesh(br#"{"type":"welcome"}"#)));
        Self { now, clients, rooms: BTreeMap::new() }
    }

    fn one_room() -> Self {
        let mut mesh = Self::new(["/room"; CLIENTS]);
        mesh.settle();
        mesh
    }

    fn send(&mut self, number: usize, message: &Value) {
        let client = &mut self.clients[number];
        if client.is_alive && !client.translator.is_full() {
            client.input(self.now, Input::Text(message.to_string().as_bytes()));
        }
    }

    fn set_status(&mut self, number: usize, roles: &Value) {
        self.send(number, &json!({"type": "setPeerStatus", "roles": roles, "meta": {"n": number}}));
    }

    fn start(&mut self, number: usize, other: usize) {
        let peer = self.clients[other].id().to_owned();
        self.send(number, &json!({"type": "startSession", "peerId": peer}));
    }

    fn change_room(&mut self, room: &str, number: usize, changed: &str) {
        let members = self.rooms.get(room).cloned().unwrap_or_default();
        for (member, _) in members.iter().filter(|(member, _)| *member != number) {
            let text = format!(r#"{{"type":"members_changed","room":"{room}",{changed}}}"#);
            self.clients[*member].inbox[CLIENTS].push_back((text, None));
        }
    }

    /// Executes the next request of a client.
    fn execute(&mut self, number: usize) -> bool {
        let Some(text) = self.clients[number].requests.pop_front() else { return false };
        let name = self.clients[number].name.clone();
        match client::parse(text.as_bytes()).unwrap() {
            ClientMessage::Join { room, data, id } if self.clients[number].is_alive => {
                let data = data.unwrap().get();
                let members = self.rooms.entry(room.to_string()).or_default();
                members.retain(|(member, _)| *member != number);
                members.push((number, data.to_owned()));
                let clients = &self.clients;
                let entry = |(member, data): &(usize, String)| {
                    format!(r#"{{"client_id":"{}","data":{data}}}"#, clients[*member].name)
                };
                let listed: Vec<String> = members.iter().map(entry).collect();
                let (count, listed) = (members.len(), listed.join(","));
                let joined = format!(r#"{{"type":"joined","room":"{room}","count":{count},"members":[{listed}]}}"#);
                let answers = &mut self.clients[number].inbox[CLIENTS];
                answers.push_back((joined, None));
                answers.push_back((format!(r#"{{"type":"ack","id":{}}}"#, id.unwrap()), None));
                let joined = format!(r#""joined":[{{"client_id":"{name}","data":{data}}}],"left":[]"#);
                self.change_room(&room, number, &joined);
            }
            ClientMessage::Signal { to, data, id, .. } => {
                let recipient = self.clients.iter().position(|client| client.is_alive && *client.name == *to);
                match recipient {
                    Some(recipient) => {
                        let text = format!(r#"{{"type":"signal","from":"{name}","data":{data}}}"#);
                        self.clients[recipient].inbox[number].push_back((text, id));
                    }
                    None => self.fail(number, id.unwrap()),
                }
            }
            ClientMessage::Join { .. } => {}
            other => panic!("{other:?}"),
        }
        true
    }

    fn fail(&mut self, number: usize, id: u64) {
        let error = format!(r#"{{"type":"error","code":"recipient_unavailable","message":"","id":{id}}}"#);
        self.clients[number].inbox[CLIENTS].push_back((error, None));
    }

    /// Delivers the next message of a sender, or of the room, to a client.
    fn deliver(&mut self, number: usize, sender: usize) -> bool {
        let client = &mut self.clients[number];
        let Some((text, id)) = client.inbox[sender].pop_front() else { return false };
        if client.is_alive {
            client.input(self.now, Input::Mesh(text.as_bytes()));
        }
        if let Some(id) = id {
            self.clients[sender].inbox[CLIENTS].push_back((format!(r#"{{"type":"ack","id":{id}}}"#), None));
        }
        true
    }

    /// Ends a client's socket. Its requests may still be executed.
    fn kill(&mut self, number: usize) {
        if !std::mem::take(&mut self.clients[number].is_alive) {
            return;
        }
        for sender in 0..CLIENTS {
            let undelivered: Vec<_> = self.clients[number].inbox[sender].drain(..).collect();
            undelivered.into_iter().for_each(|(_, id)| self.fail(sender, id.unwrap()));
        }
        let left = format!(r#""joined":[],"left":[{{"client_id":"{}","reason":"left"}}]"#, self.clients[number].name);
        for room in self.rooms.keys().cloned().collect::<Vec<_>>() {
            self.rooms.get_mut(&room).unwrap().retain(|(member, _)| *member != number);
            self.change_room(&room, number, &left);
        }
    }

    fn settle(&mut self) {
        let mut moves = true;
        while moves {
            moves = false;
            for number in 0..CLIENTS {
                moves |= self.execute(number);
                for sender in 0..=CLIENTS {
                    moves |= self.deliver(number, sender);
                }
            }
        }
    }
}

/// Returns the frame without its session id, which no test knows before.
fn without_session(frame: &Value) -> Value {
    let mut frame = frame.clone();
    frame.as_object_mut().unwrap().remove("sessionId");
    frame
}

/// Connects a consumer with a producer, and returns the id of their session.
fn call(mesh: &mut Mesh, asker: usize, asked: usize) -> String {
    mesh.start(asker, asked);
    mesh.settle();
    let id = mesh.clients[asker].session().unwrap();
    assert_eq!(mesh.clients[asked].session().as_ref(), Some(&id));
    id
}

#[test]
fn late_listener_lists_producers_and_receives_changes() {
    let mut mesh = Mesh::one_room();
    mesh.set_status(0, &json!(["producer"]));
    mesh.settle();
    mesh.set_status(1, &json!(["listener"]));
    mesh.settle();
    mesh.send(1, &json!({"type": "list"}));
    let producer = mesh.clients[0].id().to_owned();
    let own =
        json!({"type": "peerStatusChanged", "roles": ["listener"], "meta": {"n": 1}, "peerId": mesh.clients[1].id()});
    let list = json!({"type": "list", "producers": [{"id": producer, "meta": {"n": 0}}]});
    assert_eq!(mesh.clients[1].frames[1..], [own, list]);
    mesh.set_status(2, &json!(["producer"]));
    mesh.settle();
    let added =
        json!({"type": "peerStatusChanged", "roles": ["producer"], "meta": {"n": 2}, "peerId": mesh.clients[2].id()});
    assert_eq!(mesh.clients[1].frames.last(), Some(&added));
    mesh.kill(0);
    mesh.settle();
    let removed = json!({"type": "peerStatusChanged", "roles": [], "meta": {"n": 0}, "peerId": producer});
    assert_eq!(mesh.clients[1].frames.last(), Some(&removed));
}

#[test]
fn consumer_starts_a_session_that_the_producer_ends() {
    let mut mesh = Mesh::one_room();
    mesh.set_status(0, &json!(["producer"]));
    mesh.settle();
    let id = call(&mut mesh, 1, 0);
    let ids = [mesh.clients[0].id().to_owned(), mesh.clients[1].id().to_owned()];
    let started = json!({"type": "sessionStarted", "peerId": ids[0]});
    let start = json!({"type": "startSession", "peerId": ids[1], "offer": null});
    assert_eq!(without_session(mesh.clients[1].frames.last().unwrap()), started);
    assert_eq!(without_session(mesh.clients[0].frames.last().unwrap()), start);
    let offer = json!({"type": "peer", "sessionId": id, "sdp": {"type": "offer", "sdp": "v=0"}});
    let answer = json!({"type": "peer", "sessionId": id, "sdp": {"type": "answer", "sdp": "v=1"}});
    mesh.send(0, &offer);
    mesh.settle();
    mesh.send(1, &answer);
    mesh.settle();
    assert_eq!((mesh.clients[1].frames.last(), mesh.clients[0].frames.last()), (Some(&offer), Some(&answer)));
    let end = json!({"type": "endSession", "sessionId": id});
    mesh.send(0, &end);
    mesh.settle();
    assert_eq!(mesh.clients[1].frames.last(), Some(&end));
    assert_eq!(mesh.clients[0].frames.last(), Some(&answer));
}

#[test]
fn producer_starts_a_session_that_the_consumer_ends() {
    let mut mesh = Mesh::one_room();
    mesh.set_status(0, &json!(["producer"]));
    mesh.set_status(1, &json!(["consumer"]));
    mesh.settle();
    let id = call(&mut mesh, 0, 1);
    assert_eq!(mesh.clients[0].of_type("startSession").count(), 1);
    assert_eq!(mesh.clients[1].of_type("sessionStarted").count(), 1);
    let end = json!({"type": "endSession", "sessionId": id});
    mesh.send(1, &end);
    mesh.settle();
    assert_eq!(mesh.clients[0].frames.last(), Some(&end));
}

#[test]
fn session_ends_when_either_side_dies() {
    for dead in [0, 1] {
        let mut mesh = Mesh::one_room();
        mesh.set_status(0, &json!(["producer"]));
        mesh.settle();
        let id = call(&mut mesh, 1, 0);
        mesh.kill(dead);
        mesh.settle();
        let ends: Vec<&Value> = mesh.clients[1 - dead].of_type("endSession").collect();
        assert_eq!(ends, [&json!({"type": "endSession", "sessionId": id})]);
    }
}

#[test]
fn role_that_ends_ends_its_sessions_at_the_other_side() {
    let mut mesh = Mesh::one_room();
    mesh.set_status(0, &json!(["producer"]));
    mesh.settle();
    call(&mut mesh, 1, 0);
    mesh.set_status(0, &json!(["listener"]));
    mesh.settle();
    let ends = [0, 1].map(|number| mesh.clients[number].of_type("endSession").count());
    assert_eq!(ends, [0, 1]);
}

#[test]
fn session_with_an_absent_or_idle_peer_is_an_error() {
    let mut mesh = Mesh::one_room();
    let ids: Vec<String> = mesh.clients.iter().map(|client| client.id().to_owned()).collect();
    mesh.set_status(0, &json!(["listener"]));
    mesh.settle();
    mesh.start(0, 1);
    mesh.settle();
    let details = format!("Missing a producer or a consumer: id {} roles [Listener], id {} roles []", ids[0], ids[1]);
    assert_eq!(mesh.clients[0].frames.last(), Some(&json!({"type": "error", "details": details})));
    mesh.kill(2);
    mesh.settle();
    mesh.start(0, 2);
    mesh.settle();
    let details = format!("Peer with ID '{}' not found", ids[2]);
    assert_eq!(mesh.clients[0].frames.last(), Some(&json!({"type": "error", "details": details})));
}

#[test]
fn peer_of_another_path_is_neither_listed_nor_found() {
    let mut mesh = Mesh::new(["/a", "/b", "/b"]);
    mesh.settle();
    mesh.set_status(0, &json!(["producer"]));
    mesh.settle();
    mesh.send(1, &json!({"type": "list"}));
    assert_eq!(mesh.clients[1].frames.last(), Some(&json!({"type": "list", "producers": []})));
    mesh.start(1, 0);
    mesh.settle();
    let details = format!("Peer with ID '{}' not found", mesh.clients[0].id());
    assert_eq!(mesh.clients[1].frames.last(), Some(&json!({"type": "error", "details": details})));
}

#[test]
fn stranger_cannot_use_a_session_of_others() {
    let mut mesh = Mesh::one_room();
    mesh.set_status(0, &json!(["producer"]));
    mesh.settle();
    let id = call(&mut mesh, 1, 0);
    let before: Vec<usize> = mesh.clients.iter().map(|client| client.frames.len()).collect();
    mesh.send(2, &json!({"type": "peer", "sessionId": id, "sdp": {"type": "answer", "sdp": "v=0"}}));
    mesh.send(2, &json!({"type": "endSession", "sessionId": id}));
    mesh.settle();
    let after: Vec<usize> = mesh.clients.iter().map(|client| client.frames.len()).collect();
    assert_eq!(before, after);
}

/// An action of a client, or a step of the mesh.
#[derive(Debug, Clone, Copy)]
enum Step {
    Execute(usize),
    Deliver(usize, usize),
    Status(usize, usize),
    Start(usize, usize),
    Relay(usize),
    End(usize),
    Kill(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let client = 0..CLIENTS;
    prop_oneof![
        6 => client.clone().prop_map(Step::Execute),
        8 => (client.clone(), 0..=CLIENTS).prop_map(|(number, sender)| Step::Deliver(number, sender)),
        2 => (client.clone(), 0_usize..4).prop_map(|(number, roles)| Step::Status(number, roles)),
        3 => (client.clone(), client.clone()).prop_map(|(number, other)| Step::Start(number, other)),
        3 => client.clone().prop_map(Step::Relay),
        1 => client.clone().prop_map(Step::End),
        1 => client.prop_map(Step::Kill),
    ]
}

/// Checks the order of each session's frames, and returns the sessions that the client has open.
fn open_sessions(client: &Client, ended: &[(usize, String)], number: usize) -> BTreeMap<String, String> {
    let (mut open, mut closed) = (BTreeMap::new(), Vec::new());
    for frame in &client.frames {
        let Some(id) = frame["sessionId"].as_str() else { continue };
        match frame["type"].as_str().unwrap() {
            "sessionStarted" | "startSession" => {
                assert!(!closed.contains(&id), "{id} starts twice");
                let partner = frame["peerId"].as_str().unwrap().to_owned();
                assert_eq!(open.insert(id.to_owned(), partner), None, "{id} starts twice");
            }
            "peer" => assert!(open.contains_key(id), "a message of {id} comes before its start or after its end"),
            "endSession" => {
                assert!(open.remove(id).is_some(), "{id} ends without a start");
                closed.push(id);
            }
            other => panic!("{other}"),
        }
    }
    open.retain(|id, _| !ended.contains(&(number, id.clone())));
    open
}

proptest! {
    #[test]
    fn both_sides_agree_about_their_sessions(steps in prop::collection::vec(step(), 0..120)) {
        let mut mesh = Mesh::one_room();
        mesh.set_status(0, &json!(["producer"]));
        mesh.set_status(1, &json!(["consumer"]));
        mesh.settle();
        let mut ended = Vec::new();
        for step in steps {
            match step {
                Step::Execute(number) => drop(mesh.execute(number)),
                Step::Deliver(number, sender) => drop(mesh.deliver(number, sender)),
                Step::Status(number, roles) => {
                    let roles = [json!([]), json!(["producer"]), json!(["consumer"]), json!(["listener"])][roles].clone();
                    // An ended role ends sessions without a frame: the test could not follow them.
                    if mesh.clients[number].session().is_none() {
                        mesh.set_status(number, &roles);
                    }
                }
                Step::Start(number, other) => mesh.start(number, other),
                Step::Relay(number) => {
                    if let Some(id) = mesh.clients[number].session() {
                        mesh.send(number, &json!({"type": "peer", "sessionId": id, "ice": {"candidate": "", "sdpMLineIndex": 0}}));
                    }
                }
                Step::End(number) => {
                    if let Some(id) = mesh.clients[number].session() {
                        mesh.send(number, &json!({"type": "endSession", "sessionId": id}));
                        ended.push((number, id));
                    }
                }
                Step::Kill(number) => mesh.kill(number),
            }
        }
        mesh.settle();
        let open: Vec<_> =
            mesh.clients.iter().enumerate().map(|(number, client)| open_sessions(client, &ended, number)).collect();
        for (number, client) in mesh.clients.iter().enumerate().filter(|(_, client)| client.is_alive) {
            for (id, partner) in &open[number] {
                let other = mesh.clients.iter().position(|other| other.id() == partner).unwrap();
                prop_assert!(mesh.clients[other].is_alive, "{} has a session with a dead peer", number);
                prop_assert_eq!(open[other].get(id).map(String::as_str), Some(client.id()));
            }
            prop_assert!(client.translator.deadline().is_none(), "a request has no outcome");
        }
    }

    #[test]
    fn listener_knows_the_status_of_all_members(steps in prop::collection::vec(step(), 0..120)) {
        let mut mesh = Mesh::one_room();
        mesh.set_status(0, &json!(["listener"]));
        for step in steps {
            match step {
                Step::Execute(number) => drop(mesh.execute(number)),
                Step::Deliver(number, sender) => drop(mesh.deliver(number, sender)),
                Step::Status(number, roles) if number > 0 => {
                    let roles = [json!([]), json!(["producer"]), json!(["consumer"]), json!(["listener"])][roles].clone();
                    mesh.set_status(number, &roles);
                }
                Step::Kill(number) if number > 0 => mesh.kill(number),
                _ => {}
            }
        }
        mesh.settle();
        mesh.send(0, &json!({"type": "list"}));
        let mut known = BTreeMap::new();
        for frame in mesh.clients[0].of_type("peerStatusChanged") {
            known.insert(frame["peerId"].as_str().unwrap(), frame["roles"].clone());
        }
        let mut producers = Vec::new();
        for client in &mesh.clients[1..] {
            let members = &mesh.rooms["~gs:room"];
            let data = members.iter().find(|(number, _)| mesh.clients[*number].name == client.name);
            let data = data.map_or(Value::Null, |(_, data)| serde_json::from_str(data).unwrap());
            let empty = json!([]);
            let roles = if data.is_null() { &empty } else { &data["roles"] };
            prop_assert_eq!(known.get(client.id()).unwrap_or(&empty), roles);
            if roles[0] == "producer" {
                producers.push(client.id());
            }
        }
        let list = &mesh.clients[0].frames.last().unwrap()["producers"];
        let listed: Vec<&str> = list.as_array().unwrap().iter().map(|entry| entry["id"].as_str().unwrap()).collect();
        prop_assert_eq!(listed, producers);
    }
}
