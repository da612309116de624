//! Rooms that this node owns: their operations, their backups, and the expiry of seats.

use std::collections::BTreeSet;
use std::ops::Range;
use std::time::Instant;

use serde::{Deserialize, Serialize};
use signaling_protocol::{NodeId, RoomName};
use signaling_rendezvous::KeyHash;
use signaling_rooms::{Op, OpResult, Room, Rules};
use signaling_wire::codec;
use signaling_wire::forward::{Item, LogPosition};

use super::super::NodeCore;
use super::MeshRooms;
use super::copies::RoomCopy;
use super::requests::Requester;

/// Maximum rooms with due seats in one sweep, and maximum copies and requests for claims sent.
const ROOMS_PER_SWEEP: usize = 500;
/// Maximum reports of seats in rooms that this node has served all the time, checked in one sweep.
const REPORTS_PER_SWEEP: usize = 4_000;
/// Maximum rooms that get a backup in one sweep.
const BACKUPS_PER_SWEEP: usize = 250;

/// An entry in the log of a room.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum LogEntry {
    /// An operation.
    Op(Op),
    /// A node is lost: its seats expire unless their sessions claim them at other nodes.
    Unclaim(NodeId),
    /// Operations of the last owner are lost.
    Lost,
}

impl LogEntry {
    /// Applies the entry at a time in milliseconds since 1970. All copies get the same result.
    pub(super) fn apply(&self, room: &mut Room, rules: &Rules, clock: u64) -> OpResult {
        let before = room.stamp();
        match self {
            Self::Op(_) => {}
            Self::Unclaim(node) => room.unclaim(clock, Some(node)),
            Self::Lost => room.lost_operations(rules, clock),
        }
        let result = room.apply(rules, clock, self.op().unwrap_or(&Op::Refresh { seats: Vec::new() }));
        // A loss, or a restored seat, shows in no change: all nodes with seats request the state.
        let is_unseen = room.stamp() != before && result.changes.is_empty();
        match is_unseen {
            true => OpResult { nodes: room.nodes(), queue_moved: true, ..result },
            false => result,
        }
    }

    pub(super) fn op(&self) -> Option<&Op> {
        match self {
            Self::Op(op) => Some(op),
            Self::Unclaim(_) | Self::Lost => None,
        }
    }
}

/// A room that this node owns.
pub(super) struct OwnedRoom {
    pub(super) room: Room,
    /// The last operation.
    pub(super) at: LogPosition,
    /// Rank of this state among copies, until the backup has the present epoch. `None`: the epoch
    /// is confirmed, or there is no backup. An owner that was cut off has no later state then.
    unconfirmed: Option<LogPosition>,
    /// Epochs after that of the copy which this node took over, and before its own. The copy lacks
    /// their operations. Empty: there was no copy, or the loss is known.
    lacking: Range<u64>,
    /// The node that announces and answers. `None`: this node does.
    pub(super) backup: Option<NodeId>,
    /// `true` if the copy that begins the epoch is in the lane to the backup, or not needed.
    is_sent: bool,
    /// Nodes whose copies are of earlier epochs.
    pub(super) former: BTreeSet<NodeId>,
    deadline: Option<u64>,
}

impl OwnedRoom {
    pub(super) fn is_backed_up_by(&self, node: &NodeId) -> bool {
        self.backup.as_ref() == Some(node)
    }

    /// Returns `true` if a request shows that operations are lost: its node has seen an epoch that
    /// is lacking here, which counts once, or it claims a seat by a command that is.
    fn lacks(&mut self, seen: u64, op: &Op) -> bool {
        let is_lacking = self.lacking.contains(&seen);
        if is_lacking {
            self.lacking = 0..0;
        }
        is_lacking || self.room.has_lost_command(op)
    }
}

impl MeshRooms {
    /// Gives up the rooms that belong to other nodes by the present view, and follows no owners of
    /// earlier views.
    pub(super) fn give_up_rooms(&mut self) {
        let lost: Vec<_> = self.owned.keys().filter(|room| !self.owns(room)).cloned().collect();
        lost.iter().for_each(|room| self.give_up(room));
        self.unfollow_former_owners();
    }

