//! Nodes that own rooms, driven by hand. Each client has a slot on the only trunk of its node.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use signaling_core::edge::Rate;
use signaling_core::node::{NodeCore, Settings, TrunkKey};
use signaling_protocol::{ClientId, NodeId, RoomName};
use signaling_rendezvous::{KeyHash, Ranking};
use signaling_rooms::RoomSettings;
use signaling_rooms::{Operation, Request as RoomRequest, Requester, Room, Rules, Seat, SeatStatus};
use signaling_wire::grant::Grant;
use signaling_wire::trunk::{Attach, DeliveryOutcome, DetachReason, Request, Slot, ToEdge, ToNode};
use signaling_wire::{BatchNumber, Elapsed, Rank, RateDebts, RemainingTtl, Seq, SessionId, SocketId, forward, lane};

pub(crate) use crate::node::SECOND;
use crate::node::{HOLD, address_of, settings, view};

/// Longer than a seat stays that no node claims.
pub(crate) const MINUTE: Duration = Duration::from_secs(60);

/// Returns settings of rooms with the maximum fan-out of one client per second, and at once.
pub(crate) fn broadcast_rate(per_second: u32, burst: u32) -> RoomSettings {
    RoomSettings { broadcast_rate: Some(Rate { per_second, burst }), ..RoomSettings::default() }
}

struct Node {
    id: &'static str,
    core: NodeCore,
    trunk: TrunkKey,
}

/// The state of a client at its edge.
#[derive(Default)]
struct Client {
    node: usize,
    slot: Slot,
    session: SessionId,
    socket: SocketId,
    rank: Rank,
    attachment: u32,
    seq: u64,
    state: Vec<u8>,
    /// Number of states without an attachment or a release.
    states: usize,
    received: Vec<String>,
}

/// The nodes, and the clients with their edges.
pub(crate) struct Stage {
    nodes: Vec<Node>,
    clients: BTreeMap<&'static str, Client>,
    rules: Rules,
    /// A node whose batches wait, in both directions.
    pub(crate) isolated: Option<&'static str>,
    /// A node to which batches arrive only once it is unset.
    pub(crate) deaf: Option<&'static str>,
    /// `true` if clients that attach from now on are reliable.
    pub(crate) reliable: bool,
    /// `true` if sessions of clients that attach from now on end with their sockets.
    pub(crate) ends_with_socket: bool,
    pub(crate) now: Instant,
    /// Time between two sweeps.
    pub(crate) sweep_interval: Duration,
    slots: Slot,
    /// Grants from tokens, by client.
    pub(crate) grants: BTreeMap<&'static str, Grant>,
    /// Operations on rooms that nodes have announced.
    pub(crate) operations: Vec<Operation>,
}

