//! The barrier before this node serves rooms that a new view gives it: each member has confirmed
//! the view, and has sent its copies of those rooms. So no operation of a former owner follows.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use signaling_protocol::{NodeId, RoomName};
use signaling_wire::forward::Item;
use signaling_wire::{Incarnation, codec};

use super::MeshRooms;
use super::copies::RoomCopy;
use super::first_number;
use super::majority::HANDOVER;
use super::requests::Requester;
use crate::{Contact, Context, Operation, RoomRule, Step};

/// Interval of repeated queries.
const QUERY_INTERVAL: Duration = Duration::from_millis(500);
/// Maximum requests that wait for the barrier. Others are repeated by their nodes.
const MAX_PARKED: usize = 10_000;
/// Maximum bytes of their operations.
const MAX_PARKED_BYTES: usize = 16 * 1024 * 1024;
/// Maximum room names of one item: 128 KiB.
const NAMES_PER_ITEM: usize = 1_000;
/// Maximum copies encoded for one member at a time.
const MAX_COPIES_PER_MEMBER: usize = 1_000;

/// A query of a peer for the view with this hash, with its number.
struct Query {
    view: u64,
    number: u64,
}

/// Time without a repetition after which a parked request is forgotten: its node has given it up.
const MAX_WAIT: Duration = Duration::from_secs(1);

/// A request that waits for the barrier.
struct ParkedRequest {
    since: Instant,
    /// The room, with its highest epoch that the requesting node has seen.
    room: (RoomName, u64),
    /// The operation, encoded to have a size.
    op: Vec<u8>,
}

/// Maximum nodes outside the view that a confirmation names.
const MAX_FORMER: usize = 1_000;

/// Confirmations that this node waits for or owes.
#[derive(Default)]
pub(super) struct Barrier {
    /// Start of this process.
    pub(super) start: Option<Instant>,
    /// Number of the present query.
    pub(super) query: u64,
    /// Members that have not confirmed the view.
    pub(super) waiting: BTreeSet<NodeId>,
    /// Members that have confirmed it, with the number of views that they had adopted then.
    confirmed: BTreeMap<NodeId, u64>,
    /// Nodes that may own rooms by a view that this node had since the barrier was complete, or by
    /// the view before.
    owners: BTreeSet<NodeId>,
    /// Those which the view lacks, and the last answer of this node to each before.
    answered: BTreeMap<NodeId, Instant>,
    /// Nodes outside the view that may own rooms by an earlier one until these times, unless they
    /// confirm the view before.
    former: BTreeMap<NodeId, Instant>,
    /// Nodes that are new or back in the view, until they confirm it: their lanes may carry what
    /// they sent as owners of an earlier time. All, after a loss of the majority.
    pub(super) unproven: BTreeSet<NodeId>,
    /// `true` if a room was given up during the wait: the members are asked once more.
    again: bool,
    /// Start of the wait, also if it has begun again. `None`: there is none, and this node has
    /// taken over the copies of its rooms.
    since: Option<Instant>,
    asked: Option<Instant>,
    /// Rooms that this node does not serve yet, with seats of sessions at these members.
    reported: BTreeSet<(RoomName, NodeId)>,
    parked: BTreeMap<Requester, ParkedRequest>,
    /// Bytes of the operations in `parked`.
    parked_bytes: usize,
    /// The last queries of peers whose views this node did not have.
    unanswered: BTreeMap<NodeId, Query>,
    /// Copies to send to peers before the confirmation of their queries, with the query's number.
    pub(super) answering: BTreeMap<NodeId, (u64, VecDeque<RoomName>)>,
}

impl Barrier {
    pub(super) fn new(incarnation: Incarnation, start: Instant) -> Self {
        Self { start: Some(start), query: first_number(incarnation), ..Self::default() }
    }

    /// Returns `true` if this node waits for no member, and has taken over its rooms.
    pub(super) fn is_finished(&self) -> bool {
        self.since.is_none() && self.waiting.is_empty()
    }

    /// Returns `true` if all members have confirmed the present view, and no node outside of it may
    /// own rooms.
    pub(super) fn is_complete(&self, now: Instant) -> bool {
        self.waiting.is_empty() && self.former.values().all(|until| *until <= now)
    }

