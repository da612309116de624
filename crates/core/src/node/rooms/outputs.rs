//! Effects that rooms decide, in order. [`NodeCore::carry_out`](super::super::NodeCore) applies them
//! after each input, so that rooms change no session, socket or lane themselves.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Instant;

use signaling_protocol::{ClientId, NodeId};
use signaling_wire::forward::Item;
use signaling_wire::trunk::DeliveryOutcome;
use signaling_wire::{MessageNumber, Seq};

use super::super::SessionKey;
use super::super::lane::MAX_WAITING;
use super::super::outbound::OutboundMessage;
use super::context::{Context, Step};

/// An effect of a room on a client or another node.
#[derive(Debug)]
pub(in crate::node) enum Output {
    /// Sends a client a message of the server, as JSON text. No effect without a socket.
    ToClient { to: SessionKey, text: Rc<[u8]> },
    /// Sends the outcome of a client's frame, with a JSON text or none. `is_ordered`: after the
    /// messages that were sent to the client before.
    Answer { to: SessionKey, seq: Seq, outcome: DeliveryOutcome, text: Vec<u8>, is_ordered: bool },
    /// Takes custody of a client's signal at the time `at`.
    Signal { at: Instant, from: SessionKey, to: ClientId, message: OutboundMessage },
    /// Takes custody of a broadcast's copies for these members at the time `at`.
    FanOut { at: Instant, from: SessionKey, number: MessageNumber, to: Vec<ClientId>, message: OutboundMessage },
    /// Sends an item to a node. `is_urgent`: without the flush delay. Its lane has room.
    ToNode { to: NodeId, item: Vec<u8>, is_urgent: bool },
    /// Sends a session's edge the state that the next node needs.
    State { of: SessionKey, state: Vec<u8> },
    /// A command of the session has its answer.
    CommandDone { of: SessionKey },
    /// Sends a lingering session to its owner at the time `at`.
    SendHome { at: Instant, client: ClientId },
}

/// Outputs that are not carried out yet.
#[derive(Debug, Default)]
pub(in crate::node) struct Outputs {
    queue: Vec<Output>,
    /// Bytes of items in `queue`, by their node.
    bytes_to: BTreeMap<NodeId, usize>,
}

impl Outputs {
    pub(super) fn push(&mut self, output: Output) {
        self.queue.push(output);
    }

    /// Adds an encoded item for a node whose lane has room.
    fn push_item(&mut self, to: &NodeId, item: Vec<u8>, is_urgent: bool) {
        match self.bytes_to.get_mut(to) {
            Some(queued) => *queued += item.len(),
            None => drop(self.bytes_to.insert(to.clone(), item.len())),
        }
        self.queue.push(Output::ToNode { to: to.clone(), item, is_urgent });
    }

    /// Returns the bytes of queued items for a node.
    pub(super) fn bytes_to(&self, node: &NodeId) -> usize {
        self.bytes_to.get(node).copied().unwrap_or_default()
    }

    pub(in crate::node) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Takes all outputs, in order.
    pub(in crate::node) fn take(&mut self) -> Vec<Output> {
        self.bytes_to.clear();
        std::mem::take(&mut self.queue)
    }

    /// Gives the memory of taken outputs back.
    pub(in crate::node) fn reuse(&mut self, taken: Vec<Output>) {
        if self.queue.is_empty() {
            self.queue = taken;
        }
    }
}

impl<C: Context> Step<'_, C> {
    /// Sends an item to a node. `is_urgent`: without the flush delay. Returns `false` and drops it if
    /// the node is unknown or its lane is full.
    pub(in crate::node) fn send_item(&mut self, to: &NodeId, item: &Item<'_>, is_urgent: bool) -> bool {
        self.send_bytes(to, encoded(item), is_urgent)
    }

    /// Sends an encoded item as [`Self::send_item`].
    pub(super) fn send_bytes(&mut self, to: &NodeId, item: Vec<u8>, is_urgent: bool) -> bool {
        let has_room = self.queued_for(to).is_some_and(|queued| queued < MAX_WAITING);
        if has_room {
            self.rooms.outputs.push_item(to, item, is_urgent);
        } else {
            self.rooms.dropped += 1;
        }
        has_room
    }

    /// Sends items of about this size that belong together. Returns `false` and drops all if the node
    /// is unknown, half of the room in its lane is taken, or `bytes` exceed the rest. Items that
    /// exceed all of the room go into an empty lane.
    pub(in crate::node) fn send_items(&mut self, to: &NodeId, bytes: usize, items: &[Item<'_>]) -> bool {
        let Some(queued) = self.queued_for(to) else { return false };
        let has_room = queued == 0 || (queued < MAX_WAITING / 2 && queued + bytes < MAX_WAITING);
        if has_room {
            items.iter().for_each(|item| self.rooms.outputs.push_item(to, encoded(item), true));
        }
        has_room
    }

    /// Sends an item to each peer that answers.
    pub(in crate::node) fn send_item_to_all(&mut self, item: &Item<'_>) {
        for peer in self.cx.answering() {
            self.send_item(&peer, item, false);
        }
    }

    /// Returns the bytes that wait for a node. `None`: it is unknown.
    fn queued_for(&self, node: &NodeId) -> Option<usize> {
        Some(self.cx.peer(node.as_str())?.queued + self.rooms.outputs.bytes_to(node))
    }
}

pub(super) fn encoded(item: &Item<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    item.append(&mut bytes);
    bytes
}

#[cfg(test)]
mod tests {
    use signaling_wire::Incarnation;
    use signaling_wire::forward::LogPosition;

    use super::super::super::NodeCore;
    use super::*;
    use crate::fixtures::mesh_node;

    #[test]
    fn items_are_sent_together_if_they_fit_or_are_first() {
        let now = Instant::now();
        let to = NodeId::new("n1").unwrap();
        let part = [0; 128 * 1024];
        let at = LogPosition { epoch: 1, number: 1 };
        let item = Item::RoomCopy { room: "r", at, offset: 0, part: &part, last: true };
        // The items that a node sends for its view are taken before.
        let new = || {
            let mut node = mesh_node("n0", &["n0", "n1"]);
            let (peer, _) = node.peers().next().unwrap();
            let exchange = node.open_lane(now, peer).unwrap().exchange;
            node.lane_opened(now, peer, exchange, Incarnation([1; 8]));
            while node.take_lane_frame(now, peer, exchange).is_some() {}
            node
        };
        let send = |node: &mut NodeCore, parts: usize| {
            let is_sent = node.room_step().send_items(&to, parts * part.len(), &vec![item.clone(); parts]);
            // A lane counts like an output.
            if parts == 31 {
                node.carry_out();
            }
            is_sent
        };
        let mut node = new();
        assert!(send(&mut node, 31));
        assert!(!send(&mut node, 33), "they do not fit");
        assert!(send(&mut node, 32));
        assert!(!send(&mut node, 1), "half of the room is for other items");
        assert!(node.room_step().send_item(&to, &item, true));
        let mut node = new();
        assert!(send(&mut node, 100), "they can never fit");
        assert!(!send(&mut node, 1));
    }
}