    /// Turns an owned room into a copy for its next owner, which may be this node again.
    pub(super) fn give_up(&mut self, room: &RoomName) {
        if let Some(owned) = self.owned.remove(room) {
            self.forget_deadline(room, owned.deadline);
            self.unsent.remove(room);
            self.unassigned.remove(room);
            self.expiring.remove(room);
            let rank = owned.unconfirmed.unwrap_or(owned.at);
            if rank != LogPosition::default() {
                self.copies.keep(room.clone(), owned.room, rank);
            }
        }
    }

    /// Adds a node with sessions in a room to the nodes that have to claim their seats, unless this
    /// node knows of seats there. The room may lack those of sessions that have just moved.
    fn add_unclaimed(&mut self, room: RoomName, node: NodeId) {
        if self.owned.get(&room).is_some_and(|owned| !owned.room.has_seats_at(&node)) {
            self.unclaimed.insert((room, node));
        }
    }

    fn forget_deadline(&mut self, room: &RoomName, deadline: Option<u64>) {
        if let Some(deadline) = deadline {
            self.deadlines.remove(&(deadline, room.clone()));
        }
    }

    fn update_deadline(&mut self, name: &RoomName) {
        let Some(owned) = self.owned.get_mut(name) else { return };
        let next = owned.room.deadline(&self.rules);
        if let Some(before) = std::mem::replace(&mut owned.deadline, next).filter(|before| Some(*before) != next) {
            self.deadlines.remove(&(before, name.clone()));
        }
        if let Some(next) = next {
            self.deadlines.insert((next, name.clone()));
        }
    }

    /// Starts to own a room, without a backup yet. `rank` is the place of its state among copies;
    /// the default for a new room.
    fn own(&mut self, name: &RoomName, room: Room, (rank, epoch): (LogPosition, u64), former: BTreeSet<NodeId>) {
        let (at, unconfirmed) = (LogPosition { epoch, number: 0 }, Some(rank));
        let lacking = if rank.epoch > 0 { rank.epoch + 1..epoch } else { 0..0 };
        let owned = OwnedRoom { room, at, unconfirmed, lacking, backup: None, is_sent: true, former, deadline: None };
        let replaced = self.owned.insert(name.clone(), owned);
        debug_assert!(replaced.is_none(), "{name} has two states");
        self.update_deadline(name);
    }
}

impl NodeCore {
    /// Applies a request for a room that this node owns. Other requests are ignored: their node
    /// repeats them.
    pub(super) fn room_requested(&mut self, now: Instant, requester: Requester, (room, seen): (RoomName, u64), op: Op) {
        let Some(mesh) = &mut self.mesh_rooms else { return };
        // Seats at a node outside the view would count as lost.
        if !mesh.owns(&room) || !mesh.members.contains(&requester.node) {
            return;
        }
        let is_new = !mesh.owned.contains_key(&room);
        if is_new {
            if !mesh.barrier.is_complete() {
                return mesh.barrier.park(now, requester, ((room, seen), op));
            }
            let epoch = mesh.clock(now);
            mesh.own(&room, Room::default(), (LogPosition::default(), epoch), BTreeSet::new());
            let backup = self.backup_for(&room);
            if let Some(owned) = self.mesh_rooms.as_mut().and_then(|mesh| mesh.owned.get_mut(&room)) {
                owned.backup = backup;
                if owned.backup.is_none() {
                    owned.unconfirmed = None;
                }
            }
        }
        match &mut self.mesh_rooms {
            // The clock of an earlier owner was ahead. Nodes ignore results of lower epochs.
            Some(mesh) if mesh.epoch_of(&room) < seen && is_new => self.begin_epoch_after(now, &room, seen),
            Some(mesh) if mesh.epoch_of(&room) < seen => {
                // Another node has owned the room meanwhile, and this one did not see that view.
                mesh.give_up(&room);
                mesh.outdated.insert(room.clone(), seen);
                mesh.barrier.park(now, requester, ((room, seen), op));
                return self.restart_barrier(now);
            }
            _ => {}
        }
        if let Some(nodes) = self.mesh_rooms.as_mut().and_then(|mesh| mesh.expiring.remove(&room)) {
            // The request may claim a seat, which then stays.
            self.unclaim_seats_in(now, &room, nodes);
        }
        if self.mesh_rooms.as_mut().and_then(|mesh| mesh.owned.get_mut(&room)).is_some_and(|it| it.lacks(seen, &op)) {
            self.apply_entry(now, &room, &LogEntry::Lost, None);
        }
        self.apply_entry(now, &room, &LogEntry::Op(op), Some(&requester));
    }

