//! Rooms that this node owns: takeover, operations, and the end of ownership.

use std::collections::BTreeSet;
use std::ops::Range;
use std::time::Instant;

use serde::{Deserialize, Serialize};
use signaling_protocol::{NodeId, RoomName};
use signaling_wire::codec;
use signaling_wire::forward::{Item, LogPosition};

use super::MeshRooms;
use super::copies::RoomCopy;
use super::journal::JournalPlace;
use super::requests::Requester;
use super::room_clock::RoomClock;
use super::space::ENTRY_BYTES;
use crate::counted::Counted;
use crate::{Context, OpResult, Operation, Room, Rules, Step};

/// An entry in the log of a room.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum LogEntry {
    /// An operation.
    Operation(Operation),
    /// A node is lost: its seats expire unless their sessions claim them at other nodes.
    Unclaim(NodeId),
    /// Operations of the last owner are lost.
    Lost,
    /// The journal has no clients of the room, or does not answer.
    NotInJournal,
}

impl LogEntry {
    /// Applies the entry at a room time in ms. All copies get the same result.
    pub(super) fn apply(&self, room: &mut Room, rules: &Rules, time: u64) -> OpResult {
        let before = room.stamp();
        match self {
            Self::Operation(_) => {}
            Self::Unclaim(node) => room.unclaim(time, Some(node)),
            Self::Lost => room.lost_operations(time),
            Self::NotInJournal => room.end_wait_for_journal(time),
        }
        let mut result = room.apply(rules, time, self.op().unwrap_or(&Operation::Claim { seats: Vec::new() }));
        // A loss, or a restored seat, shows in no change: all nodes with seats request the state.
        if room.stamp() != before && result.changes.is_empty() {
            let nodes: BTreeSet<_> = result.nodes.drain(..).chain(room.nodes()).collect();
            (result.nodes, result.queue_moved) = (nodes.into_iter().collect(), true);
        }
        result
    }

    pub(super) fn op(&self) -> Option<&Operation> {
        match self {
            Self::Operation(op) => Some(op),
            Self::Unclaim(_) | Self::Lost | Self::NotInJournal => None,
        }
    }
}

/// A room that this node owns.
pub(super) struct OwnedRoom {
    pub(super) room: Room,
    pub(super) clock: RoomClock,
    /// The last log entry.
    pub(super) at: LogPosition,
    /// The epoch whose state the present one continues. 0: none, the room was new.
    pub(super) base: u64,
    /// Rank of this state among copies, until the backup has the present epoch. `None`: the epoch
    /// is confirmed, or there is no backup. An owner that was cut off has no later state then.
    pub(super) unconfirmed: Option<LogPosition>,
    /// Epochs after that of the copy which this node took over, and before its own. The copy lacks
    /// their operations. Empty: there was no copy, or the loss is known.
    lacking: Range<u64>,
    /// The node that announces and answers. `None`: this node does.
    pub(super) backup: Option<NodeId>,
    /// `true` if the copy that begins the epoch is in the lane to the backup, or not needed.
    pub(super) is_sent: bool,
    /// Nodes whose copies are of earlier epochs.
    pub(super) former: BTreeSet<NodeId>,
    /// Time at which the room changes without a request. `None`: never.
    pub(super) deadline: Option<Instant>,
    /// Kind of a room without clients (`Space`), with the time since when.
    pub(super) vacant: Option<(usize, Instant)>,
    /// Its state in the journal.
    pub(super) journal: JournalPlace,
}

impl Counted for OwnedRoom {
    fn bytes(&self, _: &RoomName) -> usize {
        ENTRY_BYTES + self.room.bytes()
    }
}

impl OwnedRoom {
    pub(super) fn is_backed_up_by(&self, node: &NodeId) -> bool {
        self.backup.as_ref() == Some(node)
    }

    /// Returns `true` if a request shows that operations are lost: its node has seen an epoch that
    /// is lacking here, or restores a seat of one, which counts once. Or it claims a seat by a
    /// command that is lacking.
    fn lacks(&mut self, seen: u64, op: &Operation) -> bool {
        let confirmed = if let Operation::Restore { confirmed_in: (_, epoch), .. } = op { *epoch } else { 0 };
        let is_lacking = self.lacking.contains(&seen) || self.lacking.contains(&confirmed);
        if is_lacking {
            self.lacking = 0..0;
        }
        is_lacking || self.room.has_lost_command(op)
    }
}