    /// Returns `true` if no confirmation or request is pending here, and none is owed to a peer.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.former.is_empty() && self.answering.is_empty() && self.parked.is_empty()
    }

    /// Returns `true` if a node may follow another one as the owner of further rooms.
    pub(super) fn is_proven(&self, owner: &NodeId) -> bool {
        !self.unproven.contains(owner)
    }

    /// Handles the restart of a node: its former process owns nothing any more.
    pub(super) fn forget_former_owner(&mut self, node: &NodeId) {
        self.answered.remove(node);
        self.former.remove(node);
    }

    /// Stores a request until the barrier is complete, or drops it above the limits.
    pub(super) fn park(&mut self, now: Instant, requester: Requester, (room, op): ((RoomName, u64), Operation)) {
        let op = codec::to_bytes(&op);
        let repeated = self.parked.remove(&requester);
        self.parked_bytes -= repeated.map_or(0, |repeated| repeated.op.len());
        if self.parked.len() < MAX_PARKED && self.parked_bytes + op.len() <= MAX_PARKED_BYTES {
            self.parked_bytes += op.len();
            self.parked.insert(requester, ParkedRequest { since: now, room, op });
        }
    }

    pub(super) fn forget_requests(&mut self, node: &NodeId) {
        self.retain_parked(|requester, _| requester.node != *node);
    }

    fn retain_parked(&mut self, is_kept: impl Fn(&Requester, &ParkedRequest) -> bool) {
        self.parked.retain(|requester, request| is_kept(requester, request));
        self.parked_bytes = self.parked.values().map(|request| request.op.len()).sum();
    }
}

