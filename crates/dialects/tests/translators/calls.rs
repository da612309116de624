//! Clients of GStreamer list, call and leave each other. A mesh delivers signals and changes of the
//! room in any order of their senders.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};
use signaling_dialects::Dialect;
use signaling_rooms::Rules;

use crate::mesh::{Client, Fault};

const CLIENTS: usize = 3;
/// Maximum members in a list.
const PAGE: usize = 2;

type Mesh = crate::mesh::Mesh<()>;

impl Client {
    fn id(&self) -> &str {
        self.name.strip_prefix("~gs:").unwrap()
    }

    /// Returns the id of the last session.
    fn session(&self) -> Option<String> {
        let starts = |frame: &&Value| frame["type"] == "sessionStarted" || frame["type"] == "startSession";
        self.frames.iter().rev().find(starts).map(|frame| frame["sessionId"].as_str().unwrap().to_owned())
    }
}

fn one_room() -> Mesh {
    let mut mesh = Mesh::new(PAGE, ());
    for _ in 0..CLIENTS {
        mesh.connect(Dialect::GStreamer, "/room");
    }
    mesh.settle();
    mesh
}

impl Mesh {
    fn send(&mut self, number: usize, message: &Value) {
        if !self.clients[number].translator.is_full() {
            self.text(number, &message.to_string());
        }
    }

    fn set_status(&mut self, number: usize, roles: &Value) {
        self.send(number, &json!({"type": "setPeerStatus", "roles": roles, "meta": {"n": number}}));
    }

    fn start(&mut self, number: usize, other: usize) {
        let peer = self.clients[other].id().to_owned();
        self.send(number, &json!({"type": "startSession", "peerId": peer}));
    }

    /// Has some clients set their status, one after the other.
    fn with_status(mut self, roles: &[(usize, &str)]) -> Self {
        for (number, role) in roles {
            self.set_status(*number, &json!([role]));
            self.settle();
        }
        self
    }
}

/// Roles that random steps set.
fn roles(number: usize) -> Value {
    [json!([]), json!(["producer"]), json!(["consumer"]), json!(["listener"])][number].clone()
}

/// Returns the frame without its session id, which no test knows before.
fn without_session(frame: &Value) -> Value {
    let mut frame = frame.clone();
    frame.as_object_mut().unwrap().remove("sessionId");
    frame
}

#[test]
fn late_listener_lists_producers_and_receives_changes() {
    let mut mesh = one_room().with_status(&[(0, "producer"), (1, "listener")]);
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
    mesh.end(0);
    mesh.settle();
    let removed = json!({"type": "peerStatusChanged", "roles": [], "meta": {"n": 0}, "peerId": producer});
    assert_eq!(mesh.clients[1].frames.last(), Some(&removed));
}

#[test]
fn consumer_starts_a_session_that_the_producer_ends() {
    let mut mesh = one_room().with_status(&[(0, "producer")]);
    mesh.start(1, 0);
    mesh.settle();
    let id = mesh.clients[1].session().unwrap();
    assert_eq!(mesh.clients[0].session().as_ref(), Some(&id));
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
        let mut mesh = one_room().with_status(&[(0, "producer"), (1, "consumer")]);
        let mut ended = Vec::new();
        for step in steps {
            match step {
                Step::Execute(number) => drop(mesh.execute(number, Fault::None)),
                Step::Deliver(number, sender) => drop(mesh.deliver(number, sender, |()| false)),
                Step::Status(number, roles) => {
                    // An ended role ends sessions without a frame: the test could not follow them.
                    if mesh.clients[number].session().is_none() {
                        mesh.set_status(number, &self::roles(roles));
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
                Step::Kill(number) => mesh.end(number),
            }
        }
        mesh.settle();
        let open: Vec<_> =
            mesh.clients.iter().enumerate().map(|(number, client)| open_sessions(client, &ended, number)).collect();
        for (number, client) in mesh.clients.iter().enumerate().filter(|(_, client)| client.is_open) {
            for (id, partner) in &open[number] {
                let other = mesh.clients.iter().position(|other| other.id() == partner).unwrap();
                prop_assert!(mesh.clients[other].is_open, "{} has a session with a dead peer", number);
                prop_assert_eq!(open[other].get(id).map(String::as_str), Some(client.id()));
            }
            prop_assert!(client.translator.deadline().is_none(), "a request has no outcome");
        }
        prop_assert!(mesh.clients.iter().all(|client| client.close.is_none()));
    }

    #[test]
    fn listener_knows_the_status_of_all_members(steps in prop::collection::vec(step(), 0..120)) {
        let mut mesh = one_room();
        mesh.set_status(0, &json!(["listener"]));
        for step in steps {
            match step {
                Step::Execute(number) => drop(mesh.execute(number, Fault::None)),
                Step::Deliver(number, sender) => drop(mesh.deliver(number, sender, |()| false)),
                Step::Status(number, roles) if number > 0 => mesh.set_status(number, &self::roles(roles)),
                Step::Kill(number) if number > 0 => mesh.end(number),
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
            let rules = Rules::default();
            let seat = mesh.rooms["~gs:room"].seats(&rules).find(|(seat, _)| seat.requester.client.as_str() == client.name);
            let data = seat.and_then(|(seat, _)| seat.data.as_deref());
            let data = data.map_or(Value::Null, |data| serde_json::from_str(data).unwrap());
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
