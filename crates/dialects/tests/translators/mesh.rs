//! A small model of the mesh: it delays and refuses, and its rooms have the real rules.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use serde_json::Value;
use serde_json::value::RawValue;
use signaling_dialects::{Close, Dialect, Input, Out, Translator};
use signaling_protocol::client::{self, ClientMessage};
use signaling_protocol::{ClientId, NodeId, RoomName};
use signaling_rooms::{
    Change, Member, OpResult, Operation, Requester, Room, RoomEvents, RoomOptions, Rules, SeatStatus,
};
use signaling_wire::{Rank, SessionId, SocketId};

/// Source of the outcomes of signals.
const OUTCOMES: &str = "";

/// Receiver of the frames to clients.
pub(crate) trait Frames: Sized {
    fn receive(mesh: &mut Mesh<Self>, number: usize, frame: Value);
}

impl Frames for () {
    fn receive(mesh: &mut Mesh<()>, number: usize, frame: Value) {
        mesh.clients[number].frames.push(frame);
    }
}

/// Fault of a room request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    Refused,
    /// The client receives a refusal although the request is carried out.
    AnswerLost,
}

/// A message to a client.
pub(crate) enum Message {
    Text(String),
    /// A signal, with its sender and the id of its request.
    Signal(String, usize, u64),
    Changes(BTreeMap<ClientId, Change>),
}

pub(crate) struct Client {
    pub(crate) name: String,
    pub(crate) translator: Translator,
    /// `false`: the session has ended.
    pub(crate) is_open: bool,
    /// `false`: the socket is dead.
    pub(crate) answers_pings: bool,
    pub(crate) close: Option<Close>,
    pub(crate) requests: VecDeque<String>,
    /// Messages in order for each room and each sender.
    pub(crate) inbox: BTreeMap<String, VecDeque<Message>>,
    /// Frames that the client received.
    pub(crate) frames: Vec<Value>,
}

impl Client {
    fn is_due(&self, now: Instant) -> bool {
        self.is_open && self.translator.deadline().is_some_and(|deadline| deadline <= now)
    }

    /// Returns the frames of a type.
    pub(crate) fn of_type<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Value> {
        self.frames.iter().filter(move |frame| frame["type"] == kind)
    }
}

pub(crate) struct Mesh<F> {
    pub(crate) now: Instant,
    pub(crate) clients: Vec<Client>,
    /// Rooms with members.
    pub(crate) rooms: BTreeMap<String, Room>,
    /// Rooms that have had their maximum members.
    pub(crate) full: BTreeSet<String>,
    /// Rooms that clients have left after that.
    pub(crate) left_full: BTreeSet<String>,
    pub(crate) state: F,
    /// Maximum members in a list.
    page: usize,
    /// Number of clients that did not get a seat.
    shut_out: usize,
}

impl<F: Frames> Mesh<F> {
    pub(crate) fn new(page: usize, state: F) -> Self {
        let (clients, rooms, full, left_full) = Default::default();
        Self { now: Instant::now(), clients, rooms, full, left_full, state, page, shut_out: 0 }
    }