impl<M: Clone, C: Context> Step<'_, M, C> {
    /// Waits for all other members, and reports the rooms of this node with seats of its sessions.
    pub(super) fn start_barrier(&mut self) {
        let MeshRooms { barrier, members, id, reported, .. } = &mut self.mesh;
        barrier.query += 1;
        barrier.waiting = members.iter().filter(|member| **member != *id).cloned().collect();
        barrier.confirmed.clear();
        barrier.reported.clear();
        reported.clear();
        barrier.again = false;
        barrier.since.get_or_insert(self.now);
        let own: Vec<_> = self.local.local_rooms().filter(|room| self.mesh.owns(room)).cloned().collect();
        own.into_iter().for_each(|room| self.mesh.report(room, self.mesh.id.clone()));
        self.query_members();
    }

    /// Finds the nodes that the present view lacks, and that may own rooms by an earlier one. This
    /// node may have answered them until now, or its former process before its start, or they may
    /// count that as gone. A node that refused the connection owns nothing.
    pub(super) fn expect_former_owners(&mut self, before: &BTreeSet<NodeId>) {
        let MeshRooms { barrier, ranking, members, .. } = &mut self.mesh;
        let Barrier { start, owners, answered, former, unproven, .. } = barrier;
        owners.extend((0..ranking.len()).filter_map(|rank| NodeId::new(ranking.id(rank)).ok()));
        answered.retain(|node, at| !members.contains(node) && *at + HANDOVER > self.now);
        former.retain(|node, _| !members.contains(node));
        unproven.retain(|node| members.contains(node));
        unproven.extend(members.difference(before).cloned());
        for node in owners.extract_if(.., |node| !members.contains(node)) {
            let Contact { refused: None, named, .. } = self.cx.contact(node.as_str()) else { continue };
            if let Some(at) = named.max(*start).filter(|at| *at + HANDOVER > self.now) {
                former.insert(node.clone(), at + HANDOVER);
                answered.insert(node, at);
            }
        }
    }

    /// Returns `true` if this node serves rooms, and has taken over its new ones.
    pub(super) fn serves_new_rooms(&self) -> bool {
        self.mesh.barrier.since.is_none() && self.may_take_over()
    }

    fn may_take_over(&self) -> bool {
        let is_complete = match self.mesh.rules.keeps(RoomRule::FormerOwner) {
            true => self.mesh.barrier.is_complete(self.now),
            false => self.mesh.barrier.waiting.is_empty(),
        };
        is_complete && self.serves()
    }

    /// Waits for all members once more: a room was given up.
    pub(super) fn restart_barrier(&mut self) {
        if self.mesh.barrier.waiting.is_empty() {
            self.start_barrier();
            self.finish_barrier();
        } else {
            self.mesh.barrier.again = true;
            self.mesh.barrier.since.get_or_insert(self.now);
        }
    }

    /// Asks the members that have not confirmed the view to confirm it, and nodes that it lacks.
    pub(super) fn query_members(&mut self) {
        let MeshRooms { barrier, view_hash, adoptions, .. } = &mut self.mesh;
        barrier.asked = Some(self.now);
        let query = Item::ViewQuery { view: *view_hash, query: barrier.query, adoption: *adoptions };
        for member in barrier.waiting.iter().chain(barrier.former.keys()).cloned().collect::<Vec<_>>() {
            self.send_item(&member, &query, true);
        }
    }

    /// Asks the members again if 500 ms have passed since the last query. Forgets old requests.
    pub(super) fn repeat_queries(&mut self) {
        self.mesh.barrier.retain_parked(|_, request| self.now.saturating_duration_since(request.since) < MAX_WAIT);
        let is_due = |asked: Instant| self.now.saturating_duration_since(asked) >= QUERY_INTERVAL;
        let is_pending = !self.mesh.barrier.is_complete(self.now);
        if is_pending && self.mesh.barrier.asked.is_none_or(is_due) {
            self.query_members();
        }
    }

    /// Takes over a room from its copy, or has a sweep do so as soon as this node serves rooms.
    pub(super) fn take_over_copy(&mut self) {
        if self.serves_new_rooms() {
            self.take_over_rooms(BTreeSet::new());
        } else {
            self.mesh.barrier.since.get_or_insert(self.now);
        }
    }

    /// Completes the barrier, or carries parked requests out, as soon as this node serves rooms.
    pub(super) fn continue_barrier(&mut self) {
        if self.mesh.barrier.since.is_some() {
            self.finish_barrier();
        } else if !self.mesh.barrier.parked.is_empty() && self.serves_new_rooms() {
            self.carry_out_parked();
        }
    }

    /// Handles a query of a peer. A peer that has adopted another view since it confirmed this one
    /// may have owned rooms meanwhile: it is asked again.
    pub(crate) fn view_queried(&mut self, sender: &NodeId, (view, number): (u64, u64), adoption: u64) {
        if self.mesh.barrier.confirmed.get(sender).is_some_and(|confirmed| adoption > *confirmed) {
            self.mesh.void_confirmation(sender);
            self.query_members();
        }
        if self.mesh.barrier.answering.get(sender).is_some_and(|(query, _)| *query == number) {
            // The answer is on its way.
            return;
        }
        self.mesh.barrier.unanswered.insert(sender.clone(), Query { view, number });
        self.answer_known_queries();
    }

    /// Answers the queries for the present view.
    pub(super) fn answer_known_queries(&mut self) {
        let MeshRooms { view_hash, members, barrier, copies, ranking, .. } = &mut self.mesh;
        barrier.unanswered.retain(|peer, query| {
            let is_known = query.view == *view_hash;
            if is_known {
                // The owner has the rooms whose log it sends here.
                let is_wanted = |(room, copy): &(&RoomName, &RoomCopy)| {
                    copy.from.as_ref() != Some(peer) && super::owner_in(ranking, room) == Some(peer.as_str())
                };
                let rooms = copies.iter().filter(is_wanted).map(|(room, _)| room.clone()).collect();
                barrier.answering.insert(peer.clone(), (query.number, rooms));
            }
            !is_known && members.contains(peer)
        });
        self.continue_answers();
    }

    /// Sends copies to peers as far as their lanes have room, then the confirmations.
    pub(super) fn continue_answers(&mut self) {
        for (peer, (query, mut rooms)) in std::mem::take(&mut self.mesh.barrier.answering) {
            if self.send_copies(&peer, &mut rooms) {
                self.confirm_view(&peer, query);
            } else {
                self.mesh.barrier.answering.insert(peer, (query, rooms));
            }
        }
    }

    /// Sends copies of rooms to their owner. Returns `false` if some are left for later.
    fn send_copies(&mut self, peer: &NodeId, rooms: &mut VecDeque<RoomName>) -> bool {
        for _ in 0..MAX_COPIES_PER_MEMBER {
            let Some(room) = rooms.pop_front() else { return true };
            let copy = self.mesh.copies.get(&room);
            let Some(copy) = copy else { continue };
            let (state, time, at) = (codec::to_bytes(&copy.room), copy.clock.time(self.now), (copy.at, copy.base));
            if !self.send_copy(peer, &room, (&state, time), at) {
                rooms.push_front(room);
                return false;
            }
        }
        rooms.is_empty()
    }

    /// Confirms the present view to a peer, with its rooms in which clients here have seats.
    fn confirm_view(&mut self, peer: &NodeId, query: u64) {
        let is_owned = |room: &&RoomName| self.mesh.owner_of(room) == Some(peer.as_str());
        let rooms: Vec<_> = self.local.local_rooms().filter(is_owned).cloned().collect();
        let adoption = self.mesh.adoptions;
        let answered = self.mesh.barrier.answered.iter().filter(|(_, at)| **at + HANDOVER > self.now);
        let former: Vec<_> = answered.take(MAX_FORMER).map(|(node, _)| node.clone()).collect();
        let (front, last) = rooms.split_at(rooms.len().saturating_sub(1) / NAMES_PER_ITEM * NAMES_PER_ITEM);
        let parts = front.chunks(NAMES_PER_ITEM).map(|part| (part, false)).chain([(last, true)]);
        for (part, last) in parts {
            let rooms = part.iter().map(RoomName::as_str).collect();
            let former = former.iter().filter(|_| last).map(NodeId::as_str).collect();
            self.send_item(peer, &Item::ViewConfirmed { query, adoption, rooms, former, last }, true);
        }
    }

    /// Handles a part of a member's confirmation of the view. Ignores one for an earlier query.
    pub(crate) fn view_confirmed(
        &mut self,
        sender: &NodeId,
        (query, adoption): (u64, u64),
        (rooms, former): (&[&str], &[&str]),
        last: bool,
    ) {
        if query != self.mesh.barrier.query {
            return;
        }
        for node in former.iter().take(MAX_FORMER).filter_map(|node| NodeId::new(node).ok()) {
            self.expect_former_owner(node);
        }
        for room in rooms.iter().filter_map(|room| RoomName::new(room).ok()) {
            self.mesh.report(room, sender.clone());
        }
        let Barrier { waiting, former, confirmed, unproven, .. } = &mut self.mesh.barrier;
        if last && (waiting.remove(sender) || former.remove(sender).is_some()) {
            unproven.remove(sender);
            confirmed.insert(sender.clone(), adoption);
            self.finish_barrier();
        }
    }

    /// Waits for a node outside the view that a member answered before it adopted the view.
    fn expect_former_owner(&mut self, node: NodeId) {
        let MeshRooms { barrier: Barrier { confirmed, former, .. }, members, id, .. } = &mut self.mesh;
        let is_over = members.contains(&node) || confirmed.contains_key(&node) || node == *id;
        let is_gone = || self.cx.contact(node.as_str()).refused.is_some();
        if !is_over && former.len() < MAX_FORMER && !is_gone() {
            former.insert(node, self.now + HANDOVER);
        }
    }

    /// Takes over the rooms of this node once all members have confirmed the view, no node outside
    /// of it may own them, and this node serves rooms.
    pub(super) fn finish_barrier(&mut self) {
        if !self.may_take_over() {
            return;
        }
        if std::mem::take(&mut self.mesh.barrier.again) {
            return self.start_barrier();
        }
        let waited = self.mesh.barrier.since.take().map(|since| self.now.saturating_duration_since(since));
        self.mesh.counts.waited += waited.unwrap_or_default();
        self.mesh.barrier.former.clear();
        self.mesh.barrier.owners.retain(|node| self.mesh.ranking.index_of(node.as_str()).is_some());
        let reported = std::mem::take(&mut self.mesh.barrier.reported);
        for (requester, ParkedRequest { room: (room, seen), .. }) in &self.mesh.barrier.parked {
            // Its operation is not carried out, but the epoch that it has seen shows a loss.
            if !self.mesh.members.contains(&requester.node) {
                let outdated = self.mesh.outdated.entry(room.clone()).or_default();
                *outdated = (*seen).max(*outdated);
            }
        }
        self.take_over_rooms(reported);
        self.carry_out_parked();
    }

    fn carry_out_parked(&mut self) {
        self.mesh.barrier.parked_bytes = 0;
        let parked = std::mem::take(&mut self.mesh.barrier.parked);
        for (requester, ParkedRequest { since, room, op }) in parked {
            if self.now.saturating_duration_since(since) < MAX_WAIT
                && let Ok(op) = codec::from_bytes(&op)
            {
                self.room_requested(requester, room, op);
            }
        }
    }
}

