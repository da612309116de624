//! Rooms that this node owns or backs up. Each room has an owner and a backup among the nodes.
//!
//! The owner of a room is the node with the highest rendezvous score for the room's name, by the
//! view and without regard to suspects. It puts the operations of all nodes in order and applies
//! them. It sends each one to the backup, which applies it too, announces its changes and sends the
//! result to the node that requested it. So a client receives no change that only one node has. An
//! owner without a backup announces and answers itself.
//!
//! | content | module |
//! |---|---|
//! | items of peers | `received` |
//! | requests of this node, repeated until they are answered | `requests` |
//! | rooms that this node owns: takeover, operations | `owner` |
//! | the time of a room | `room_clock` |
//! | their backups and epochs | `backups` |
//! | nodes that can be backups, and their distance | `candidates` |
//! | their seats: claims and expiry | `seats` |
//! | copies of rooms that other nodes own | `copies` |
//! | their versions for nodes that are back in the view | `returned` |
//! | rooms that wait for room in the lanes to nodes | `rooms_by_node` |
//! | what a journal receives of them, and what is read back | `journal` |
//! | bytes of rooms: limit, refusals, rooms without clients | `space` |
//! | the majority of the view, without which this node serves no rooms | `majority` |
//! | the wait for all members before this node serves rooms of a new view | `barrier` |
//!
//! `docs/ROOMS.md` has the rules and the failures that they survive. `seats` has the clients' side
//! of rooms.

mod backups;
mod barrier;
mod candidates;
mod copies;
mod journal;
mod majority;
mod owner;
mod received;
mod requests;
mod returned;
mod room_clock;
mod rooms_by_node;
mod seats;
mod space;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use signaling_membership::View;
use signaling_protocol::{NodeId, RoomName};
use signaling_rendezvous::{KeyHash, Ranking};
use signaling_wire::Incarnation;
use signaling_wire::forward::LogPosition;

use self::barrier::Barrier;
use self::candidates::{Candidates, Fitness};
use self::copies::RoomCopy;
use self::journal::Journal;
use self::majority::Majority;
use self::owner::{LogEntry, OwnedRoom};
use self::requests::{Requester, Requests};
use self::room_clock::RoomClock;
use self::rooms_by_node::RoomsByNode;
use self::space::Space;
use crate::counted::{ByteTotal, CountedMap};
use crate::{Context, NodeProcess, OpResult, Operation, Room, RoomRule, RoomSettings, Rooms, Rules, Step};

