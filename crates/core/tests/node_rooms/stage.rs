//! Nodes with one store, driven by hand. Each client has its own slot on the only trunk of its
//! node.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant, UNIX_EPOCH};

use signaling_core::node::{HoldLimits, NodeCore, RoomSettings, Settings, TrunkKey, Urgency};
use signaling_core::{Member, View};
use signaling_protocol::{ClientId, NodeId, RoomName};
use signaling_rendezvous::{KeyHash, Ranking};
use signaling_rooms::{Op, Outcome, Rooms, Rules, StoreError, Who};
use signaling_wire::grant::{Grant, SignalScope};
use signaling_wire::trunk::{Attach, DeliveryOutcome, DetachReason, Request, Slot, ToEdge, ToNode};
use signaling_wire::{Incarnation, RemainingTtl, SessionId};

pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const PRESENCE: Duration = Duration::from_secs(20);
const HOLD: Duration = Duration::from_secs(20);

struct Node {
    id: &'static str,
    core: NodeCore,
    trunk: TrunkKey,
}

/// The state of a client at its edge.
struct Client {
    node: usize,
    slot: Slot,
    session: SessionId,
    seq: u64,
    state: Vec<u8>,
    heard: Vec<String>,
}

pub(crate) struct Stage {
    nodes: Vec<Node>,
    clients: BTreeMap<&'static str, Client>,
    store: Rooms,
    pub(crate) store_is_away: bool,
    /// `true` while batches between nodes are lost.
    pub(crate) is_cut: bool,
    /// `true` if clients that attach from now on are reliable.
    pub(crate) reliable: bool,
    pub(crate) now: Instant,
    /// Time between two sweeps.
    pub(crate) step: Duration,
    start: Instant,
    slots: Slot,
    /// Grants from tokens, by client.
    pub(crate) grants: BTreeMap<&'static str, Grant>,
    /// Operations that the store has carried out.
    pub(crate) operations: Vec<Op>,
}