    /// Opens a session and returns its number.
    pub(crate) fn connect(&mut self, dialect: Dialect, target: &str) -> usize {
        let number = self.clients.len();
        let opening = crate::open(dialect, target, u8::try_from(number).unwrap());
        self.clients.push(Client {
            name: opening.client_id.to_string(),
            translator: opening.translator,
            is_open: true,
            answers_pings: true,
            close: None,
            requests: VecDeque::new(),
            inbox: BTreeMap::new(),
            frames: Vec::new(),
        });
        self.input(number, Input::Mesh(br#"{"type":"welcome","ice_servers":[]}"#));
        number
    }

    pub(crate) fn input(&mut self, number: usize, input: Input<'_>) {
        let client = &mut self.clients[number];
        if !client.is_open {
            return;
        }
        let mut out = Out::default();
        client.translator.input(self.now, input, &mut out);
        client.requests.extend(out.requests);
        let answers_ping = out.ping && client.answers_pings;
        for frame in &out.frames {
            F::receive(self, number, serde_json::from_str(frame).unwrap());
        }
        if out.close.is_some() {
            self.clients[number].close = out.close;
            self.end(number);
        } else if answers_ping {
            self.input(number, Input::Pong);
        }
    }

    pub(crate) fn text(&mut self, number: usize, text: &str) {
        self.input(number, Input::Text(text.as_bytes()));
    }

    pub(crate) fn push(&mut self, number: usize, source: &str, message: Message) {
        if self.clients[number].is_open {
            self.clients[number].inbox.entry(source.to_owned()).or_default().push_back(message);
        }
    }

    fn answer(&mut self, number: usize, source: &str, text: String) {
        self.push(number, source, Message::Text(text));
    }

    fn fail(&mut self, number: usize, id: u64) {
        let error = format!(r#"{{"type":"error","code":"recipient_unavailable","message":"","id":{id}}}"#);
        self.answer(number, OUTCOMES, error);
    }

    fn requester(&self, number: usize, command: u64) -> Requester {
        Requester {
            client: ClientId::new(&self.clients[number].name).unwrap(),
            session: SessionId([1; 16]),
            socket: SocketId([1; 8]),
            rank: Rank(1),
            attachment: 1,
            number: command,
            node: NodeId::new("node").unwrap(),
        }
    }

    /// Applies an operation of a client, and announces its changes to the other members.
    fn apply(&mut self, name: &str, number: usize, op: &Operation) -> OpResult {
        let room_name = RoomName::new(name).unwrap();
        let rules = Rules { page: self.page, ..Rules::default() }.of(&room_name);
        let room = self.rooms.entry(name.to_owned()).or_insert_with(|| Room::new(1));
        let result = room.apply(&rules, 1, op);
        let members: Vec<ClientId> = room.seats(&rules).map(|(seat, _)| seat.requester.client.clone()).collect();
        if rules.capacity.is_some_and(|capacity| members.len() >= capacity as usize) {
            self.full.insert(name.to_owned());
        }
        if members.is_empty() {
            self.rooms.remove(name);
            self.full.remove(name);
            self.left_full.remove(name);
        }
        let others: Vec<usize> = (0..self.clients.len())
            .filter(|other| *other != number && members.iter().any(|it| it.as_str() == self.clients[*other].name))
            .collect();
        let announced = result.changes.iter().filter(|_| has_events(name));
        for change in announced {
            let client = match change {
                Change::Joined(member) => &member.client,
                Change::Left { client, .. } => client,
            };
            for other in &others {
                self.push(*other, name, Message::Changes(BTreeMap::from([(client.clone(), change.clone())])));
            }
        }
        result
    }

    /// Returns the state of a room, with the members behind one, as a message.
    pub(crate) fn list(&mut self, room: &str, after: Option<ClientId>) -> String {
        let behind = after.as_ref().map(|after| format!(r#","after":"{after}""#)).unwrap_or_default();
        let OpResult { members, count, more, .. } = self.apply(room, usize::MAX, &Operation::List { after });
        let members: Vec<String> = members.iter().map(member).collect();
        let members = members.join(",");
        format!(r#"{{"type":"joined","room":"{room}","count":{count},"members":[{members}],"more":{more}{behind}}}"#)
    }

    /// Executes the next request of a client. Returns `false` if there is none.
    pub(crate) fn execute(&mut self, number: usize, fault: Fault) -> bool {
        let Some(text) = self.clients[number].requests.pop_front() else { return false };
        let message = client::parse(text.as_bytes()).unwrap();
        let id = message.id().unwrap_or_default();
        let requester = self.requester(number, id);
        let (room, op) = match message {
            ClientMessage::Signal { to, data, .. } => {
                let from = requester.client.as_str();
                let text = format!(r#"{{"type":"signal","from":"{from}","data":{data}}}"#);
                match self.clients.iter().position(|client| client.is_open && client.name == *to) {
                    Some(to) => self.push(to, from, Message::Signal(text, number, id)),
                    None => self.fail(number, id),
                }
                return true;
            }
            _ if !self.clients[number].is_open => return true,
            ClientMessage::Members { room, after } => {
                let answer = match fault {
                    Fault::None => self.list(&room, after.map(|after| ClientId::new(&after).unwrap())),
                    _ => refusal(&format!(r#""room":"{room}""#)),
                };
                self.answer(number, &room, answer);
                return true;
            }
            ClientMessage::Join { room, data, .. } => {
                (room, Operation::Join { requester, data: data.map(RawValue::get).map(Box::from), capacity: None })
            }
            ClientMessage::Leave { room, .. } => {
                self.left_full.extend(self.full.get(&*room).cloned());
                (room, Operation::Leave { requester })
            }
            other => panic!("{other:?}"),
        };
        if fault == Fault::Refused {
            self.answer(number, &room, refusal(&format!(r#""id":{id}"#)));
            return true;
        }
        let result = self.apply(&room, number, &op);
        let is_join = matches!(op, Operation::Join { .. });
        let outcome = if is_join && !matches!(result.statuses[..], [SeatStatus::Member { .. }]) {
            self.shut_out += 1;
            let wait = if self.shut_out.is_multiple_of(2) { r#","retry_after_ms":1000"# } else { "" };
            format!(r#"{{"type":"error","code":"overloaded","message":"","id":{id}{wait}}}"#)
        } else if fault == Fault::AnswerLost {
            refusal(&format!(r#""id":{id}"#))
        } else {
            if is_join && has_events(&room) {
                let list = self.list(&room, None);
                self.answer(number, &room, list);
            }
            format!(r#"{{"type":"ack","id":{id}}}"#)
        };
        self.answer(number, &room, outcome);
        true
    }

    /// Delivers the next message of a source, picked by `pick`, together with later changes as long
    /// as `combines`. Returns `false` if there is no message.
    pub(crate) fn deliver(&mut self, number: usize, pick: usize, mut combines: impl FnMut(&mut F) -> bool) -> bool {
        let inbox = &mut self.clients[number].inbox;
        let Some(source) = inbox.keys().nth(pick % inbox.len().max(1)).cloned() else { return false };
        let Some(queue) = inbox.get_mut(&source) else { return false };
        let Some(mut message) = queue.pop_front() else { return false };
        while let Message::Changes(changes) = &mut message
            && let Some(Message::Changes(next)) = queue.front()
            && combines(&mut self.state)
        {
            changes.extend(next.clone());
            queue.pop_front();
        }
        if queue.is_empty() {
            inbox.remove(&source);
        }
        match message {
            Message::Text(text) => self.input(number, Input::Mesh(text.as_bytes())),
            Message::Signal(text, sender, id) => {
                self.input(number, Input::Mesh(text.as_bytes()));
                self.answer(sender, OUTCOMES, format!(r#"{{"type":"ack","id":{id}}}"#));
            }
            Message::Changes(changes) => {
                let text = members_changed(&source, changes.values());
                self.input(number, Input::Mesh(text.as_bytes()));
            }
        }
        true
    }

    /// Ends a session. Returns the rooms in which it still has seats.
    pub(crate) fn kill(&mut self, number: usize) -> Vec<String> {
        self.clients[number].is_open = false;
        for message in std::mem::take(&mut self.clients[number].inbox).into_values().flatten() {
            if let Message::Signal(_, sender, id) = message {
                self.fail(sender, id);
            }
        }
        let name = &self.clients[number].name;
        let has_seat =
            |room: &Room| room.seats(&Rules::default()).any(|(seat, _)| seat.requester.client.as_str() == name);
        self.rooms.iter().filter(|(_, room)| has_seat(room)).map(|(room, _)| room.clone()).collect()
    }

    pub(crate) fn end_seat(&mut self, number: usize, room: &str) {
        let requester = self.requester(number, u64::MAX);
        self.apply(room, number, &Operation::Leave { requester });
    }

    /// Ends a session and its seats.
    pub(crate) fn end(&mut self, number: usize) {
        for room in self.kill(number) {
            self.end_seat(number, &room);
        }
    }

    /// Lets time pass.
    pub(crate) fn advance(&mut self, time: Duration) {
        self.now += time;
        for number in 0..self.clients.len() {
            if self.clients[number].is_due(self.now) {
                self.input(number, Input::Tick);
                assert!(!self.clients[number].is_due(self.now), "a tick is due at once again");
            }
        }
    }

    /// Executes and delivers all that is left, without faults.
    pub(crate) fn settle(&mut self) {
        let mut is_idle = false;
        while !is_idle {
            is_idle = true;
            for number in 0..self.clients.len() {
                while self.execute(number, Fault::None) {
                    is_idle = false;
                }
                while self.deliver(number, 0, |_| false) {
                    is_idle = false;
                }
            }
        }
    }

    /// Settles, and lets time pass until no client waits.
    pub(crate) fn finish(&mut self) {
        for _ in 0..1000 {
            self.settle();
            let open = self.clients.iter().filter(|client| client.is_open);
            let Some(next) = open.filter_map(|client| client.translator.deadline()).min() else { return };
            self.advance(next.saturating_duration_since(self.now));
        }
        panic!("the mesh does not come to rest");
    }
}

fn has_events(room: &str) -> bool {
    RoomOptions::of(&RoomName::new(room).unwrap()).events != RoomEvents::None
}

fn refusal(field: &str) -> String {
    format!(r#"{{"type":"error","code":"room_unavailable","message":"","retry_after_ms":100,{field}}}"#)
}

fn member(Member { client, data }: &Member) -> String {
    let data = data.as_ref().map(|data| format!(r#","data":{data}"#)).unwrap_or_default();
    format!(r#"{{"client_id":"{client}"{data}}}"#)
}

fn members_changed<'a>(room: &str, changes: impl Iterator<Item = &'a Change>) -> String {
    let (mut joined, mut left) = (Vec::new(), Vec::new());
    for change in changes {
        match change {
            Change::Joined(new) => joined.push(member(new)),
            Change::Left { client, .. } => left.push(format!(r#"{{"client_id":"{client}","reason":"left"}}"#)),
        }
    }
    let (joined, left) = (joined.join(","), left.join(","));
    format!(r#"{{"type":"members_changed","room":"{room}","joined":[{joined}],"left":[{left}]}}"#)
}