/// This node's share of the mesh's rooms: its own rooms, copies, and requests to other owners.
pub(crate) struct MeshRooms {
    pub(crate) id: NodeId,
    hash_seed: u64,
    rules: Rules,
    /// Hash of the current view.
    view_hash: u64,
    /// Number of adopted views.
    adoptions: u64,
    members: BTreeSet<NodeId>,
    /// Members that do not drain, or all if all drain.
    ranking: Ranking,
    candidates: Candidates,
    /// Fitness of the best candidates by the last sweep.
    best_backup: Option<Fitness>,
    /// Time at which rooms with less fit backups are queued. `None`: they were, since the best
    /// fitness or the view changed.
    review_at: Option<Instant>,
    requests: Requests,
    barrier: Barrier,
    majority: Majority,
    /// Times at which members could follow no owner.
    refusals: BTreeMap<NodeId, Instant>,
    owned: CountedMap<OwnedRoom>,
    space: Space,
    /// Times at which an owned room changes without a request.
    deadlines: BTreeSet<(Instant, RoomName)>,
    /// Owned rooms of which the backup lacks a copy, for lack of room in its lane.
    unsent: BTreeSet<RoomName>,
    /// Owned rooms that were given up because a member has seen a later epoch, with that epoch.
    outdated: BTreeMap<RoomName, u64>,
    /// Nodes with sessions in rooms that this node has served all the time, to be checked.
    reported: VecDeque<(RoomName, NodeId)>,
    /// Queued requests to nodes to claim the seats of their sessions.
    claim_requests: RoomsByNode,
    /// Owned rooms that are to get a backup. An operation on the room does not wait for a sweep.
    unassigned: BTreeSet<RoomName>,
    /// Owned rooms without a backup. They get one as soon as another member answers.
    alone: BTreeSet<RoomName>,
    /// Rooms that had a less fit backup when they were queued. They wait for sweeps.
    outranked: BTreeSet<RoomName>,
    /// Nodes that have joined the view, until the next sweep finds the announced rooms with seats
    /// there.
    joined: BTreeSet<NodeId>,
    /// Rooms with seats at nodes that have joined the view. The nodes are to get their versions.
    unsent_versions: RoomsByNode,
    /// Nodes that have left the view, until the next sweep finds the owned rooms with seats there.
    left: BTreeSet<NodeId>,
    /// Lost nodes whose seats in an owned room are to expire. A request for the room does not wait.
    expiring: BTreeMap<RoomName, BTreeSet<NodeId>>,
    copies: CountedMap<RoomCopy>,
    /// Bytes of copies that have arrived in part, by sender and room.
    partial: BTreeMap<(NodeId, RoomName), Vec<u8>>,
    /// `None`: no journal is written.
    journal: Option<Box<Journal>>,
    counts: MeshRoomCounts,
    commits: Option<Vec<RoomCommit>>,
}

/// Events of rooms that nodes own, at this node since its start.
#[derive(Debug, Clone, Copy, Default)]
pub struct MeshRoomCounts {
    /// Rooms taken over from copies: of other owners, or of this node if it gave the room up.
    pub taken_over: u64,
    /// Rooms whose copies were all lost, rebuilt from the seats at the nodes.
    pub rebuilt: u64,
    /// Whole rooms queued for backups.
    pub copied: u64,
    /// Requests of clients and operators without an answer within 2 s.
    pub timeouts: u64,
    /// Total time of finished waits for the confirmation of all members, as after a changed view.
    pub waited: Duration,
}

/// Current numbers, at this node, of rooms that are owned by nodes.
#[derive(Debug, Clone, Copy, Default)]
pub struct MeshRoomFigures {
    /// Rooms that this node owns.
    pub owned: usize,
    /// Copies of rooms that this node does not serve as their owner, including `waiting`.
    pub copies: usize,
    /// Copies that follow no owner's log: they wait for the next owners of their rooms.
    pub waiting: usize,
    /// Requests of this node to owners, itself included, without an answer.
    pub requests: usize,
    /// Members of the view that have not confirmed it to this node.
    pub unconfirmed: usize,
    /// Owned rooms without members and waiting clients.
    pub vacant: usize,
    /// Estimated bytes of owned rooms, copies and seats of clients.
    pub bytes: usize,
}

/// An operation whose result this node announced, for tests of whole meshes.
#[derive(Debug)]
pub struct RoomCommit {
    /// Name of the room.
    pub room: RoomName,
    /// The owner whose log it is in.
    pub owner: NodeId,
    /// Place of the operation in the room's log.
    pub at: LogPosition,
    /// Room time of the operation, in ms.
    pub time: u64,
    /// The operation. `None`: a node is lost and its seats await a claim, or the last owner's
    /// operations are lost.
    pub op: Option<Operation>,
    /// Its result.
    pub result: OpResult,
    /// The room after it.
    pub state: Room,
}