impl Stage {
    /// Creates nodes of these names, which all have each other in their views.
    pub(crate) fn new(ids: &[&'static str], capacity: u32) -> Self {
        Self::with(ids, capacity, RoomSettings::default())
    }

    pub(crate) fn with(ids: &[&'static str], capacity: u32, rooms: RoomSettings) -> Self {
        let ids: Vec<_> = ids.iter().map(|id| (*id, Duration::ZERO)).collect();
        let rules = Rules { capacity: Some(capacity), ..rooms.rules };
        Self::skewed(&ids, RoomSettings { rules, ..rooms })
    }

    /// Creates nodes whose wall clocks are ahead by these times.
    pub(crate) fn skewed(nodes: &[(&'static str, Duration)], rooms: RoomSettings) -> Self {
        let start = Instant::now();
        // These processes are older than the wait for what their former ones answered.
        let now = start + 3 * SECOND;
        let rules = rooms.rules;
        let rooms = RoomSettings { records_commits: true, ..rooms };
        let view = view(nodes.iter().map(|(id, _)| (*id, false)));
        let node = |(id, ahead): &(&'static str, Duration)| {
            let settings = settings(id, start);
            let first_number = settings.first_number + u64::try_from(ahead.as_micros()).unwrap();
            let mut core = NodeCore::new(Settings { rooms, first_number, ..settings });
            core.set_view(now, Arc::clone(&view));
            let trunk = core.trunk_up(now);
            Node { id, core, trunk }
        };
        let mut stage = Self {
            nodes: nodes.iter().map(node).collect(),
            clients: BTreeMap::new(),
            rules,
            isolated: None,
            deaf: None,
            reliable: false,
            ends_with_socket: false,
            now,
            sweep_interval: Duration::from_millis(50),
            slots: 0,
            grants: BTreeMap::new(),
            operations: Vec::new(),
        };
        stage.settle();
        stage
    }

    /// Creates nodes with rooms of this capacity. Returns their ranking for the room `r` too: its
    /// owner, its backup and the others.
    pub(crate) fn ranked_nodes<const N: usize>(capacity: u32) -> (Self, [&'static str; N]) {
        Self::ranked_nodes_with(capacity, RoomSettings::default())
    }

    pub(crate) fn ranked_nodes_with<const N: usize>(capacity: u32, rooms: RoomSettings) -> (Self, [&'static str; N]) {
        let stage = Self::with(&["n0", "n1", "n2", "n3"][..N], capacity, rooms);
        let ranked = stage.ranked("r").try_into().unwrap();
        (stage, ranked)
    }

    fn node(&self, id: &str) -> usize {
        self.nodes.iter().position(|node| node.id == id).unwrap()
    }

    fn send_frame(&mut self, node: usize, frame: &ToNode<'_>) {
        let mut bytes = Vec::new();
        frame.append(&mut bytes);
        let (now, Node { core, trunk, .. }) = (self.now, &mut self.nodes[node]);
        core.trunk_frames(now, *trunk, &bytes).unwrap();
    }

    fn send_attach(&mut self, name: &'static str, resume: Option<&str>, cause: Option<DetachReason>) {
        self.slots += 1;
        let client = self.clients.get_mut(name).unwrap();
        client.slot = self.slots;
        client.attachment += 1;
        let Client { slot, session, seq, node, socket, rank, attachment, .. } = *client;
        let state = Some(client.state.clone()).filter(|state| !state.is_empty());
        let grant = self.grants.get(name).map(Grant::to_bytes);
        let attach = Attach {
            reliable: self.reliable,
            live: resume.is_some(),
            ends_with_socket: self.ends_with_socket,
            seq: Seq(seq),
            request: Request { resume, ..Request::default() },
            grant: grant.as_deref(),
            state: state.as_deref(),
            cause,
            rank,
            attachment,
            ..Attach::newcomer(slot, session, name, socket)
        };
        self.send_frame(node, &ToNode::Attach(attach));
    }

    fn next_socket(&self) -> SocketId {
        SocketId(u64::from(self.slots).to_le_bytes())
    }

    /// Reports a client's new token to its node.
    pub(crate) fn renew_grant(&mut self, name: &'static str, grant: Grant) {
        let Client { node, slot, .. } = self.clients[name];
        self.send_frame(node, &ToNode::Grant { slot, grant: &grant.to_bytes() });
        self.grants.insert(name, grant);
    }

    /// Attaches a new client to a node, and returns the messages to it.
    pub(crate) fn attach(&mut self, name: &'static str, node: &str) -> Vec<String> {
        let node = self.node(node);
        let mut session = [0; 16];
        session[..name.len()].copy_from_slice(name.as_bytes());
        session[15] = u8::try_from(self.slots).unwrap();
        let (session, socket) = (SessionId(session), self.next_socket());
        self.clients.insert(name, Client { node, session, socket, ..Client::default() });
        self.send_attach(name, None, None);
        self.settle();
        self.received(name)
    }

    /// Attaches new clients, each to its node.
    pub(crate) fn attach_all(&mut self, clients: &[(&'static str, &str)]) {
        clients.iter().for_each(|(name, node)| drop(self.attach(name, node)));
    }

    /// Attaches a new client, which joins the room `r`.
    pub(crate) fn enter(&mut self, name: &'static str, node: &str) {
        self.attach(name, node);
        self.join(name, "r");
    }

    /// Attaches clients that join the room `r` in this order, and discards their messages.
    pub(crate) fn with_members(mut self, clients: &[(&'static str, &str)]) -> Self {
        self.attach_all(clients);
        clients.iter().for_each(|(name, _)| drop(self.join(name, "r")));
        self.advance(2 * SECOND);
        clients.iter().for_each(|(name, _)| drop(self.received(name)));
        self.operations.clear();
        self
    }

    /// Sends a client's message. The node handles it; outputs stay queued.
    pub(crate) fn send(&mut self, name: &'static str, text: &str) {
        let client = self.clients.get_mut(name).unwrap();
        client.seq += 1;
        let (node, slot, seq, ttl) = (client.node, client.slot, Seq(client.seq), RemainingTtl::from_duration(HOLD));
        self.send_frame(node, &ToNode::Up { slot, seq, ttl, payload: text.as_bytes() });
    }

    /// Sends a client's message, and processes everything that needs no time.
    pub(crate) fn say(&mut self, name: &'static str, text: &str) {
        self.send(name, text);
        self.settle();
    }

    /// Sends a client's message, and returns the messages and answers that it receives.
    pub(crate) fn ask(&mut self, name: &'static str, text: &str) -> Vec<String> {
        self.say(name, text);
        self.received(name)
    }

    /// Retransmits the last few messages of a client, like an edge without their outcomes.
    pub(crate) fn retransmit(&mut self, name: &'static str, texts: &[&str]) {
        self.clients.get_mut(name).unwrap().seq -= texts.len() as u64;
        texts.iter().for_each(|text| self.send(name, text));
    }

    /// Joins a client, and returns the messages and answers that it receives.
    pub(crate) fn join(&mut self, name: &'static str, room: &str) -> Vec<String> {
        self.ask(name, &format!(r#"{{"type":"join","room":"{room}","id":7}}"#))
    }

    pub(crate) fn join_all(&mut self, names: &[&'static str], room: &str) {
        names.iter().for_each(|name| drop(self.join(name, room)));
    }

    /// Leaves a room, and returns the messages and answers that the client receives.
    pub(crate) fn leave(&mut self, name: &'static str, room: &str) -> Vec<String> {
        self.ask(name, &format!(r#"{{"type":"leave","room":"{room}","id":8}}"#))
    }

    /// Closes the client's socket.
    pub(crate) fn detach(&mut self, name: &'static str, cause: DetachReason) {
        let Client { node, slot, .. } = self.clients[name];
        self.send_frame(node, &ToNode::Detach { slot, cause, debts: RateDebts::default() });
        self.settle();
    }

    /// Hands a client off to another node.
    pub(crate) fn hand_off(&mut self, name: &'static str, to: &str) {
        let Client { node, slot, .. } = self.clients[name];
        self.send_frame(node, &ToNode::Release { slot, to });
        self.settle();
        self.attach_at(name, to);
    }

    /// Attaches a client to another node with its edge's state, as after a failure of the former.
    pub(crate) fn attach_at(&mut self, name: &'static str, at: &str) {
        self.clients.get_mut(name).unwrap().node = self.node(at);
        self.send_attach(name, None, None);
        self.settle();
    }

    /// Attaches a client whose socket closed between two nodes, and detaches it.
    pub(crate) fn attach_closed_at(&mut self, name: &'static str, at: &str) {
        self.clients.get_mut(name).unwrap().node = self.node(at);
        self.send_attach(name, None, Some(DetachReason::Lost));
        self.settle();
        self.detach(name, DetachReason::Lost);
    }

    /// Ends the trunk of a node's edge, with all its clients, and opens the trunk of another edge.
    pub(crate) fn lose_edge(&mut self, node: &str) {
        let (now, node) = (self.now, self.node(node));
        let Node { core, trunk, .. } = &mut self.nodes[node];
        core.trunk_down(now, *trunk);
        *trunk = core.trunk_up(now);
        self.settle();
    }

    /// Returns `true` while a join or leave of a client at a node has no answer.
    pub(crate) fn awaits_join_or_leave(&self, id: &str) -> bool {
        self.nodes[self.node(id)].core.rooms().awaits_join_or_leave()
    }

    /// Returns the number of lingering sessions at all nodes.
    pub(crate) fn lingering(&self) -> usize {
        self.nodes.iter().map(|node| node.core.lingering()).sum()
    }

    /// Resumes a client on a new socket at its former node, by its token.
    pub(crate) fn resume(&mut self, name: &'static str, token: &str) {
        let socket = self.next_socket();
        let client = self.clients.get_mut(name).unwrap();
        client.state.clear();
        (client.socket, client.rank, client.attachment) = (socket, Rank::NONE, 0);
        self.send_attach(name, Some(token), None);
        self.settle();
    }

    /// Resumes a client on a new socket at another node, by its token.
    pub(crate) fn resume_at(&mut self, node: &str, name: &'static str, token: &str) {
        self.clients.get_mut(name).unwrap().node = self.node(node);
        self.resume(name, token);
    }

    /// Drains a node, in all views. The data of absent clients moves to the other nodes.
    pub(crate) fn drain(&mut self, id: &str) {
        let (now, node) = (self.now, self.node(id));
        self.nodes[node].core.drain(now);
        let view = view(self.nodes.iter().map(|node| (node.id, node.id == id)));
        self.nodes.iter_mut().for_each(|node| node.core.set_view(now, Arc::clone(&view)));
        self.settle();
    }

    /// Removes a node and all its data.
    pub(crate) fn crash(&mut self, id: &str) {
        let node = self.node(id);
        self.nodes.remove(node);
        for client in self.clients.values_mut() {
            client.node -= usize::from(client.node > node);
        }
    }

    /// Removes a node from the views of the other nodes.
    pub(crate) fn drop_from_views(&mut self, id: &str) {
        let view = view(self.nodes.iter().map(|node| (node.id, false)).filter(|(node, _)| *node != id));
        let now = self.now;
        let others = self.nodes.iter_mut().filter(|node| node.id != id);
        others.for_each(|node| node.core.set_view(now, Arc::clone(&view)));
        self.settle();
    }

    /// Gives a node a view of all nodes.
    pub(crate) fn show_all_to(&mut self, id: &str) {
        let (now, node) = (self.now, self.node(id));
        let view = view(self.nodes.iter().map(|node| (node.id, false)));
        self.nodes[node].core.set_view(now, view);
        self.settle();
    }

    /// Returns all nodes, the owner of the room or client first, then the room's backup.
    pub(crate) fn ranked(&self, name: &str) -> Vec<&'static str> {
        let ranking = Ranking::new(0, self.nodes.iter().map(|node| node.id));
        let id = |index| self.nodes.iter().find(|node| node.id == ranking.id(index)).unwrap().id;
        ranking.candidates(KeyHash::of(name)).into_iter().map(id).collect()
    }

    /// Sets a room's capacity through a node, like an operator.
    pub(crate) fn set_capacity(&mut self, room: &str, capacity: u32) {
        let (room, op) = (RoomName::new(room).unwrap(), Operation::SetCapacity { capacity: Some(capacity) });
        self.nodes[0].core.rooms_mut().request_for_operator(0, RoomRequest { room, op });
        self.settle();
    }

    /// Has the owner of a room apply an operation that no client requested.
    pub(crate) fn apply(&mut self, room: &str, op: Operation) {
        let name = self.ranked(room)[0];
        let (now, owner, room) = (self.now, self.node(name), RoomName::new(room).unwrap());
        let core = &mut self.nodes[owner].core;
        core.rooms_mut().request_for_operator(0, RoomRequest { room, op });
        core.send_room_tasks(now);
    }

    /// Ends a client's seat, as a leave would whose answer is lost.
    pub(crate) fn end_seat(&mut self, name: &str, room: &str) {
        let requester = self.requester(name, u64::MAX >> 12);
        self.apply(room, Operation::Leave { requester });
    }

    /// Has the owner carry out a client's join whose answer is lost.
    pub(crate) fn join_without_answer(&mut self, name: &str, room: &str) {
        let requester = self.requester(name, u64::MAX >> 11);
        self.apply(room, Operation::Join { requester, data: None, capacity: None });
    }

    /// Joins a room by another session of a client, whose rank is 10 s ahead. Returns the rank.
    pub(crate) fn outrank(&mut self, name: &str, room: &str) -> Rank {
        let requester = self.requester(name, 1);
        let (session, socket, rank) = (SessionId([9; 16]), SocketId([9; 8]), requester.rank.plus(10_000_000));
        let requester = Requester { session, socket, rank, ..requester };
        self.apply(room, Operation::Join { requester, data: None, capacity: None });
        rank
    }

    /// Has a node receive this number of another server's counter.
    pub(crate) fn receive_counter(&mut self, node: &str, counter: u64) {
        self.send_frame(self.node(node), &ToNode::Clock { elapsed: Elapsed::default(), counter });
    }

    /// Returns the rank that a client's edge has for its socket.
    pub(crate) fn rank(&self, name: &str) -> Rank {
        self.clients[name].rank
    }

    fn requester(&self, name: &str, number: u64) -> Requester {
        let Client { session, socket, rank, node, attachment, .. } = self.clients[name];
        let (client, node) = (ClientId::new(name).unwrap(), NodeId::new(self.nodes[node].id).unwrap());
        Requester { client, session, socket, rank, attachment: u64::from(attachment) << 40, number, node }
    }

    /// Returns the members of a room at its owner.
    pub(crate) fn members(&self, room: &str) -> Vec<String> {
        let owned =
            self.nodes.iter().find_map(|node| node.core.rooms().owned(room)).cloned().unwrap_or_else(|| Room::new(1));
        let member = |(seat, _): (&Seat, _)| match seat.status {
            SeatStatus::Member { place } => Some((place, seat.requester.client.to_string())),
            _ => None,
        };
        let members: BTreeMap<_, _> = owned.seats(&self.rules).filter_map(member).collect();
        members.into_values().collect()
    }

    /// Counts the operations that nodes have announced.
    pub(crate) fn count(&self, is_counted: impl Fn(&Operation) -> bool) -> usize {
        self.operations.iter().filter(|op| is_counted(op)).count()
    }

    /// Counts the member pages requested from owners.
    pub(crate) fn lists(&self) -> usize {
        self.count(|op| matches!(op, Operation::List { .. }))
    }

    /// Takes a client's messages and answers since the last call, without varying parts.
    pub(crate) fn received(&mut self, name: &'static str) -> Vec<String> {
        std::mem::take(&mut self.clients.get_mut(name).unwrap().received)
    }

    /// Returns how often the node has sent a client's state on its own.
    pub(crate) fn states(&self, name: &str) -> usize {
        self.clients[name].states
    }

    /// Returns the state that its edge would send the next node.
    pub(crate) fn state(&self, name: &str) -> &[u8] {
        &self.clients[name].state
    }

    /// Processes everything that needs no time.
    pub(crate) fn settle(&mut self) {
        (0..20).for_each(|_| self.step());
    }

    /// Sends the queued requests to owners, then transfers lanes and trunks once.
    pub(crate) fn step(&mut self) {
        self.send_room_tasks();
        self.exchange_batches();
        self.read_trunks();
    }

    /// Advances the time.
    pub(crate) fn advance(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.now += self.sweep_interval;
            let now = self.now;
            self.nodes.iter_mut().for_each(|node| node.core.sweep(now));
            (0..3).for_each(|_| self.step());
        }
    }

    fn send_room_tasks(&mut self) {
        for node in &mut self.nodes {
            node.core.send_room_tasks(self.now);
            node.core.rooms_mut().take_operator_answers();
            let commits = node.core.rooms_mut().take_commits().into_iter();
            self.operations.extend(commits.filter_map(|commit| commit.op));
        }
    }

    fn exchange_batches(&mut self) {
        let now = self.now;
        for from in 0..self.nodes.len() {
            let place = |address: &str| self.nodes.iter().position(|node| address_of(node.id) == address);
            let peers =
                self.nodes[from].core.peers().addressed().filter_map(|(key, address)| Some((key, place(address?)?)));
            for (peer, to) in peers.collect::<Vec<_>>() {
                let is_cut = [from, to].iter().any(|node| self.isolated == Some(self.nodes[*node].id));
                if is_cut || self.deaf == Some(self.nodes[to].id) {
                    continue;
                }
                let opening = self.nodes[from].core.peers_mut().open_lane(now, peer).unwrap();
                let inbound = self.nodes[to].core.accept_lane(now, &opening).unwrap().unwrap();
                let exchange = opening.exchange;
                let incarnation = self.nodes[to].core.settings().incarnation;
                self.nodes[from].core.lane_opened(now, peer, exchange, incarnation);
                let mut last = BatchNumber::default();
                while let Some(frame) = self.nodes[from].core.peers_mut().take_lane_frame(now, peer, exchange) {
                    last = forward::open(&mut &frame[lane::HEAD_BYTES..]).unwrap().0;
                    self.nodes[to].core.batch(now, inbound, &frame[lane::HEAD_BYTES..]).unwrap();
                }
                let counter = self.nodes[to].core.number(now);
                let names_you = self.nodes[to].core.peers().view().get(self.nodes[from].id).is_some();
                let of = lane::Acknowledgement { number: last, names_you };
                self.nodes[from].core.lane_acknowledged(now, peer, exchange, (of, counter)).unwrap();
            }
        }
    }

    fn read_trunks(&mut self) {
        for node in 0..self.nodes.len() {
            let trunk = self.nodes[node].trunk;
            let batch = self.nodes[node].core.take_trunk_batch(trunk);
            let (mut rest, mut confirms, mut proven) = (&batch[..], Vec::new(), Vec::new());
            while !rest.is_empty() {
                let frame = ToEdge::take(&mut rest).unwrap();
                let (slot, state, text) = match frame {
                    ToEdge::Attached { slot, state, greeting, .. } => (slot, Some(state), greeting),
                    ToEdge::SessionState { slot, state } | ToEdge::Released { slot, state } => {
                        (slot, Some(state), &[][..])
                    }
                    ToEdge::Down { slot, down_seq, origin, ttl, payload, .. } => {
                        confirms.push((slot, down_seq));
                        // An edge writes no message whose TTL is over.
                        let is_over = origin.is_some() && ttl == RemainingTtl::NONE;
                        (slot, None, if is_over { &[] } else { payload })
                    }
                    ToEdge::Outcomes { slot, reply, outcome, .. } => {
                        assert!(outcome != DeliveryOutcome::Unavailable || !reply.is_empty());
                        (slot, None, reply)
                    }
                    ToEdge::Ranked { slot, .. } => (slot, None, &[][..]),
                    ToEdge::Prove { slot } => {
                        proven.push(slot);
                        continue;
                    }
                    _ => continue,
                };
                let mut clients = self.clients.values_mut();
                let Some(client) = clients.find(|client| (client.node, client.slot) == (node, slot)) else { continue };
                if let ToEdge::Attached { session, seq, .. } = frame {
                    (client.session, client.seq) = (session, client.seq.max(seq.0));
                }
                if let ToEdge::Attached { rank, .. } | ToEdge::Ranked { rank, .. } = frame {
                    client.rank = rank;
                }
                client.states += usize::from(matches!(frame, ToEdge::SessionState { .. }));
                if let Some(state) = state {
                    client.state = state.to_vec();
                }
                client.received.extend(without_version(text));
            }
            for (slot, up_to) in confirms {
                self.send_frame(node, &ToNode::Confirm { slot, up_to, exceptions: Vec::new() });
            }
            for slot in proven {
                let client = self.clients.iter().find(|(_, client)| client.slot == slot);
                let client_id = client.map(|(name, _)| *name).unwrap_or_default();
                self.send_frame(node, &ToNode::Proved { slot, client_id });
            }
        }
    }
}

/// Returns a message without its version, which depends on the clock.
fn without_version(text: &[u8]) -> Option<String> {
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
    serde_json::from_str::<Value>(welcome).unwrap()["resume"].as_str().unwrap().to_owned()
}