impl MeshRooms {
    /// Records a room of this node with seats of sessions at a member. Rooms that this node has
    /// served all the time can wait for a sweep.
    fn report(&mut self, room: RoomName, member: NodeId) {
        if self.owned.contains_key(&room) {
            self.reported.push_back((room, member));
        } else {
            self.barrier.reported.insert((room, member));
        }
    }

    /// Waits for a member once more.
    pub(super) fn void_confirmation(&mut self, member: &NodeId) {
        if self.barrier.confirmed.remove(member).is_some() && self.members.contains(member) {
            self.barrier.waiting.insert(member.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use signaling_wire::RoomRequestId;
    use signaling_wire::forward::LogPosition;

    use super::super::room_clock::RoomClock;
    use super::*;
    use crate::fixtures::{Node, requester};
    use crate::{Room, Rules, Seat, SeatStatus};

    fn from_n1(id: u64) -> Requester {
        Requester { node: NodeId::new("n1").unwrap(), id: RoomRequestId(id) }
    }

    /// Returns a claim of about 0.8 MiB.
    fn claim() -> Operation {
        let (requester, data) = (requester("alice", "n1", 1), Some("x".repeat(4096).into()));
        Operation::Claim { seats: vec![Seat { requester, status: SeatStatus::Unknown, data }; 200] }
    }

    #[test]
    fn parked_requests_have_a_limit_of_bytes() {
        let (now, mut barrier) = (Instant::now(), Barrier::new(Incarnation([0; 8]), Instant::now()));
        let room = RoomName::new("r").unwrap();
        let mut park = |id| {
            barrier.park(now, from_n1(id), ((room.clone(), 0), claim()));
            let bytes: usize = barrier.parked.values().map(|request| request.op.len()).sum();
            assert_eq!(barrier.parked_bytes, bytes);
            barrier.parked.len()
        };
        assert_eq!((0..100).map(&mut park).last(), Some(MAX_PARKED_BYTES / codec::to_bytes(&claim()).len()));
        let full = park(0);
        assert!((10..20).map(&mut park).all(|parked| parked == full), "repeated requests replace the earlier ones");
        barrier.forget_requests(&NodeId::new("n1").unwrap());
        assert_eq!((barrier.parked.len(), barrier.parked_bytes), (0, 0));
    }

    #[test]
    fn parked_request_of_a_node_that_left_shows_a_loss() {
        for (seen, is_lost) in [(5, false), (8, true)] {
            let mut node = Node::new("n0", &["n0", "n1"]);
            let (name, mut room) = (node.room_of("n0"), Room::new(1));
            let join = Operation::Join { requester: requester("alice", "n1", 1), data: None, capacity: None };
            room.apply(&Rules::default(), 1, &join);
            let incarnation = room.stamp().incarnation;
            let (clock, at) = (RoomClock::at(node.now, 1), LogPosition { epoch: 5, number: 1 });
            let copy = RoomCopy { room, clock, at, base: 0, from: None, givers: BTreeSet::new() };
            node.rooms.mesh.copies.insert(name.clone(), copy);
            node.step().room_requested(from_n1(1), (name.clone(), seen), claim());
            node.set_view(&["n0"]);
            let owned = node.rooms.owned(name.as_str()).unwrap();
            assert_eq!((owned.counts().0, owned.stamp().incarnation != incarnation), (1, is_lost), "{seen}");
        }
    }

    #[test]
    fn parked_request_is_forgotten_if_it_is_not_repeated() {
        let mut node = Node::new("n0", &["n0", "n1"]);
        let room = node.room_of("n0");
        node.step().room_requested(from_n1(1), (room, 0), claim());
        for parked in [1, 0] {
            node.now += MAX_WAIT / 2;
            node.sweep();
            let barrier = &node.rooms.mesh.barrier;
            assert_eq!((barrier.parked.len(), barrier.parked_bytes > 0), (parked, parked > 0));
        }
    }
}
