//! Copies of rooms that other nodes own: as their backup, or until their next owner has them.

use std::collections::BTreeSet;
use std::time::Instant;

use signaling_protocol::{NodeId, RoomName};
use signaling_wire::codec;
use signaling_wire::forward::{CopyAnswer, Item, LogPosition};

use super::MeshRooms;
use super::owner::LogEntry;
use super::requests::Requester;
use super::room_clock::RoomClock;
use super::space::ENTRY_BYTES;
use crate::counted::Counted;
use crate::{Context, Room, Step};

/// Maximum bytes of a copy, twice those of the largest room. A larger one is dropped.
const MAX_COPY_BYTES: usize = 16 * 1024 * 1024;
/// Maximum bytes of partial copies from all nodes. A part above it is dropped.
const MAX_PARTIAL_BYTES: usize = 64 * 1024 * 1024;
/// Bytes of one part.
const PART_BYTES: usize = 128 * 1024;

/// A copy of a room.
pub(super) struct RoomCopy {
    pub(super) room: Room,
    /// Goes on also while the copy waits for an owner.
    pub(super) clock: RoomClock,
    /// The last operation in it, or an earlier one, see `OwnedRoom::unconfirmed`.
    pub(super) at: LogPosition,
    /// While it follows a log, the epoch whose state that of `at` continues. 0: none.
    pub(super) base: u64,
    /// The owner whose log it follows. `None`: it waits for the next owner.
    pub(super) from: Option<NodeId>,
    /// Nodes that sent copies for this node to take the room over.
    pub(super) givers: BTreeSet<NodeId>,
}

impl Counted for RoomCopy {
    fn bytes(&self, _: &RoomName) -> usize {
        ENTRY_BYTES + self.room.bytes()
    }
}

impl MeshRooms {
    /// Returns the number of copies that wait for the next owners of their rooms.
    pub(super) fn waiting_copies(&self) -> usize {
        self.copies.values().filter(|copy| copy.from.is_none()).count()
    }

    /// Inserts a copy in place of the known one. If it continues that one, its time does not go
    /// back: the item may have waited in a lane.
    fn insert_copy(&mut self, now: Instant, room: RoomName, mut copy: RoomCopy) {
        let is_continued = |known: &&RoomCopy| [copy.at.epoch, copy.base].contains(&known.at.epoch);
        if let Some(known) = self.copies.get(&room).filter(is_continued) {
            copy.clock.raise(now, known.clock.time(now));
        }
        self.copies.insert(room, copy);
    }

    /// Ends the logs of nodes that are not the owners of their rooms any more.
    pub(super) fn unfollow_former_owners(&mut self) {
        for (room, copy) in self.copies.iter_mut() {
            copy.from.take_if(|from| super::owner_in(&self.ranking, room) != Some(from.as_str()));
        }
    }
}