    /// Applies an entry, and sends it to the backup or commits it.
    fn apply_entry(&mut self, now: Instant, name: &RoomName, entry: &LogEntry, requester: Option<&Requester>) {
        let Some(mesh) = &mut self.mesh_rooms else { return };
        if mesh.unassigned.contains(name) {
            self.assign_backup(now, name);
        }
        let Some(mesh) = &mut self.mesh_rooms else { return };
        let clock = mesh.clock(now);
        let Some(owned) = mesh.owned.get_mut(name) else { return };
        owned.at.number += 1;
        let result = entry.apply(&mut owned.room, &mesh.rules.of(name), clock);
        let (at, is_sent, backup) = (owned.at, owned.is_sent, owned.backup.clone());
        mesh.update_deadline(name);
        let Some(backup) = backup else { return self.commit(now, name, (clock, entry), requester, result) };
        if !is_sent {
            // The copy will contain it. The requester repeats the request.
            return;
        }
        let requester = requester.map(|requester| (requester.node.as_str(), requester.id));
        let item = Item::RoomLog { room: name.as_str(), at, now: clock, entry: &codec::to_bytes(entry), requester };
        if !self.peers.note_now(&backup, &item) {
            self.assign_backup(now, name);
        }
    }

    /// Returns the node that backs up a room: the first in the ranking after its owner that is not
    /// suspect, or else a draining member. `None`: there is none.
    fn backup_for(&self, room: &RoomName) -> Option<NodeId> {
        let mesh = self.mesh_rooms.as_ref()?;
        let is_eligible = |rank| {
            let id = mesh.ranking.id(rank);
            id != mesh.id.as_str() && self.peers.key(id).is_some_and(|peer| !self.peers.is_suspect(peer))
        };
        if let Some(rank) = mesh.ranking.owner_where(KeyHash::of(room.as_str()), is_eligible) {
            return NodeId::new(mesh.ranking.id(rank)).ok();
        }
        mesh.members.iter().find(|member| **member != mesh.id && self.is_healthy(member)).cloned()
    }

    fn is_healthy(&self, node: &NodeId) -> bool {
        self.peers.key(node.as_str()).is_some_and(|peer| !self.peers.is_suspect(peer))
    }

    /// Begins an epoch of a room with a backup, which gets a copy.
    pub(super) fn assign_backup(&mut self, now: Instant, name: &RoomName) {
        let backup = self.backup_for(name);
        let Some(mesh) = &mut self.mesh_rooms else { return };
        mesh.unassigned.remove(name);
        let clock = mesh.clock(now);
        let Some(owned) = mesh.owned.get_mut(name) else { return };
        owned.former.extend(owned.backup.take());
        owned.unconfirmed = backup.as_ref().map(|_| owned.unconfirmed.unwrap_or(owned.at));
        owned.at = LogPosition { epoch: clock.max(owned.at.epoch + 1), number: 0 };
        owned.is_sent = backup.is_none();
        owned.backup = backup;
        match owned.backup {
            Some(_) => self.send_owned_copy(name),
            None => self.retire_former(name),
        }
        self.announce_version(now, name);
    }

    fn begin_epoch_after(&mut self, now: Instant, name: &RoomName, epoch: u64) {
        if let Some(owned) = self.mesh_rooms.as_mut().and_then(|mesh| mesh.owned.get_mut(name)) {
            owned.at.epoch = owned.at.epoch.max(epoch);
            self.assign_backup(now, name);
        }
    }

    /// Announces the version of a room, so that nodes that miss changes request the state.
    fn announce_version(&mut self, now: Instant, name: &RoomName) {
        let Some(owned) = self.mesh_rooms.as_ref().and_then(|mesh| mesh.owned.get(name)) else { return };
        let (at, nodes) = (owned.room.stamp(), owned.room.nodes());
        let (incarnation, version) = (at.incarnation, at.version);
        let epoch = owned.at.epoch;
        let result = OpResult { incarnation, epoch, version, nodes, queue_moved: true, ..OpResult::default() };
        self.notify_peers(name, &result);
        if result.nodes.contains(&self.settings.id) && self.follow_epoch(now, name, epoch, at) {
            self.room_changed(now, name, at, Vec::new(), true);
        }
    }