impl MeshRooms {
    /// Turns an owned room into a copy for its next owner, which may be this node again.
    pub(super) fn give_up(&mut self, room: &RoomName) {
        if let Some(owned) = self.remove_owned(room) {
            let rank = owned.unconfirmed.unwrap_or(owned.at);
            if rank != LogPosition::default() {
                let OwnedRoom { room: state, clock, base, former: mut givers, backup, .. } = owned;
                givers.extend(backup);
                let copy = RoomCopy { room: state, clock, at: rank, base, from: None, givers };
                self.copies.insert(room.clone(), copy);
            }
        }
    }

    /// Removes an owned room, and its pending work.
    fn remove_owned(&mut self, room: &RoomName) -> Option<OwnedRoom> {
        let mut owned = self.owned.remove(room)?;
        self.forget_journal(room, &mut owned);
        self.forget_deadline(room, owned.deadline);
        self.forget_vacancy(room, owned.vacant);
        self.unsent.remove(room);
        self.unassigned.remove(room);
        self.alone.remove(room);
        self.outranked.remove(room);
        self.expiring.remove(room);
        Some(owned)
    }

    fn forget_deadline(&mut self, room: &RoomName, deadline: Option<Instant>) {
        if let Some(deadline) = deadline {
            self.deadlines.remove(&(deadline, room.clone()));
        }
    }

    pub(super) fn update_deadline(&mut self, now: Instant, name: &RoomName) {
        self.update_vacancy(now, name);
        let Some(owned) = self.owned.get_mut(name) else { return };
        let next = owned.room.deadline(&self.rules).and_then(|time| owned.clock.instant(time));
        let before = std::mem::replace(&mut owned.deadline, next).filter(|before| Some(*before) != next);
        self.forget_deadline(name, before);
        if let Some(next) = next {
            self.deadlines.insert((next, name.clone()));
        }
    }

    /// Starts to own a room, without a backup yet. `rank` is the place of its state among copies;
    /// the default for a new room.
    fn own(
        &mut self,
        now: Instant,
        name: &RoomName,
        (mut room, clock): (Room, RoomClock),
        (rank, epoch): (LogPosition, u64),
        former: BTreeSet<NodeId>,
    ) {
        room.begin_epoch(epoch);
        let (at, unconfirmed) = (LogPosition { epoch, number: 0 }, Some(rank));
        let lacking = if rank.epoch > 0 { rank.epoch + 1..epoch } else { 0..0 };
        let (backup, deadline, vacant, is_sent) = (None, None, None, true);
        let (base, journal) = (rank.epoch, JournalPlace::default());
        let owned = OwnedRoom {
            room,
            clock,
            at,
            base,
            unconfirmed,
            lacking,
            backup,
            is_sent,
            former,
            deadline,
            vacant,
            journal,
        };
        let replaced = self.owned.insert(name.clone(), owned);
        self.begin_journal(name);
        debug_assert!(replaced.is_none(), "{name} has two states");
        self.update_deadline(now, name);
    }
}

