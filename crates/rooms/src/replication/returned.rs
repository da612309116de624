//! Versions of rooms for nodes that are back in the view. Their lanes may have lost what this node
//! announced meanwhile, and a node that misses changes requests the state.

use signaling_protocol::{NodeId, RoomName};
use signaling_wire::forward::Item;

use super::MeshRooms;
use crate::{Context, Stamp, Step};

impl MeshRooms {
    /// Returns the state, epoch and base of a room whose changes this node announces: as its
    /// backup, or as its owner without one.
    fn announced(&self, name: &RoomName) -> Option<(Stamp, (u64, u64))> {
        let alone = self.owned.get(name).filter(|owned| owned.backup.is_none());
        let alone = alone.map(|owned| (owned.room.stamp(), (owned.at.epoch, owned.base)));
        let backed_up = || self.copies.get(name).filter(|copy| copy.from.is_some());
        alone.or_else(|| backed_up().map(|copy| (copy.room.stamp(), (copy.at.epoch, copy.base))))
    }

    /// Queues the rooms with seats at nodes that have joined the view, or with seats of any node
    /// that an operator ended.
    fn queue_versions(&mut self) {
        for node in std::mem::take(&mut self.joined) {
            let owned = self.owned.iter().map(|(name, owned)| (name, &owned.room));
            let rooms = owned.chain(self.copies.iter().map(|(name, copy)| (name, &copy.room)));
            let with_seats = rooms.filter(|(_, room)| room.has_seats_at(&node) || room.has_ended_seats());
            with_seats.for_each(|(name, _)| self.unsent_versions.add(name.clone(), node.clone()));
        }
    }
}

impl<M: Clone, C: Context> Step<'_, M, C> {
    /// Sends queued versions to nodes, while their lanes have room. Sweeps send the rest.
    pub(super) fn send_versions(&mut self) {
        self.mesh.queue_versions();
        for (room, node) in self.mesh.unsent_versions.take_some() {
            if self.has_room(&node) {
                self.send_version(&room, &node);
            } else if self.mesh.members.contains(&node) {
                self.mesh.unsent_versions.add(room, node);
            }
        }
    }

    fn send_version(&mut self, name: &RoomName, node: &NodeId) {
        let Some((Stamp { incarnation, version }, (epoch, base))) = self.mesh.announced(name) else { return };
        let (room, changes) = (name.as_str(), Vec::new());
        let item = Item::RoomChanged { room, incarnation, epoch, base, version, changes, queue_moved: true };
        self.send_item(node, &item, false);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use signaling_wire::forward::LogPosition;

    use super::super::copies::RoomCopy;
    use super::super::room_clock::RoomClock;
    use super::*;
    use crate::fixtures::{Node, requester};
    use crate::{Operation, Room, Rules};

    /// Returns a node with a copy of this room, which has a seat of n2.
    fn backup_of(owner: Option<&str>) -> (Node, RoomName) {
        let mut node = Node::new("n0", &["n0", "n1", "n2"]);
        let name = node.room_of("n1");
        let mut room = Room::new(1);
        room.apply(
            &Rules::default(),
            1,
            &Operation::Join { requester: requester("a", "n2", 1), data: None, capacity: None },
        );
        let from = owner.map(|owner| NodeId::new(owner).unwrap());
        let (clock, at) = (RoomClock::at(node.now, 1), LogPosition { epoch: 1, number: 1 });
        let copy = RoomCopy { room, clock, at, base: 0, from, givers: BTreeSet::new() };
        node.rooms.mesh.copies.insert(name.clone(), copy);
        node.empty_lanes();
        (node, name)
    }

    /// Returns the rooms whose versions are in the lanes after n2 has left and returned.
    fn versions(node: &mut Node) -> Vec<String> {
        node.set_view(&["n0", "n1"]);
        node.sweep();
        node.empty_lanes();
        node.set_view(&["n0", "n1", "n2"]);
        node.sweep();
        let items = node.fill_lanes();
        let versions = items.iter().filter_map(|bytes| match Item::take(&mut &bytes[..]) {
            Ok(Item::RoomChanged { room, changes, .. }) if changes.is_empty() => Some(room.to_owned()),
            _ => None,
        });
        versions.collect()
    }

    #[test]
    fn node_that_returns_gets_versions_of_rooms_with_its_seats() {
        let (mut node, name) = backup_of(Some("n1"));
        assert_eq!(versions(&mut node), [name.as_str()]);
        assert!(node.rooms.mesh.unsent_versions.is_empty());
    }

    #[test]
    fn node_that_returns_gets_versions_of_rooms_with_ended_seats() {
        let (mut node, name) = backup_of(Some("n1"));
        let remove = Operation::Remove { client: requester("a", "n2", 1).client, block: None };
        node.rooms.mesh.copies.change(&name, |copy| copy.room.apply(&Rules::default(), 2, &remove)).unwrap();
        assert_eq!(versions(&mut node), [name.as_str()]);
    }

    #[test]
    fn copy_that_follows_no_owner_is_not_announced() {
        let (mut node, _) = backup_of(None);
        assert_eq!(versions(&mut node), [""; 0]);
    }
}