impl MeshRooms {
    /// `bytes`: the total that its rooms and copies count for.
    pub(crate) fn new(process: &NodeProcess, settings: &RoomSettings, bytes: ByteTotal) -> Self {
        Self {
            id: process.id.clone(),
            hash_seed: process.hash_seed,
            rules: settings.rules,
            view_hash: View::default().hash(),
            adoptions: 0,
            members: BTreeSet::new(),
            ranking: Ranking::default(),
            candidates: Candidates::default(),
            best_backup: None,
            review_at: None,
            requests: Requests::new(process.incarnation),
            barrier: Barrier::new(process.incarnation, process.start),
            majority: Majority::default(),
            refusals: BTreeMap::new(),
            owned: CountedMap::new(&bytes),
            copies: CountedMap::new(&bytes),
            space: Space::new(settings.max_bytes, bytes),
            deadlines: BTreeSet::new(),
            unsent: BTreeSet::new(),
            outdated: BTreeMap::new(),
            reported: VecDeque::new(),
            unassigned: BTreeSet::new(),
            alone: BTreeSet::new(),
            outranked: BTreeSet::new(),
            joined: BTreeSet::new(),
            unsent_versions: RoomsByNode::default(),
            left: BTreeSet::new(),
            expiring: BTreeMap::new(),
            claim_requests: RoomsByNode::default(),
            partial: BTreeMap::new(),
            journal: settings.has_journal.then(|| Box::new(Journal::new(process.start))),
            counts: MeshRoomCounts::default(),
            commits: settings.records_commits.then(Vec::new),
        }
    }

    /// Returns the clock of a new room at this node.
    fn new_clock(&self, now: Instant) -> RoomClock {
        self.own_clock(RoomClock::at(now, 0))
    }

    /// Returns the clock of a room that this node begins to own, from the one of its copy.
    fn own_clock(&self, of_copy: RoomClock) -> RoomClock {
        match self.rules.breaks {
            Some(RoomRule::RoomTime { at, wall_ms }) => RoomClock::at(at, wall_ms),
            _ => of_copy,
        }
    }

    /// Returns the owner of a room by the present view. `None`: there is no view.
    pub(crate) fn owner_of(&self, room: &RoomName) -> Option<&str> {
        owner_in(&self.ranking, room)
    }

    /// Records the epoch of an announced change of a room.
    pub(super) fn record_epoch(&mut self, room: &RoomName, epoch: u64) {
        self.requests.record_epoch(room, epoch);
    }

    /// Returns the epoch of a room that this node owns or backs up, and the epoch that it
    /// continues. 0: it does neither.
    fn epoch_of(&self, room: &RoomName) -> (u64, u64) {
        let owned = self.owned.get(room).map(|owned| (owned.at.epoch, owned.base));
        owned.or_else(|| self.copies.get(room).map(|copy| (copy.at.epoch, copy.base))).unwrap_or_default()
    }

    fn record_commit(&mut self, room: &RoomName, (time, entry): (u64, &LogEntry), result: &OpResult) {
        let Some(commits) = &mut self.commits else { return };
        let owned = self.owned.get(room).map(|owned| (self.id.clone(), owned.at, &owned.room));
        let copied = || self.copies.get(room).and_then(|copy| Some((copy.from.clone()?, copy.at, &copy.room)));
        let Some((owner, at, state)) = owned.or_else(copied) else { return };
        let (room, op, result, state) = (room.clone(), entry.op().cloned(), result.clone(), state.clone());
        commits.push(RoomCommit { room, owner, at, time, op, result, state });
    }

    /// Records lost members: rooms without a copy may be in the journal.
    fn members_lost(&mut self, now: Instant, count: usize) {
        if let Some(journal) = &mut self.journal {
            journal.members_lost(now, count);
        }
    }

    fn owns(&self, room: &RoomName) -> bool {
        self.owner_of(room) == Some(self.id.as_str())
    }

    /// Returns `true` if rare sweeps suffice: no request, copy, seat claim, version or confirmation
    /// is pending.
    pub(super) fn is_idle(&self) -> bool {
        let all_sent = self.unsent.is_empty() && self.reported.is_empty() && self.claim_requests.is_empty();
        let all_backed_up = self.unassigned.is_empty() && self.outranked.is_empty();
        let all_done = all_sent && all_backed_up && self.left.is_empty() && self.expiring.is_empty();
        let all_informed = self.joined.is_empty() && self.unsent_versions.is_empty();
        let is_served = self.majority.is_held || self.members.is_empty();
        self.requests.pending.is_empty() && all_done && all_informed && is_served && self.barrier.is_idle()
    }