impl<M: Clone, C: Context> Step<'_, M, C> {
    /// Goes once through all owned rooms, for a new view. Gives up the rooms of other nodes. In the
    /// rest, queues backups, and requests for claims to nodes that are back in the view: their
    /// seats expire since they left it.
    pub(super) fn review_rooms(&mut self, back: &[NodeId]) {
        let best = self.best_fitness();
        let (mut given_up, mut unassigned, mut claim_requests) = (Vec::new(), Vec::new(), Vec::new());
        for (name, owned) in self.mesh.owned.iter() {
            if !self.mesh.owns(name) {
                given_up.push(name.clone());
                continue;
            }
            if self.lacks_backup(owned, best) {
                unassigned.push(name.clone());
            }
            let has_seats = |node: &&NodeId| owned.room.has_seats_at(node);
            claim_requests.extend(back.iter().filter(has_seats).map(|node| (name.clone(), node.clone())));
        }
        given_up.iter().for_each(|room| self.mesh.give_up(room));
        self.mesh.unfollow_former_owners();
        self.mesh.unassigned.extend(unassigned);
        claim_requests.into_iter().for_each(|(room, node)| self.mesh.claim_requests.add(room, node));
    }

    /// Applies a request for a room that this node owns, or parks it until this node serves rooms.
    /// Ignores requests for other rooms, and of nodes outside the view: their nodes repeat them.
    /// `seen` is the highest epoch of the room that the requesting node has seen.
    pub(super) fn room_requested(&mut self, requester: Requester, (room, seen): (RoomName, u64), op: Operation) {
        // Seats at a node outside the view would count as lost.
        if !self.mesh.owns(&room) || !self.mesh.members.contains(&requester.node) {
            return;
        }
        let is_new = !self.mesh.owned.contains_key(&room);
        if !self.serves() || (is_new && !self.serves_new_rooms()) {
            return self.mesh.barrier.park(self.now, requester, ((room, seen), op));
        }
        if self.refuse_for_space(&requester, (&room, seen), &op) {
            return;
        }
        if is_new {
            let (clock, epoch) = (self.mesh.new_clock(self.now), self.next_number());
            let reads = self.mesh.reads_new_room(self.now, &room);
            let state = if reads { Room::awaiting_journal(clock.time(self.now), epoch) } else { Room::new(epoch) };
            self.mesh.own(self.now, &room, (state, clock), (LogPosition::default(), epoch), BTreeSet::new());
            let backup = self.backup_for(&room);
            if reads {
                // The backup needs a copy of the wait.
                self.read_journal(&room);
                self.assign_backup(&room);
            } else if let Some(owned) = self.mesh.owned.get_mut(&room) {
                owned.backup = backup;
                if owned.backup.is_none() {
                    owned.unconfirmed = None;
                    self.mesh.alone.insert(room.clone());
                }
            }
        }
        if self.mesh.epoch_of(&room).0 < seen {
            // Another node has owned the room meanwhile, and this one did not see that view.
            self.mesh.give_up(&room);
            self.mesh.outdated.insert(room.clone(), seen);
            self.mesh.barrier.park(self.now, requester, ((room, seen), op));
            return self.restart_barrier();
        }
        if let Some(nodes) = self.mesh.expiring.remove(&room) {
            // The request may claim a seat, which then stays.
            self.unclaim_seats(&room, nodes);
        }
        if self.mesh.owned.get_mut(&room).is_some_and(|it| it.lacks(seen, &op)) {
            self.apply_entry(&room, &LogEntry::Lost, None);
        }
        self.apply_entry(&room, &LogEntry::Operation(op), Some(&requester));
        self.make_space();
    }

    /// Ends an owned room, and requests its copies to be removed.
    pub(super) fn end_room(&mut self, name: &RoomName) {
        let Some(owned) = self.mesh.remove_owned(name) else { return };
        self.mesh.end_journal(name, &owned);
        let retired = Item::RoomRetired { room: name.as_str(), epoch: owned.at.epoch + 1 };
        for node in owned.former.iter().chain(&owned.backup) {
            self.send_item(node, &retired, true);
        }
    }

    /// Applies an entry, and sends it to the backup or, without one, commits it. If the copy before
    /// it is not sent yet, that copy will contain it, and the requester repeats its request.
    pub(super) fn apply_entry(&mut self, name: &RoomName, entry: &LogEntry, requester: Option<&Requester>) {
        let lacks_backup = self.mesh.owned.get(name).is_some_and(|owned| owned.backup.is_none()) && !self.is_alone();
        if lacks_backup || self.mesh.unassigned.contains(name) {
            self.assign_backup(name);
        }
        let (now, rules) = (self.now, self.mesh.rules.of(name));
        let applied = self.mesh.owned.change(name, |owned| {
            owned.at.number += 1;
            let time = owned.clock.time(now);
            let result = entry.apply(&mut owned.room, &rules, time);
            ((time, result), owned.at, owned.is_sent, owned.backup.clone())
        });
        let Some(((time, result), at, is_sent, backup)) = applied else { return };
        self.mesh.update_deadline(now, name);
        self.mesh.note_change(name, matches!(entry, LogEntry::Operation(Operation::SetCapacity { .. })));
        let Some(backup) = backup else { return self.commit(name, (time, entry), requester, result) };
        if !is_sent {
            // The copy will contain it. The requester repeats the request.
            return;
        }
        let requester = requester.map(|requester| (requester.node.as_str(), requester.id));
        let item = Item::RoomLog { room: name.as_str(), at, time, entry: &codec::to_bytes(entry), requester };
        if !self.send_item(&backup, &item, true) {
            self.assign_backup(name);
        }
    }

    /// Takes over the rooms that this node owns by the present view, from their latest copies.
    /// Rebuilds those in `reported`, rooms with seats at a node, that have no copy. Sweeps give the
    /// rooms backups and ask for claims.
    pub(super) fn take_over_rooms(&mut self, reported: BTreeSet<(RoomName, NodeId)>) {
        let now = self.now;
        let mut lost = Vec::new();
        let mut rooms: Vec<_> = self.mesh.copies.keys().filter(|room| self.mesh.owns(room)).cloned().collect();
        for name in &rooms {
            let Some(RoomCopy { mut room, clock, at, givers, .. }) = self.mesh.copies.remove(name) else { continue };
            let clock = self.mesh.own_clock(clock);
            room.unclaim(clock.time(now), None);
            room.nodes().into_iter().for_each(|node| self.mesh.claim_requests.add(name.clone(), node));
            self.mesh.counts.taken_over += 1;
            let seen = self.mesh.outdated.get(name).copied().unwrap_or_default();
            let epoch = self.next_number();
            let is_unread = room.awaits_journal();
            self.mesh.own(now, name, (room, clock), (at, epoch), givers);
            if is_unread {
                // The answer goes to the former owner.
                self.read_journal(name);
            }
            if at.epoch < seen {
                lost.push(name.clone());
            }
        }
        self.mesh.outdated.clear();
        for (name, node) in reported {
            if !self.mesh.owned.contains_key(&name) && self.mesh.owns(&name) {
                self.mesh.counts.rebuilt += 1;
                let epoch = self.next_number();
                let (clock, rank) = (self.mesh.new_clock(now), LogPosition::default());
                let room = Room::rebuilt(clock.time(now), epoch);
                self.mesh.own(now, &name, (room, clock), (rank, epoch), BTreeSet::new());
                self.read_journal(&name);
                rooms.push(name.clone());
            }
            self.mesh.queue_claim_request(name, node);
        }
        self.mesh.unassigned.extend(rooms);
        for room in lost {
            self.apply_entry(&room, &LogEntry::Lost, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use signaling_wire::RoomRequestId;

    use super::*;
    use crate::counted::ByteTotal;
    use crate::fixtures::{Node, process, requester};
    use crate::{Request, RoomSettings, Seat, SeatStatus};

    fn join(node: &str, number: u64) -> Operation {
        Operation::Join { requester: requester("alice", node, number), data: None, capacity: None }
    }

    fn claim(number: u64) -> Operation {
        let requester = requester("alice", "n0", number);
        Operation::Claim { seats: vec![Seat { requester, status: SeatStatus::Unknown, data: None }] }
    }

    /// Returns a node of the mesh of `n0` and `n1`.
    fn node(id: &str) -> Node {
        Node::new(id, &["n0", "n1"])
    }

    /// Returns a room with a seat by command 2, taken over in epoch 9 from a copy of this epoch.
    fn taken_over(copied: u64) -> OwnedRoom {
        let rules = Rules::default();
        let (name, mut room) = (RoomName::new("r").unwrap(), Room::new(1));
        room.apply(&rules, 1, &join("n0", 2));
        let mut mesh = MeshRooms::new(&process("n0"), &RoomSettings::default(), ByteTotal::default());
        let now = Instant::now();
        mesh.own(
            now,
            &name,
            (room, RoomClock::at(now, 1)),
            (LogPosition { epoch: copied, number: 3 }, 9),
            BTreeSet::new(),
        );
        mesh.owned.remove(&name).unwrap()
    }

    /// Returns the node `n0` with a room in epoch 9.
    fn owner() -> (Node, RoomName) {
        let mut owner = node("n0");
        let name = owner.room_of("n0");
        let state = (Room::new(9), RoomClock::at(owner.now, 1));
        owner.rooms.mesh.own(owner.now, &name, state, (LogPosition::default(), 9), BTreeSet::new());
        (owner, name)
    }

    #[test]
    fn seats_of_a_node_that_left_are_unclaimed_though_it_returned() {
        for returns in [false, true] {
            let (mut node, name) = owner();
            let MeshRooms { owned, rules, .. } = &mut node.rooms.mesh;
            owned.change(&name, |owned| owned.room.apply(rules, 1, &join("n1", 1))).unwrap();
            node.set_view(&["n0"]);
            if returns {
                node.set_view(&["n0", "n1"]);
                assert!(node.rooms.mesh.expiring.contains_key(&name), "it may claim its seats now");
            }
            let expire = |node: &Node| {
                let MeshRooms { owned, rules, .. } = &node.rooms.mesh;
                owned[&name].room.deadline(rules).is_some()
            };
            assert!(!expire(&node));
            node.sweep();
            assert!(expire(&node), "{returns}");
        }
    }

    #[test]
    fn repeated_request_carries_the_latest_epoch_of_its_room() {
        let mut node = node("n0");
        let name = node.room_of("n1");
        node.rooms.request_for_operator(1, Request { room: name.clone(), op: Operation::List { after: None } });
        node.step().send_room_tasks();
        node.rooms.mesh.record_epoch(&name, 10);
        node.step().resend_requests(|owner| owner == "n1");
        let items = node.fill_lanes();
        let epochs = items.iter().filter_map(|item| match Item::take(&mut &item[..]) {
            Ok(Item::RoomRequest { epoch, .. }) => Some(epoch),
            _ => None,
        });
        assert_eq!(epochs.collect::<Vec<_>>(), [0, 10]);
    }

    #[test]
    fn request_of_a_later_epoch_makes_the_owner_ask_all_members() {
        for (seen, is_owner) in [(8, true), (9, true), (10, false)] {
            let (mut node, name) = owner();
            node.rooms.mesh.barrier.waiting.clear();
            let requester = Requester { node: NodeId::new("n1").unwrap(), id: RoomRequestId(1) };
            let list = Operation::List { after: None };
            node.step().room_requested(requester, (name.clone(), seen), list);
            let mesh = &node.rooms.mesh;
            assert_eq!(
                (mesh.owned.contains_key(&name), mesh.barrier.is_complete(node.now)),
                (is_owner, is_owner),
                "{seen}"
            );
        }
    }

    #[test]
    fn backup_without_the_copy_refuses_the_log_behind_it() {
        let (mut owner, name) = owner();
        owner.step().assign_backup(&name);
        owner.step().apply_entry(&name, &LogEntry::Lost, None);
        let at = owner.rooms.mesh.owned[&name].at;
        for (at, is_accepted) in [(at, false), (LogPosition { number: 1, ..at }, true)] {
            let (mut backup, entry) = (node("n1"), codec::to_bytes(&LogEntry::Lost));
            let item = Item::RoomLog { room: name.as_str(), at, time: 1, entry: &entry, requester: None };
            backup.rooms.mesh.barrier.unproven.clear();
            backup.step().room_logged(&NodeId::new("n0").unwrap(), &item);
            assert_eq!(backup.rooms.mesh.copies.contains_key(&name), is_accepted, "{at:?}");
        }
    }

    #[test]
    fn request_shows_a_loss_once_by_an_epoch_after_the_copy() {
        // The epoch of the copy (0: there was none) and the highest one that a member has seen.
        for (copied, seen, is_lost) in [
            (5, 0, false),
            (5, 5, false),
            (5, 6, true),
            (5, 8, true),
            (5, 9, false),
            (5, 10, false),
            (8, 8, false),
            (0, 6, false),
        ] {
            let mut owned = taken_over(copied);
            let lacks = [(); 2].map(|()| owned.lacks(seen, &Operation::List { after: None }));
            assert_eq!(lacks, [is_lost, false], "{copied} {seen}");
        }
    }

    #[test]
    fn loss_informs_the_nodes_of_seats_that_it_ends() {
        let rules = Rules { capacity: Some(1), ended_at_once: 1, ..Rules::default() };
        let mut room = Room::new(1);
        for (client, node) in [("alice", "n0"), ("bob", "n1")] {
            let requester = requester(client, node, 1);
            room.apply(&rules, 1, &Operation::Join { requester, data: None, capacity: None });
        }
        room.apply(&rules, 1, &Operation::Close { time: None });
        assert_eq!(room.counts(), (0, 1), "the seat in the queue is left");
        let result = LogEntry::Lost.apply(&mut room, &rules, 2);
        assert_eq!((room.counts(), result.nodes), ((0, 0), vec![NodeId::new("n1").unwrap()]));
    }

    #[test]
    fn claim_shows_a_loss_by_its_command_in_any_epoch() {
        for (number, is_lost) in [(1, false), (2, false), (3, true)] {
            let mut owned = taken_over(5);
            let lacks = [5, 9].map(|seen| owned.lacks(seen, &claim(number)));
            assert_eq!(lacks, [is_lost; 2], "{number}");
        }
    }
}
