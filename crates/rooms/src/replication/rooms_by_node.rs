//! Rooms about which nodes are to get an item, as far as the lanes to them have room.

use std::collections::{BTreeMap, BTreeSet};

use signaling_protocol::{NodeId, RoomName};

/// Maximum rooms of one node that a sweep takes, so that a full lane delays no other node.
const ROOMS_PER_SWEEP: usize = 250;

/// Rooms by the node that is to get an item about each.
#[derive(Debug, Default)]
pub(super) struct RoomsByNode(BTreeMap<NodeId, BTreeSet<RoomName>>);

impl RoomsByNode {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn add(&mut self, room: RoomName, node: NodeId) {
        self.0.entry(node).or_default().insert(room);
    }

    /// Takes at most 250 rooms of each node.
    pub(super) fn take_some(&mut self) -> Vec<(RoomName, NodeId)> {
        let mut taken = Vec::new();
        self.0.retain(|node, rooms| {
            let some = (0..ROOMS_PER_SWEEP).map_while(|_| rooms.pop_first());
            taken.extend(some.map(|room| (room, node.clone())));
            !rooms.is_empty()
        });
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_node_has_its_share_of_a_sweep() {
        let mut waiting = RoomsByNode::default();
        let room = |number| RoomName::new(&format!("r{number}")).unwrap();
        (0..600).for_each(|number| waiting.add(room(number), NodeId::new("a").unwrap()));
        waiting.add(room(1), NodeId::new("b").unwrap());
        let mut taken = || {
            let taken = waiting.take_some();
            ["a", "b"].map(|id| taken.iter().filter(|(_, node)| node.as_str() == id).count())
        };
        assert_eq!([(); 4].map(|()| taken()), [[250, 1], [250, 0], [100, 0], [0, 0]]);
        assert!(waiting.is_empty());
    }
}