    /// Returns `true` if the node may stop: no request of it is pending, and it keeps no room for a
    /// next owner.
    pub(super) fn is_quiet(&self) -> bool {
        self.requests.pending.is_empty() && self.waiting_copies() == 0
    }

    /// Adopts a view. Returns `false` if it has not changed, or only in zones.
    fn adopt(&mut self, view: &View) -> bool {
        self.candidates = Candidates::new(self.hash_seed, &self.id, view);
        if self.view_hash == view.hash() {
            return false;
        }
        self.view_hash = view.hash();
        self.adoptions += 1;
        self.members = view.members().iter().map(|member| member.id.clone()).collect();
        let all_drain = view.members().iter().all(|member| member.draining);
        let eligible = view.members().iter().filter(|member| all_drain || !member.draining);
        self.ranking = Ranking::new(self.hash_seed, eligible.map(|member| member.id.as_str()));
        true
    }
}

fn owner_in<'a>(ranking: &'a Ranking, room: &RoomName) -> Option<&'a str> {
    ranking.owner(KeyHash::of(room.as_str())).map(|rank| ranking.id(rank))
}

impl<M: Clone, C: Context> Step<'_, M, C> {
    /// Adopts a changed view: gives up rooms that other nodes own now, requests confirmations from
    /// all members, and repeats pending requests.
    pub fn adopt_room_view(&mut self, view: &View) {
        let before = self.mesh.members.clone();
        self.await_steady_backups();
        if !self.mesh.adopt(view) {
            return;
        }
        let joined: Vec<_> = self.mesh.members.difference(&before).cloned().collect();
        self.expect_former_owners(&before);
        self.mesh.barrier.answering.clear();
        self.mesh.partial.retain(|(sender, _), _| self.mesh.members.contains(sender));
        self.queue_unclaims_of_left();
        self.review_rooms(&joined);
        self.mesh.refusals.retain(|node, _| self.mesh.members.contains(node));
        self.mesh.left = &before - &self.mesh.members;
        let lost = self.mesh.left.len();
        self.mesh.members_lost(self.now, lost);
        self.mesh.joined.extend(joined.into_iter().filter(|node| *node != self.mesh.id));
        self.start_barrier();
        self.review_majority();
        self.finish_barrier();
        self.answer_known_queries();
        self.ask_for_claims();
        self.resend_requests(|_| true);
    }

    /// Handles the restart of a peer: it has lost its rooms and copies. Sweeps begin a new epoch of
    /// the rooms that it backed up.
    pub fn room_peer_restarted(&mut self, node: &NodeId) {
        for (_, copy) in self.mesh.copies.iter_mut() {
            copy.from.take_if(|from| *from == *node);
        }
        self.mesh.partial.retain(|(sender, _), _| sender != node);
        self.mesh.members_lost(self.now, 1);
        self.mesh.void_confirmation(node);
        self.mesh.barrier.forget_former_owner(node);
        self.mesh.barrier.forget_requests(node);
        let backed_up = self.mesh.owned.iter().filter(|(_, owned)| owned.is_backed_up_by(node));
        self.mesh.unassigned.extend(backed_up.map(|(name, _)| name.clone()));
        self.queue_unclaims(node);
        self.resend_requests(|owner| owner == node.as_str());
        self.query_members();
    }

    /// Does the periodic work of rooms that this node owns or backs up.
    pub(crate) fn sweep_copies(&mut self) {
        self.review_majority();
        self.repeat_requests();
        self.repeat_queries();
        self.continue_barrier();
        self.continue_answers();
        self.send_versions();
        self.queue_unclaims_of_left();
        self.ask_for_claims();
        self.report_full_rooms();
        self.sweep_journal();
        // Without this the owner's own entries stay queued.
        if self.serves() {
            self.send_unsent_copies();
            self.assign_backups();
            self.apply_unclaims();
            self.handle_deadlines();
            self.make_space();
            self.continue_reading();
        }
    }

    /// Announces a result to the nodes with seats, and takes its changes.
    fn announce(&mut self, room: &RoomName, result: &mut OpResult) {
        self.notify_peers(room, result);
        let (at, changes) = (result.stamp(), std::mem::take(&mut result.changes));
        let queue_moved = std::mem::take(&mut result.queue_moved);
        let is_here = std::mem::take(&mut result.nodes).contains(&self.mesh.id);
        if is_here && self.follow_epoch(room, (result.epoch, result.base), at) {
            self.room_changed(room, at, changes, queue_moved);
        }
    }

    /// Announces a result, and sends it to the node that requested it.
    fn commit(
        &mut self,
        room: &RoomName,
        (time, entry): (u64, &LogEntry),
        requester: Option<&Requester>,
        mut result: OpResult,
    ) {
        (result.epoch, result.base) = self.mesh.epoch_of(room);
        self.mesh.record_commit(room, (time, entry), &result);
        self.announce(room, &mut result);
        match requester {
            Some(requester) if requester.node == self.mesh.id => self.request_answered(requester.id, result),
            Some(requester) => self.send_result(requester, &result),
            None => {}
        }
    }
}