impl<M: Clone, C: Context> Step<'_, M, C> {
    /// Sends a copy of a room, with its present room time in ms. Returns `false` if the peer is
    /// unknown or its lane has no room now.
    pub(super) fn send_copy(
        &mut self,
        to: &NodeId,
        room: &RoomName,
        (state, time): (&[u8], u64),
        (at, base): (LogPosition, u64),
    ) -> bool {
        let parts = state.len().div_ceil(PART_BYTES);
        let part = |(index, part)| {
            let (offset, last) = ((index * PART_BYTES) as u64, index + 1 == parts);
            Item::RoomCopy { room: room.as_str(), at, base, time, offset, part, last }
        };
        let items: Vec<_> = state.chunks(PART_BYTES).enumerate().map(part).collect();
        self.send_items(to, state.len(), &items)
    }

    /// Handles a part of a copy. Drops it, and the parts before it, if one is missing, or above the
    /// limits of a copy and of all partial copies. A part of another copy of the sender drops the
    /// rest, as lanes keep their order. A backup then refuses the log behind the copy.
    pub(crate) fn room_copy_part(&mut self, sender: &NodeId, item: &Item<'_>) {
        let &Item::RoomCopy { room, at, base, time, offset, part, last } = item else { return };
        let Ok(room) = RoomName::new(room) else { return };
        let key = (sender.clone(), room);
        let mut bytes = self.mesh.partial.remove(&key).filter(|_| offset > 0).unwrap_or_default();
        self.mesh.partial.retain(|(of, _), _| of != sender);
        let (size, others) = (bytes.len() + part.len(), self.mesh.partial.values().map(Vec::len).sum::<usize>());
        if bytes.len() as u64 != offset || size > MAX_COPY_BYTES || size + others > MAX_PARTIAL_BYTES {
            self.local.dropped += 1;
            return;
        }
        bytes.extend_from_slice(part);
        if !last {
            self.mesh.partial.insert(key, bytes);
        } else if let Ok(state) = codec::from_bytes::<Room>(&bytes)
            && self.receive_number(state.highest_number())
        {
            let clock = RoomClock::at(self.now, time);
            self.room_copy(sender, key.1, (state, clock), (at, base));
        } else {
            self.local.dropped += 1;
        }
    }

    fn room_copy(
        &mut self,
        sender: &NodeId,
        room: RoomName,
        (state, clock): (Room, RoomClock),
        (at, base): (LogPosition, u64),
    ) {
        let now = self.now;
        if self.mesh.owner_of(&room) == Some(sender.as_str()) {
            // This node is its backup from now on, unless it has a later copy that the owner lacks,
            // it lacks the majority, or the copy may be from before the owner left the view.
            let is_latest = |known: &RoomCopy| known.at.epoch < at.epoch;
            let may_follow = self.has_majority() && self.mesh.barrier.is_proven(sender);
            let answer = match self.mesh.copies.get(&room).is_none_or(is_latest) {
                _ if !may_follow => CopyAnswer::NotNow,
                true => CopyAnswer::Accepted,
                false => CopyAnswer::Refused,
            };
            if answer == CopyAnswer::Accepted {
                let (from, givers) = (Some(sender.clone()), BTreeSet::new());
                self.mesh.insert_copy(now, room.clone(), RoomCopy { room: state, clock, at, base, from, givers });
            }
            self.send_item(sender, &Item::RoomCopied { room: room.as_str(), epoch: at.epoch, answer }, true);
        } else if self.mesh.owns(&room) {
            let givers = BTreeSet::from([sender.clone()]);
            let mut copy = RoomCopy { room: state, clock, at, base, from: None, givers };
            match self.mesh.owned.get_mut(&room) {
                // The backup has seen a view with another owner, and follows this log no more.
                Some(owned) if owned.at.epoch == at.epoch && owned.is_backed_up_by(sender) => {
                    self.mesh.unassigned.insert(room);
                }
                Some(owned) if owned.at.epoch >= at.epoch => {
                    owned.former.insert(sender.clone());
                    self.retire_former(&room);
                }
                Some(_) => {
                    // Another node has owned the room since. Its clients restore their seats.
                    self.mesh.give_up(&room);
                    let given_up = self.mesh.copies.get(&room);
                    copy.givers.extend(given_up.into_iter().flat_map(|known| known.givers.iter().cloned()));
                    self.mesh.insert_copy(now, room, copy);
                    self.restart_barrier();
                }
                None => {
                    if let Some(known) = self.mesh.copies.get_mut(&room).filter(|known| known.at >= at) {
                        known.givers.insert(sender.clone());
                    } else {
                        let known = self.mesh.copies.get(&room);
                        copy.givers.extend(known.into_iter().flat_map(|known| known.givers.iter().cloned()));
                        self.mesh.insert_copy(now, room, copy);
                    }
                    self.take_over_copy();
                }
            }
        } else {
            let answer = CopyAnswer::Refused;
            self.send_item(sender, &Item::RoomCopied { room: room.as_str(), epoch: at.epoch, answer }, true);
        }
    }

    /// Applies an operation of a room that this node backs up, and announces it. Refuses it if it
    /// is not the next one, its sender is not the owner that this node follows, or this node has no
    /// majority.
    pub(crate) fn room_logged(&mut self, sender: &NodeId, item: &Item<'_>) {
        let &Item::RoomLog { room, at, time, entry, requester } = item else { return };
        let (Ok(room), Ok(entry)) = (RoomName::new(room), codec::from_bytes::<LogEntry>(entry)) else {
            self.local.dropped += 1;
            return;
        };
        let begins = at.number == 1 && !self.mesh.copies.contains_key(&room);
        let may_follow = self.has_majority() && (!begins || self.mesh.barrier.is_proven(sender));
        let is_new = may_follow && begins;
        if is_new && self.mesh.owner_of(&room) == Some(sender.as_str()) {
            let start = LogPosition { number: 0, ..at };
            let copy = RoomCopy {
                room: Room::new(at.epoch),
                clock: RoomClock::at(self.now, time),
                at: start,
                base: 0,
                from: Some(sender.clone()),
                givers: BTreeSet::new(),
            };
            self.mesh.copies.insert(room.clone(), copy);
        }
        let is_next = |copy: &RoomCopy| {
            copy.from.as_ref() == Some(sender)
                && copy.at.epoch == at.epoch
                && copy.at.number.checked_add(1) == Some(at.number)
        };
        let answer = match self.mesh.copies.get(&room).is_some_and(is_next) {
            _ if !may_follow => CopyAnswer::NotNow,
            true => CopyAnswer::Accepted,
            false => CopyAnswer::Refused,
        };
        let accepted = answer == CopyAnswer::Accepted;
        if is_new || !accepted {
            self.send_item(sender, &Item::RoomCopied { room: room.as_str(), epoch: at.epoch, answer }, true);
        }
        if !accepted {
            // The owner takes another backup, or gives the room up and asks for this copy.
            if let Some(copy) = self.mesh.copies.get_mut(&room) {
                copy.from.take_if(|from| from == sender);
            }
            return;
        }
        let (now, rules) = (self.now, self.mesh.rules.of(&room));
        let applied = self.mesh.copies.change(&room, |copy| {
            copy.at = at;
            copy.clock.raise(now, time);
            entry.apply(&mut copy.room, &rules, time)
        });
        let Some(result) = applied else { return };
        let requester = requester.and_then(|(node, id)| Some(Requester { node: NodeId::new(node).ok()?, id }));
        self.commit(&room, (time, &entry), requester.as_ref(), result);
    }

    /// Removes a copy of an earlier epoch than this one. Ignores a request of a former owner: the
    /// copy waits for the next one.
    pub(crate) fn room_retired(&mut self, sender: &NodeId, room: &str, epoch: u64) {
        if let Ok(room) = RoomName::new(room)
            && self.mesh.owner_of(&room) == Some(sender.as_str())
            && self.mesh.copies.get(&room).is_some_and(|copy| copy.at.epoch < epoch)
        {
            self.mesh.copies.remove(&room);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::Node;

    /// Passes the node the first parts of a copy, with this number of bytes in all. Returns the
    /// bytes that it keeps of all copies.
    fn send_parts(node: &mut Node, sender: &str, room: &str, bytes: usize) -> usize {
        let (sender, at, part) = (NodeId::new(sender).unwrap(), LogPosition { epoch: 1, number: 1 }, [0; PART_BYTES]);
        for offset in (0..bytes).step_by(PART_BYTES) {
            let item = Item::RoomCopy { room, at, base: 0, time: 0, offset: offset as u64, part: &part, last: false };
            node.step().room_copy_part(&sender, &item);
        }
        node.rooms.mesh.partial.values().map(Vec::len).sum()
    }

    #[test]
    fn partial_copy_is_dropped_at_the_next_copy_of_its_node() {
        let mut node = Node::new("n0", &["n0"]);
        assert_eq!(send_parts(&mut node, "n1", "a", 2 * PART_BYTES), 2 * PART_BYTES);
        assert_eq!(send_parts(&mut node, "n2", "a", PART_BYTES), 3 * PART_BYTES);
        assert_eq!(send_parts(&mut node, "n1", "b", PART_BYTES), 2 * PART_BYTES);
    }

    #[test]
    fn copy_is_dropped_above_16_mib() {
        let mut node = Node::new("n0", &["n0"]);
        assert_eq!(send_parts(&mut node, "n1", "a", MAX_COPY_BYTES), MAX_COPY_BYTES);
        assert_eq!(send_parts(&mut node, "n1", "a", MAX_COPY_BYTES + PART_BYTES), 0);
        assert_eq!(node.rooms.dropped(), 1);
    }

    #[test]
    fn part_is_dropped_above_64_mib_of_all_copies() {
        let mut node = Node::new("n0", &["n0"]);
        for sender in ["n1", "n2", "n3", "n4"] {
            send_parts(&mut node, sender, "a", MAX_COPY_BYTES);
        }
        assert_eq!(send_parts(&mut node, "n5", "a", 2 * PART_BYTES), MAX_PARTIAL_BYTES);
        assert_eq!(node.rooms.dropped(), 2);
    }

    #[test]
    fn former_owner_removes_no_copy() {
        let id = |id| NodeId::new(id).unwrap();
        let mut node = Node::new("n0", &["n0", "n1", "n2"]);
        let room = RoomName::new("r").unwrap();
        let owner = NodeId::new(node.rooms.mesh.owner_of(&room).unwrap()).unwrap();
        for former in ["n0", "n1", "n2"].map(id).into_iter().filter(|node| *node != owner).chain([owner.clone()]) {
            let mesh = &mut node.rooms.mesh;
            let at = LogPosition { epoch: 5, number: 1 };
            let (clock, givers) = (RoomClock::at(node.now, 0), BTreeSet::new());
            let copy = RoomCopy { room: Room::new(5), clock, at, base: 0, from: None, givers };
            mesh.copies.insert(room.clone(), copy);
            node.step().room_retired(&former, "r", 6);
            assert_eq!(node.rooms.mesh.waiting_copies(), usize::from(former != owner), "{former}");
        }
    }
}