    /// Sends the copy that begins an epoch, or notes it for later if the lane has no room.
    fn send_owned_copy(&mut self, name: &RoomName) {
        let Some(mesh) = &mut self.mesh_rooms else { return };
        let Some(owned) = mesh.owned.get(name) else { return };
        let Some(backup) = owned.backup.clone() else { return };
        let (state, at) = (codec::to_bytes(&owned.room), owned.at);
        let is_sent = self.send_copy(&backup, name, &state, at);
        let Some(mesh) = &mut self.mesh_rooms else { return };
        mesh.counts.copied += u64::from(is_sent);
        if let Some(owned) = mesh.owned.get_mut(name) {
            owned.is_sent = is_sent;
        }
        match is_sent {
            true => mesh.unsent.remove(name),
            false => mesh.unsent.insert(name.clone()),
        };
    }

    /// Sends copies for which the lanes had no room before.
    pub(super) fn send_unsent_copies(&mut self) {
        let Some(mesh) = &self.mesh_rooms else { return };
        let rooms: Vec<_> = mesh.unsent.iter().take(ROOMS_PER_SWEEP).cloned().collect();
        for room in rooms {
            self.send_owned_copy(&room);
        }
    }

    /// Handles the answer of a backup about the copy or log of an epoch.
    pub(in crate::node) fn room_copied(
        &mut self,
        now: Instant,
        sender: &NodeId,
        room: &str,
        epoch: u64,
        accepted: bool,
    ) {
        let Some(mesh) = &mut self.mesh_rooms else { return };
        let Ok(room) = RoomName::new(room) else { return };
        let is_current = |owned: &&OwnedRoom| owned.is_backed_up_by(sender) && owned.at.epoch == epoch;
        if mesh.owned.get(&room).filter(is_current).is_none() {
            return;
        }
        if accepted {
            if let Some(owned) = mesh.owned.get_mut(&room) {
                owned.unconfirmed = None;
            }
            return self.retire_former(&room);
        }
        // The backup has seen another owner, or lacks an operation: all members are asked.
        mesh.give_up(&room);
        self.restart_barrier(now);
    }

    /// Has nodes with copies of earlier epochs remove them.
    pub(super) fn retire_former(&mut self, name: &RoomName) {
        let Some(mesh) = &mut self.mesh_rooms else { return };
        let Some(owned) = mesh.owned.get_mut(name) else { return };
        let (epoch, backup) = (owned.at.epoch, owned.backup.clone());
        for node in std::mem::take(&mut owned.former) {
            if Some(&node) != backup.as_ref() {
                self.peers.note_now(&node, &Item::RoomRetired { room: name.as_str(), epoch });
            }
        }
    }

    /// Takes over the rooms that this node owns by the present view, from their latest copies.
    /// Rebuilds those in `reported`, rooms with seats at a node, that have no copy. Sweeps give the
    /// rooms backups and ask for claims.
    pub(super) fn take_over_rooms(&mut self, now: Instant, reported: BTreeSet<(RoomName, NodeId)>) {
        let Some(mesh) = &mut self.mesh_rooms else { return };
        let clock = mesh.clock(now);
        let mut lost = Vec::new();
        let mut rooms = mesh.copies.rooms(|room| super::owner_in(&mesh.ranking, room) == Some(mesh.id.as_str()));
        for name in &rooms {
            let Some(RoomCopy { mut room, at, givers, .. }) = mesh.copies.take(name) else { continue };
            room.unclaim(clock, None);
            mesh.unclaimed.extend(room.nodes().into_iter().map(|node| (name.clone(), node)));
            mesh.counts.taken_over += 1;
            let seen = mesh.outdated.get(name).copied().unwrap_or_default();
            mesh.own(name, room, (at, clock.max(at.epoch.max(seen) + 1)), givers);
            if at.epoch < seen {
                lost.push(name.clone());
            }
        }
        mesh.outdated.clear();
        for (name, node) in reported {
            if !mesh.owned.contains_key(&name) && mesh.owns(&name) {
                mesh.counts.rebuilt += 1;
                mesh.own(&name, Room::rebuilt(&mesh.rules, clock), (LogPosition::default(), clock), BTreeSet::new());
                rooms.push(name.clone());
            }
            mesh.add_unclaimed(name, node);
        }
        mesh.unassigned.extend(rooms);
        for room in lost {
            self.apply_entry(now, &room, &LogEntry::Lost, None);
        }
    }

