//! Backups of the rooms that this node owns, and the epochs that begin with them.
//!
//! An epoch of a room has one owner and at most one backup. It begins with a copy of the room for
//! the backup, or with the first entry of a new room. Each has a higher number than the one before.

use signaling_protocol::{NodeId, RoomName};
use signaling_rendezvous::KeyHash;
use signaling_wire::codec;
use signaling_wire::forward::{Item, LogPosition};

use super::owner::OwnedRoom;
use crate::{Context, OpResult, Stamp, Step};

/// Maximum rooms that get a backup in one sweep.
const BACKUPS_PER_SWEEP: usize = 250;
/// Maximum copies that one sweep sends after their lanes had no room.
const COPIES_PER_SWEEP: usize = 500;

impl<M: Clone, C: Context> Step<'_, M, C> {
    /// Queues the owned rooms whose backup is to change. Sweeps assign their backups.
    pub fn check_backups(&mut self) {
        let lacks = |(name, owned): &(&RoomName, &OwnedRoom)| self.lacks_backup(name, owned);
        let rooms: Vec<_> = self.mesh.owned.iter().filter(lacks).map(|(name, _)| name.clone()).collect();
        self.mesh.unassigned.extend(rooms);
    }

    /// Returns `true` if the backup of an owned room is to change. Either the room has none and
    /// [`Self::backup_for`] finds one, or its backup is suspect or not in the ranking. In that case
    /// [`Self::backup_for`] returns another node, or `None`: the room loses its backup.
    pub(super) fn lacks_backup(&self, name: &RoomName, owned: &OwnedRoom) -> bool {
        match &owned.backup {
            Some(backup) => {
                let is_fit = self.mesh.ranking.index_of(backup.as_str()).is_some() && self.is_healthy(backup.as_str());
                !is_fit && self.backup_for(name).as_ref() != Some(backup)
            }
            None => self.backup_for(name).is_some(),
        }
    }

    /// Gives backups to at most 250 of the rooms that are to get one.
    pub(super) fn assign_backups(&mut self) {
        for _ in 0..BACKUPS_PER_SWEEP {
            let Some(room) = self.mesh.unassigned.pop_first() else { break };
            self.assign_backup(&room);
        }
    }

    /// Begins the next epoch of a room with the backup of [`Self::backup_for`], which gets a copy.
    /// If there is none, the epoch has no backup. No effect unless this node owns the room.
    pub(super) fn assign_backup(&mut self, name: &RoomName) {
        let backup = self.backup_for(name);
        self.mesh.unassigned.remove(name);
        let epoch = self.next_number();
        let Some(owned) = self.mesh.owned.get_mut(name) else { return };
        owned.former.extend(owned.backup.take());
        owned.unconfirmed = backup.as_ref().map(|_| owned.unconfirmed.unwrap_or(owned.at));
        // The copy has number 1, which the log of a new room begins with: a backup that lost the
        // copy must not take the room for new.
        let number = u64::from(backup.is_some());
        owned.at = LogPosition { epoch, number };
        owned.room.begin_epoch(epoch);
        owned.is_sent = backup.is_none();
        owned.backup = backup;
        match owned.backup {
            Some(_) => self.send_owned_copy(name),
            None => self.retire_former(name),
        }
        self.announce_version(name);
    }

    /// Returns the best backup of a room that this node owns: the first other node of the ranking
    /// that is not suspect. If there is none, a draining member of the view that is not suspect.
    /// `None`: there is neither.
    pub(super) fn backup_for(&self, room: &RoomName) -> Option<NodeId> {
        let is_eligible = |rank| {
            let id = self.mesh.ranking.id(rank);
            id != self.mesh.id.as_str() && self.is_healthy(id)
        };
        if let Some(rank) = self.mesh.ranking.owner_where(KeyHash::of(room.as_str()), is_eligible) {
            return NodeId::new(self.mesh.ranking.id(rank)).ok();
        }
        self.mesh.members.iter().find(|member| **member != self.mesh.id && self.is_healthy(member.as_str())).cloned()
    }

    fn is_healthy(&self, node: &str) -> bool {
        self.cx.peer(node).is_some_and(|peer| !peer.is_suspect)
    }

    /// Announces the version of a room, so that nodes that miss changes request the state.
    fn announce_version(&mut self, name: &RoomName) {
        let Some(owned) = self.mesh.owned.get(name) else { return };
        let Stamp { incarnation, version } = owned.room.stamp();
        let (epoch, nodes) = (owned.at.epoch, owned.room.nodes());
        let mut result = OpResult { incarnation, epoch, version, nodes, queue_moved: true, ..OpResult::default() };
        self.announce(name, &mut result);
    }

    /// Sends the copy that begins an epoch, or notes it for later if the lane has no room.
    fn send_owned_copy(&mut self, name: &RoomName) {
        let Some(owned) = self.mesh.owned.get(name) else { return };
        let Some(backup) = owned.backup.clone() else { return };
        let (state, at) = (codec::to_bytes(&owned.room), owned.at);
        let is_sent = self.send_copy(&backup, name, &state, at);
        self.mesh.counts.copied += u64::from(is_sent);
        if let Some(owned) = self.mesh.owned.get_mut(name) {
            owned.is_sent = is_sent;
        }
        match is_sent {
            true => self.mesh.unsent.remove(name),
            false => self.mesh.unsent.insert(name.clone()),
        };
    }

    /// Sends at most 500 copies for which the lanes had no room before.
    pub(super) fn send_unsent_copies(&mut self) {
        let rooms: Vec<_> = self.mesh.unsent.iter().take(COPIES_PER_SWEEP).cloned().collect();
        for room in rooms {
            self.send_owned_copy(&room);
        }
    }

    /// Handles the answer of a backup about the copy or log of an epoch. Ignores one of another
    /// epoch or node, or about a room that this node does not own. After a refusal this node gives
    /// the room up, and asks all members again for their copies (`barrier`).
    pub(crate) fn room_copied(&mut self, sender: &NodeId, room: &str, epoch: u64, accepted: bool) {
        let Ok(room) = RoomName::new(room) else { return };
        let is_current = |owned: &&OwnedRoom| owned.is_backed_up_by(sender) && owned.at.epoch == epoch;
        if self.mesh.owned.get(&room).filter(is_current).is_none() {
            return;
        }
        if accepted {
            if let Some(owned) = self.mesh.owned.get_mut(&room) {
                owned.unconfirmed = None;
            }
            return self.retire_former(&room);
        }
        // The backup has seen another owner, or lacks an operation: all members are asked.
        self.mesh.give_up(&room);
        self.restart_barrier();
    }

    /// Requests the nodes with former copies to remove them, except the present backup. A copy may
    /// be of the present epoch: its backup sent it to a node that owned the room for a while.
    pub(super) fn retire_former(&mut self, name: &RoomName) {
        let Some(owned) = self.mesh.owned.get_mut(name) else { return };
        let (epoch, backup) = (owned.at.epoch + 1, owned.backup.clone());
        for node in std::mem::take(&mut owned.former) {
            if Some(&node) != backup.as_ref() {
                self.send_item(&node, &Item::RoomRetired { room: name.as_str(), epoch }, true);
            }
        }
    }
}