impl<M> Rooms<M> {
    /// Returns `true` while a client's join or leave has no answer from the room's owner.
    pub fn awaits_join_or_leave(&self) -> bool {
        self.mesh.requests.moves > 0
    }

    /// Takes the operations whose results this node announced. Empty unless
    /// [`RoomSettings::records_commits`] is set.
    pub fn take_commits(&mut self) -> Vec<RoomCommit> {
        self.mesh.commits.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Returns a room that this node owns. `None`: another node owns it, or no operation has
    /// created it since it was last forgotten. Also `None` for a room new to this node until all
    /// members have confirmed the view.
    pub fn owned(&self, room: &str) -> Option<&Room> {
        self.mesh.owned.get(room).map(|owned| &owned.room)
    }

    /// Returns the backup of a room that this node owns. `None`: the room has no backup, or this
    /// node does not own it.
    pub fn backup_of(&self, room: &str) -> Option<&NodeId> {
        self.mesh.owned.get(room)?.backup.as_ref()
    }

    /// Returns the members of the view that have not confirmed it to this node.
    pub fn unconfirmed_members(&self) -> impl Iterator<Item = &NodeId> {
        self.mesh.barrier.waiting.iter()
    }

    /// Returns `true` if this node has the majority of its view, without which it serves no rooms.
    pub fn has_majority(&self) -> bool {
        self.mesh.majority.is_held
    }

    /// Returns the events of owned rooms and copies since the start.
    pub fn mesh_counts(&self) -> MeshRoomCounts {
        self.mesh.counts
    }

    /// Returns the current figures of owned rooms and copies.
    pub fn mesh_figures(&self) -> MeshRoomFigures {
        let mesh = &self.mesh;
        let (owned, copies, requests) = (mesh.owned.len(), mesh.copies.len(), mesh.requests.pending.len());
        let (waiting, unconfirmed) = (mesh.waiting_copies(), mesh.barrier.waiting.len());
        let (vacant, bytes) = (mesh.space.vacant_rooms(), mesh.bytes());
        MeshRoomFigures { owned, copies, waiting, requests, unconfirmed, vacant, bytes }
    }
}

/// Returns the first request number of a process start. It differs after a restart, so that this
/// process ignores answers to the former one.
fn first_number(incarnation: Incarnation) -> u64 {
    u64::from_le_bytes(incarnation.0) >> 1
}