    /// Asks nodes to claim the seats of their sessions in some rooms. A sweep does the rest.
    pub(super) fn ask_for_claims(&mut self) {
        let Some(mesh) = &mut self.mesh_rooms else { return };
        for _ in 0..REPORTS_PER_SWEEP {
            let Some((room, node)) = mesh.reported.pop_front() else { break };
            mesh.add_unclaimed(room, node);
        }
        let mut full_lanes = Vec::new();
        for _ in 0..ROOMS_PER_SWEEP {
            let next = self.mesh_rooms.as_mut().and_then(|mesh| mesh.unclaimed.pop_first());
            let Some((room, node)) = next else { break };
            if !self.ask_for_claim(&room, &node) {
                full_lanes.push((room, node));
            }
        }
        if let Some(mesh) = &mut self.mesh_rooms {
            mesh.unclaimed.extend(full_lanes);
        }
    }

    /// Asks a node to claim its seats in a room. Returns `false` if its lane has no room now.
    fn ask_for_claim(&mut self, room: &RoomName, node: &NodeId) -> bool {
        if *node == self.settings.id {
            self.claim_seats(room);
            return true;
        }
        let is_member = self.mesh_rooms.as_ref().is_some_and(|mesh| mesh.members.contains(node));
        !is_member || self.peers.note_now(node, &Item::ClaimSeats { room: room.as_str() })
    }

    /// Claims the seats of this node's sessions in a room.
    pub(in crate::node) fn claim_seats(&mut self, room: &RoomName) {
        self.rooms.schedule_refresh_of_all(room);
        self.refresh_unconfirmed(room);
    }

    /// Has sweeps give each room a backup that is in the view, eligible and not suspect, as far as
    /// possible.
    pub(in crate::node) fn check_backups(&mut self) {
        let Some(mesh) = &self.mesh_rooms else { return };
        let is_usable = |backup: &NodeId| mesh.ranking.index_of(backup.as_str()).is_some() && self.is_healthy(backup);
        let lacks = |(name, owned): &(&RoomName, &OwnedRoom)| match &owned.backup {
            Some(backup) => !is_usable(backup) && self.backup_for(name).as_ref() != Some(backup),
            None => self.backup_for(name).is_some(),
        };
        let rooms: Vec<_> = mesh.owned.iter().filter(lacks).map(|(name, _)| name.clone()).collect();
        if let Some(mesh) = &mut self.mesh_rooms {
            mesh.unassigned.extend(rooms);
        }
    }

    /// Has sweeps begin a new epoch of the rooms with this backup: it has lost its copies.
    pub(super) fn replace_backup(&mut self, backup: &NodeId) {
        let Some(mesh) = &mut self.mesh_rooms else { return };
        let backed_up = mesh.owned.iter().filter(|(_, owned)| owned.is_backed_up_by(backup));
        mesh.unassigned.extend(backed_up.map(|(name, _)| name.clone()));
    }

    /// Gives backups to some rooms.
    pub(super) fn assign_backups(&mut self, now: Instant) {
        for _ in 0..BACKUPS_PER_SWEEP {
            let next = self.mesh_rooms.as_mut().and_then(|mesh| mesh.unassigned.pop_first());
            let Some(room) = next else { break };
            self.assign_backup(now, &room);
        }
    }

    /// Asks a node that is back in the view to claim its seats: they count as lost.
    pub(super) fn reclaim_seats(&mut self, node: &NodeId) {
        let Some(mesh) = &mut self.mesh_rooms else { return };
        let has = |owned: &OwnedRoom| owned.room.has_seats_at(node);
        let rooms = mesh.owned.iter().filter(|(_, owned)| has(owned)).map(|(name, _)| (name.clone(), node.clone()));
        mesh.unclaimed.extend(rooms);
    }