impl Stage {
    /// Creates nodes of these names, which all have each other in their views.
    pub(crate) fn new(ids: &[&'static str], capacity: u32) -> Self {
        Self::with(ids, capacity, RoomSettings { shared: true, ..RoomSettings::default() })
    }

    pub(crate) fn with(ids: &[&'static str], capacity: u32, rooms: RoomSettings) -> Self {
        let now = Instant::now();
        let rules = Rules {
            capacity: Some(capacity),
            line: rooms.line,
            stale: Rules::stale_after(PRESENCE),
            ..Rules::default()
        };
        let view = view(ids.iter().map(|id| (*id, false)));
        let node = |(number, id): (u8, &&'static str)| {
            let mut core = NodeCore::new(Settings {
                id: NodeId::new(id).unwrap(),
                incarnation: Incarnation([number; 8]),
                hash_seed: 0,
                hold: HOLD,
                resume: Duration::from_secs(30),
                hold_limits: HoldLimits::default(),
                rules: Arc::default(),
                rooms,
                max_message_bytes: 64 * 1024,
                reveal_nodes: false,
                mesh_secret: Arc::from(&b"0123456789abcdef"[..]),
                epoch: (now, UNIX_EPOCH + Duration::from_secs(1_700_000_000)),
            });
            core.set_view(now, Arc::clone(&view));
            let trunk = core.trunk_up();
            Node { id, core, trunk }
        };
        let mut stage = Self {
            nodes: (1..).zip(ids).map(node).collect(),
            clients: BTreeMap::new(),
            store: Rooms::new(rules),
            store_is_away: false,
            is_cut: false,
            reliable: false,
            now,
            step: Duration::from_millis(50),
            start: now,
            slots: 0,
            grants: BTreeMap::new(),
            operations: Vec::new(),
        };
        stage.settle();
        stage
    }

    /// Returns a client that the node owns.
    pub(crate) fn client_of(&self, id: &str) -> &'static str {
        let ranking = Ranking::new(0, self.nodes.iter().map(|node| node.id));
        let is_owned = |name: &&str| ranking.owner(KeyHash::of(name)).map(|rank| ranking.id(rank)) == Some(id);
        ["k", "l", "m", "o", "p", "q", "s", "t"].into_iter().find(is_owned).unwrap()
    }

    fn node(&self, id: &str) -> usize {
        self.nodes.iter().position(|node| node.id == id).unwrap()
    }

    fn tell(&mut self, node: usize, frame: &ToNode<'_>) {
        let mut bytes = Vec::new();
        frame.append(&mut bytes);
        let (now, Node { core, trunk, .. }) = (self.now, &mut self.nodes[node]);
        core.trunk_frames(now, *trunk, &bytes).unwrap();
    }

    fn attach(&mut self, name: &'static str, resume: Option<&str>, gone: Option<DetachReason>) {
        self.slots += 1;
        let client = self.clients.get_mut(name).unwrap();
        client.slot = self.slots;
        let (slot, session, seq, node) = (client.slot, client.session, client.seq, client.node);
        let state = Some(client.state.clone()).filter(|state| !state.is_empty());
        let request = Request { resume, ..Request::default() };
        let accepted_at_us = u64::from(slot);
        let grant = self.grants.get(name).map(Grant::to_bytes);
        let attach = Attach {
            slot,
            session,
            client_id: name,
            accepted_at_us,
            reliable: self.reliable,
            seq,
            request,
            grant: grant.as_deref(),
            state: state.as_deref(),
            gone,
        };
        self.tell(node, &ToNode::Attach(attach));
    }

    /// Confines all clients whose tokens name no signal scope to their rooms.
    pub(crate) fn confines_all(&mut self) {
        self.nodes.iter_mut().for_each(|node| node.core.set_signal_scope(SignalScope::Room));
    }

    /// Reports a client's new token to its node.
    pub(crate) fn shows(&mut self, name: &'static str, grant: Grant) {
        let Client { node, slot, .. } = self.clients[name];
        self.tell(node, &ToNode::Grant { slot, grant: &grant.to_bytes() });
        self.grants.insert(name, grant);
    }

    /// Attaches a new client to a node.
    pub(crate) fn comes(&mut self, name: &'static str, node: &str) {
        self.comes_and_hears(name, node);
    }

    /// Attaches a new client to a node, and returns the messages to it.
    pub(crate) fn comes_and_hears(&mut self, name: &'static str, node: &str) -> Vec<String> {
        let node = self.node(node);
        let mut session = [0; 16];
        session[..name.len()].copy_from_slice(name.as_bytes());
        session[15] = u8::try_from(self.slots).unwrap();
        let session = SessionId(session);
        let client = Client { node, slot: 0, session, seq: 0, state: Vec::new(), heard: Vec::new() };
        self.clients.insert(name, client);
        self.attach(name, None, None);
        self.settle();
        self.heard(name)
    }

    /// Sends a client's message, without further processing.
    pub(crate) fn says(&mut self, name: &'static str, text: &str) {
        let client = self.clients.get_mut(name).unwrap();
        client.seq += 1;
        let (node, slot, seq) = (client.node, client.slot, client.seq);
        self.tell(node, &ToNode::Up { slot, seq, left: RemainingTtl::from_duration(HOLD), payload: text.as_bytes() });
    }

    /// Retransmits the last message of a client, like an edge without its outcome.
    pub(crate) fn repeats(&mut self, name: &'static str, text: &str) {
        self.repeats_all(name, &[text]);
    }

    /// Retransmits the last few messages of a client.
    pub(crate) fn repeats_all(&mut self, name: &'static str, texts: &[&str]) {
        self.clients.get_mut(name).unwrap().seq -= texts.len() as u64;
        texts.iter().for_each(|text| self.says(name, text));
    }

    pub(crate) fn joins(&mut self, name: &'static str, room: &str) -> Vec<String> {
        self.says(name, &format!(r#"{{"type":"join","room":"{room}","id":7}}"#));
        self.settle();
        self.heard(name)
    }

    pub(crate) fn leaves(&mut self, name: &'static str, room: &str) -> Vec<String> {
        self.says(name, &format!(r#"{{"type":"leave","room":"{room}","id":8}}"#));
        self.settle();
        self.heard(name)
    }

    /// Closes the client's socket.
    pub(crate) fn goes(&mut self, name: &'static str, gone: DetachReason) {
        let Client { node, slot, .. } = self.clients[name];
        self.tell(node, &ToNode::Detach { slot, gone });
        self.settle();
    }

    /// Hands a client off to another node.
    pub(crate) fn moves(&mut self, name: &'static str, to: &str) {
        let Client { node, slot, .. } = self.clients[name];
        self.tell(node, &ToNode::Release { slot, to });
        self.settle();
        self.appears(name, to);
    }

    /// Attaches a client to another node with its edge's state, as after a failure of its former
    /// node.
    pub(crate) fn appears(&mut self, name: &'static str, at: &str) {
        self.clients.get_mut(name).unwrap().node = self.node(at);
        self.attach(name, None, None);
        self.settle();
    }

    /// Resumes a client on a new socket at its former node, by its token.
    pub(crate) fn resumes(&mut self, name: &'static str, token: &str) {
        self.clients.get_mut(name).unwrap().state.clear();
        self.attach(name, Some(token), None);
        self.settle();
    }

    /// Resumes a client on a new socket at another node, by its token.
    pub(crate) fn resumes_at(&mut self, node: &str, name: &'static str, token: &str) {
        self.clients.get_mut(name).unwrap().node = self.node(node);
        self.resumes(name, token);
    }

    /// Drains a node, in all views. The data of absent clients moves to the other nodes.
    pub(crate) fn drains(&mut self, id: &str) {
        let (now, node) = (self.now, self.node(id));
        self.nodes[node].core.drain(now);
        let view = view(self.nodes.iter().map(|node| (node.id, node.id == id)));
        self.nodes.iter_mut().for_each(|node| node.core.set_view(now, Arc::clone(&view)));
        self.settle();
    }

    /// Removes a node and all its data.
    pub(crate) fn dies(&mut self, id: &str) {
        let node = self.node(id);
        self.nodes.remove(node);
        for client in self.clients.values_mut() {
            client.node -= usize::from(client.node > node);
        }
    }

    /// Empties the store.
    pub(crate) fn store_is_emptied(&mut self) {
        self.store.replaced(self.store_time());
    }

    /// Returns a copy of the store, like a replica.
    pub(crate) fn copy_of_store(&self) -> Rooms {
        self.store.clone()
    }

    /// Replaces the store by a replica.
    pub(crate) fn store_fails_over_to(&mut self, mut replica: Rooms) {
        replica.restarted(self.store_time());
        self.store = replica;
    }

    /// Sets a room's capacity through a node, like an operator.
    pub(crate) fn sets_capacity(&mut self, room: &str, capacity: u32) {
        let outcome = self.store_does(room, Op::SetCapacity { capacity: Some(capacity) });
        let (now, room) = (self.now, RoomName::new(room).unwrap());
        self.nodes[0].core.room_was_changed(now, &room, outcome);
        self.settle();
    }

    pub(crate) fn store_does(&mut self, room: &str, op: Op) -> Outcome {
        let request = signaling_rooms::Request { room: RoomName::new(room).unwrap(), op };
        self.store.apply(self.store_time(), &request)
    }

    /// Expires a client's seat in the store.
    pub(crate) fn is_given_up(&mut self, name: &str, room: &str) {
        let who = self.who(name, u64::MAX >> 12);
        let outcome = self.store_does(room, Op::Leave { who });
        assert!(!outcome.changes.is_empty());
    }

    /// Carries out a client's join in the store, and loses the answer.
    pub(crate) fn joins_unheard(&mut self, name: &str, room: &str) {
        let who = self.who(name, u64::MAX >> 11);
        self.store_does(room, Op::Join { who, data: None });
    }

    fn who(&self, name: &str, number: u64) -> Who {
        let Client { session, slot, node, .. } = self.clients[name];
        let (client, node) = (ClientId::new(name).unwrap(), NodeId::new(self.nodes[node].id).unwrap());
        Who { client, session, accepted_at_us: u64::from(slot), number, node }
    }

    /// Returns the members of a room in the store.
    pub(crate) fn members(&mut self, room: &str) -> Vec<String> {
        let outcome = self.store_does(room, Op::List { after: None });
        outcome.members.into_iter().map(|member| member.client.to_string()).collect()
    }

    fn store_time(&self) -> u64 {
        1_700_000_000_000 + u64::try_from((self.now - self.start).as_millis()).unwrap()
    }

    /// Takes the messages and answers that a client received since the last call, without varying
    /// parts.
    pub(crate) fn heard(&mut self, name: &'static str) -> Vec<String> {
        std::mem::take(&mut self.clients.get_mut(name).unwrap().heard)
    }

    /// Returns the state that its edge would send the next node.
    pub(crate) fn state(&self, name: &str) -> &[u8] {
        &self.clients[name].state
    }

    /// Processes everything that needs no time.
    pub(crate) fn settle(&mut self) {
        (0..20).for_each(|_| self.goes_on());
    }

    /// Lets the store answer the present questions, and nothing else.
    pub(crate) fn goes_on(&mut self) {
        self.ask_store();
        self.carry();
        self.listen();
    }

    /// Advances the time.
    pub(crate) fn passes(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.now += self.step;
            let now = self.now;
            self.nodes.iter_mut().for_each(|node| node.core.sweep(now));
            (0..3).for_each(|_| self.goes_on());
        }
    }

    fn ask_store(&mut self) {
        let (now, time) = (self.now, self.store_time());
        for node in &mut self.nodes {
            for urgency in Urgency::ALL {
                for task in node.core.take_room_tasks(urgency) {
                    let answer = if self.store_is_away {
                        Err(StoreError("away".into()))
                    } else {
                        self.operations.push(task.request().op.clone());
                        Ok(self.store.apply(time, task.request()))
                    };
                    node.core.room_answered(now, task, answer);
                }
            }
        }
    }

    fn carry(&mut self) {
        let now = self.now;
        for from in 0..self.nodes.len() {
            let peers: Vec<_> = self.nodes[from].core.peers().map(|(key, _)| key).collect();
            let others: Vec<_> = (0..self.nodes.len()).filter(|other| *other != from).collect();
            // Peers have the order of the view, which is the order of the nodes.
            for (peer, to) in peers.into_iter().zip(others) {
                for lane in 0..self.nodes[from].core.lanes() {
                    let Some(batch) = self.nodes[from].core.take_lane_batch(now, peer, lane) else { continue };
                    if self.is_cut {
                        self.nodes[from].core.lane_lost(peer, lane);
                        continue;
                    }
                    let answer = self.nodes[to].core.batch(now, &batch).unwrap();
                    self.nodes[from].core.lane_answered(now, peer, lane, &answer).unwrap();
                }
            }
        }
    }

    fn listen(&mut self) {
        for node in 0..self.nodes.len() {
            let trunk = self.nodes[node].trunk;
            let batch = self.nodes[node].core.take_trunk_batch(trunk);
            let (mut rest, mut confirms) = (&batch[..], Vec::new());
            while !rest.is_empty() {
                let frame = ToEdge::take(&mut rest).unwrap();
                let of = |slot: Slot| move |client: &&mut Client| client.node == node && client.slot == slot;
                let mut clients = self.clients.values_mut();
                match frame {
                    ToEdge::Attached { slot, session, state, greeting, seq, .. } => {
                        if let Some(client) = clients.find(of(slot)) {
                            client.seq = client.seq.max(seq);
                            (client.session, client.state) = (session, state.to_vec());
                            client.heard.extend(told(greeting));
                        }
                    }
                    ToEdge::SessionState { slot, state } | ToEdge::Released { slot, state } => {
                        if let Some(client) = clients.find(of(slot)) {
                            client.state = state.to_vec();
                        }
                    }
                    ToEdge::Down { slot, down_seq: d, payload, .. } => {
                        confirms.push((slot, d));
                        if let Some(client) = clients.find(of(slot)) {
                            client.heard.extend(told(payload));
                        }
                    }
                    ToEdge::Fates { slot, reply, fate, .. } => {
                        if let Some(client) = clients.find(of(slot)) {
                            assert!(fate != DeliveryOutcome::Unavailable || !reply.is_empty());
                            client.heard.extend(told(reply));
                        }
                    }
                    _ => {}
                }
            }
            for (slot, up_to) in confirms {
                self.tell(node, &ToNode::Confirm { slot, up_to, exceptions: Vec::new() });
            }
        }
    }
}

/// Returns a view of these nodes. `true` marks a draining node.
fn view(nodes: impl Iterator<Item = (&'static str, bool)>) -> Arc<View> {
    let member = |(id, draining): (&str, bool)| {
        let (id, address) = (NodeId::new(id).unwrap(), "127.0.0.1:1".parse().unwrap());
        Member { id, address, draining }
    };
    Arc::new(View::new(nodes.map(member)).unwrap())
}

/// Returns a message without its version, which depends on the clock.
fn told(text: &[u8]) -> Option<String> {
    if text.is_empty() {
        return None;
    }
    let text = String::from_utf8(text.to_vec()).unwrap();
    let Some((front, rest)) = text.split_once(r#""version":"#) else { return Some(text) };
    let rest = rest.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start_matches(',');
    Some(format!("{front}{rest}"))
}

/// Returns the token of a `welcome`.
pub(crate) fn token(welcome: &str) -> String {
    let (_, rest) = welcome.split_once(r#""resume":""#).expect(welcome);
    rest.split('"').next().unwrap().to_owned()
}
