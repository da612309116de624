//! A node with rooms and peers and without clients, for the unit tests of several modules.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use signaling_membership::{NodeEntry, View};
use signaling_protocol::{ClientId, NodeId, RoomName};
use signaling_wire::{Counter, Incarnation, Rank, SessionId, SocketId};

use crate::{
    Contact, Context, NodeProcess, Output, Peer, Requester, RoomSettings, Rooms, SeatAttachment, Socket, SocketKey,
    Step,
};

/// Bytes at which a lane takes no further item.
const LANE_LIMIT: usize = 8 * 1024 * 1024;

/// A node whose lanes to its peers stay open, and send nothing.
pub(crate) struct Node {
    pub(crate) rooms: Rooms<()>,
    pub(crate) now: Instant,
    counter: Counter,
    pub(crate) around: Around,
}

/// The view of a node, the bytes in the lanes to its peers, and the peers in trouble.
pub(crate) struct Around {
    view: View,
    lanes: BTreeMap<NodeId, usize>,
    /// Suspects, each with `true` if it answers.
    suspects: BTreeMap<NodeId, bool>,
    pub(crate) contacts: BTreeMap<NodeId, Contact>,
}

impl Node {
    /// Creates a node whose view has `nodes`.
    pub(crate) fn new(id: &str, nodes: &[&str]) -> Self {
        Self::with(id, nodes, RoomSettings::default())
    }

    pub(crate) fn with(id: &str, nodes: &[&str], settings: RoomSettings) -> Self {
        let around = Around {
            view: View::new([]).unwrap(),
            lanes: BTreeMap::new(),
            suspects: BTreeMap::new(),
            contacts: BTreeMap::new(),
        };
        let process = process(id);
        let (rooms, counter) = (Rooms::new(&process, settings), Counter::default());
        // No former process of the node is of interest any more.
        let mut node = Self { rooms, now: process.start + Duration::from_secs(3), counter, around };
        node.set_view(nodes);
        node
    }

    pub(crate) fn step(&mut self) -> Step<'_, (), &Around> {
        self.rooms.step(self.now, &mut self.counter, &self.around)
    }

    pub(crate) fn set_view(&mut self, nodes: &[&str]) {
        self.set_members(nodes.iter().map(|id| member(id)));
    }

    pub(crate) fn set_members(&mut self, members: impl IntoIterator<Item = NodeEntry>) {
        self.around.view = View::new(members).unwrap();
        self.all_answer();
        self.rooms.step(self.now, &mut self.counter, &self.around).adopt_room_view(&self.around.view);
    }

    /// Makes a peer suspect, or with `None` healthy. One that does not answer has no process.
    pub(crate) fn suspect(&mut self, peer: &str, answers: Option<bool>) {
        let peer = NodeId::new(peer).unwrap();
        match answers {
            Some(answers) => self.around.suspects.insert(peer, answers),
            None => self.around.suspects.remove(&peer),
        };
        self.all_answer();
        self.step().check_backups();
    }

    /// Has all members with a process answer now, by views that have this node. So they did since
    /// the last time.
    pub(crate) fn all_answer(&mut self) {
        let Around { view, contacts, suspects, .. } = &mut self.around;
        for member in view.members() {
            let contact = match suspects.get(&member.id) {
                Some(false) => Contact { refused: Some(self.now), ..Contact::default() },
                _ => Contact { names_us: Some(self.now), ..Contact::default() },
            };
            contacts.insert(member.id.clone(), contact);
        }
        self.rooms.mesh.keeps_majority(self.now);
    }

    pub(crate) fn sweep(&mut self) {
        self.all_answer();
        self.step().sweep(&[]);
    }

    /// Returns a room that a node owns by the view.
    pub(crate) fn room_of(&self, owner: &str) -> RoomName {
        let mut names = (0..).map(|number| RoomName::new(&format!("r{number}")).unwrap());
        names.find(|room| self.rooms.mesh.owner_of(room) == Some(owner)).unwrap()
    }

    /// Passes the items for other nodes to their lanes. Returns them.
    pub(crate) fn fill_lanes(&mut self) -> Vec<Vec<u8>> {
        let outputs = self.rooms.take_outputs();
        let mut items = Vec::new();
        for output in outputs.queue {
            if let Output::ToNode { to, item, .. } = output {
                *self.around.lanes.entry(to).or_default() += item.len();
                items.push(outputs.items[item].to_vec());
            }
        }
        items
    }

    pub(crate) fn empty_lanes(&mut self) {
        self.fill_lanes();
        self.around.lanes.clear();
    }
}

/// Returns a member on a host of its own, without a zone.
pub(crate) fn member(id: &str) -> NodeEntry {
    let address = format!("{id}:1").parse().unwrap();
    NodeEntry { id: NodeId::new(id).unwrap(), address, draining: false, zone: None }
}

/// Returns a process of this node.
pub(crate) fn process(id: &str) -> NodeProcess {
    let (id, start) = (NodeId::new(id).unwrap(), Instant::now());
    NodeProcess { id, incarnation: Incarnation([0; 8]), hash_seed: 0, start }
}

/// Returns the requester of a client's command, by its only session.
pub(crate) fn requester(client: &str, node: &str, number: u64) -> Requester {
    let (client, node) = (ClientId::new(client).unwrap(), NodeId::new(node).unwrap());
    Requester {
        client,
        session: SessionId([1; 16]),
        socket: SocketId([1; 8]),
        rank: Rank(1),
        attachment: 1,
        number,
        node,
    }
}

/// Returns an attachment of the socket with this rank.
pub(crate) fn seat_attachment(rank: u8, attachment: u64) -> SeatAttachment {
    SeatAttachment { rank: Rank(rank.into()), attachment, socket: SocketId([rank; 8]) }
}

impl Context for &Around {
    fn socket(&self, _: SocketKey) -> Option<Socket<'_>> {
        None
    }

    fn holder(&self, _: &str) -> Option<(SocketKey, Socket<'_>)> {
        None
    }

    fn session_of(&self, _: &ClientId) -> Option<SessionId> {
        None
    }

    fn lingers(&self, _: &ClientId, _: SessionId) -> bool {
        false
    }

    fn lost_at(&self, _: &ClientId, _: SessionId) -> Option<Instant> {
        None
    }

    fn is_at_peer(&self, _: &str, _: SessionId) -> bool {
        false
    }

    fn is_home(&self, _: &str) -> bool {
        false
    }

    fn peer(&self, node: &str) -> Option<Peer> {
        let peer = self.view.members().iter().find(|peer| peer.id.as_str() == node)?;
        let queued = self.lanes.get(&peer.id).copied().unwrap_or_default();
        let suspect = self.suspects.get(&peer.id).copied();
        Some(Peer { is_suspect: suspect.is_some(), answers: suspect.unwrap_or(true), queued, limit: LANE_LIMIT })
    }

    fn contact(&self, node: &str) -> Contact {
        self.contacts.get(node).copied().unwrap_or_default()
    }

    fn is_stalled(&self, _: Instant, _: &str) -> bool {
        false
    }

    fn answering(&self) -> Vec<NodeId> {
        self.view.members().iter().map(|peer| peer.id.clone()).collect()
    }
}