    /// Has the seats at a lost node expire, unless they are claimed at other nodes. Sweeps do it.
    pub(super) fn unclaim_seats(&mut self, node: &NodeId) {
        let Some(mesh) = &mut self.mesh_rooms else { return };
        let has = |owned: &OwnedRoom| owned.room.has_seats_at(node);
        for (room, _) in mesh.owned.iter().filter(|(_, owned)| has(owned)) {
            mesh.expiring.entry(room.clone()).or_default().insert(node.clone());
        }
    }

    /// Has the seats at lost nodes expire in some rooms.
    pub(super) fn continue_unclaims(&mut self, now: Instant) {
        for _ in 0..ROOMS_PER_SWEEP {
            let next = self.mesh_rooms.as_mut().and_then(|mesh| mesh.expiring.pop_first());
            let Some((room, nodes)) = next else { break };
            self.unclaim_seats_in(now, &room, nodes);
        }
    }

    fn unclaim_seats_in(&mut self, now: Instant, room: &RoomName, lost: BTreeSet<NodeId>) {
        for node in lost {
            self.apply_entry(now, room, &LogEntry::Unclaim(node), None);
        }
    }

    /// Expires seats, admits clients after a settle time, and forgets finished rooms.
    pub(super) fn expire_seats(&mut self, now: Instant) {
        let Some(mesh) = &self.mesh_rooms else { return };
        let clock = mesh.clock(now);
        let due: Vec<_> =
            mesh.deadlines.iter().take_while(|(at, _)| *at <= clock).take(ROOMS_PER_SWEEP).cloned().collect();
        for (at, name) in due {
            let Some(mesh) = &mut self.mesh_rooms else { return };
            let Some(owned) = mesh.owned.get(&name).filter(|owned| owned.deadline == Some(at)) else {
                debug_assert!(false, "{name} is not due at {at}");
                mesh.deadlines.remove(&(at, name));
                continue;
            };
            if !owned.room.is_finished(&mesh.rules, clock) {
                self.apply_entry(now, &name, &LogEntry::Op(Op::Refresh { seats: Vec::new() }), None);
                continue;
            }
            let Some(owned) = mesh.owned.remove(&name) else { continue };
            mesh.forget_deadline(&name, owned.deadline);
            mesh.unsent.remove(&name);
            mesh.unassigned.remove(&name);
            mesh.expiring.remove(&name);
            let retired = Item::RoomRetired { room: name.as_str(), epoch: owned.at.epoch + 1 };
            for node in owned.former.iter().chain(&owned.backup) {
                self.peers.note_now(node, &retired);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use signaling_protocol::ClientId;
    use signaling_rooms::{Requester as By, Seat, SeatStatus};
    use signaling_wire::{Incarnation, SessionId};

    use super::super::super::Settings;
    use super::*;

    fn by(number: u64) -> By {
        let (client, node) = (ClientId::new("alice").unwrap(), NodeId::new("n0").unwrap());
        By { client, session: SessionId([1; 16]), accepted_at_us: 1, turn: 1, number, node }
    }

    fn claim(number: u64) -> Op {
        Op::Refresh { seats: vec![Seat { requester: by(number), status: SeatStatus::Unknown, data: None }] }
    }

    /// Returns a room with a seat by command 2, taken over in epoch 9 from a copy of this epoch.
    fn taken_over(copied: u64) -> OwnedRoom {
        let epoch = (Instant::now(), UNIX_EPOCH);
        let rules = Rules { claimed: true, ..Rules::default() };
        let settings = Settings::new(NodeId::new("n0").unwrap(), Incarnation([0; 8]), b"0123456789abcdef", epoch);
        let (name, mut room) = (RoomName::new("r").unwrap(), Room::default());
        room.apply(&rules, 1, &Op::Join { requester: by(2), data: None });
        let mut mesh = MeshRooms::new(&settings, rules);
        mesh.own(&name, room, (LogPosition { epoch: copied, number: 3 }, 9), BTreeSet::new());
        mesh.owned.remove(&name).unwrap()
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
            let lacks = [(); 2].map(|()| owned.lacks(seen, &Op::List { after: None }));
            assert_eq!(lacks, [is_lost, false], "{copied} {seen}");
        }
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
