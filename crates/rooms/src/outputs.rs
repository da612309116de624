//! Effects that rooms decide, in order. The node applies them after each input, so that rooms
//! change no session, socket or lane themselves.

use std::ops::Range;
use std::rc::Rc;

use signaling_protocol::{ClientId, NodeId, RoomName};
use signaling_wire::forward::Item;
use signaling_wire::trunk::DeliveryOutcome;
use signaling_wire::{MessageNumber, Rank, Seq, SocketId};

use crate::{Context, Peer, SocketKey, Step};

/// An effect of rooms on a client or another node. `M` is a client's message.
#[derive(Debug)]
pub enum Output<M> {
    /// Sends a client a message of the server. No effect without a socket.
    ToClient {
        /// Socket of the client.
        to: SocketKey,
        /// JSON text.
        text: Rc<[u8]>,
    },
    /// Sends the outcome of a client's frame.
    Answer {
        /// Socket of the client.
        to: SocketKey,
        /// Number of the frame.
        seq: Seq,
        /// Its outcome.
        outcome: DeliveryOutcome,
        /// JSON text. Empty: none.
        text: Vec<u8>,
        /// `true` to send it after the messages that were sent to the client before.
        is_ordered: bool,
    },
    /// Takes custody of a client's signal.
    Signal {
        /// Socket of the sender.
        from: SocketKey,
        /// The recipient.
        to: ClientId,
        /// The signal.
        message: M,
    },
    /// Takes custody of a broadcast, once for each recipient. The node reports each outcome and the
    /// end of the fan-out by [`Rooms::count_broadcast_outcome`](crate::Rooms).
    FanOut {
        /// Socket of the sender.
        from: SocketKey,
        /// Number of the broadcast in its session.
        number: MessageNumber,
        /// The recipients.
        to: Vec<ClientId>,
        /// The message to each.
        message: M,
    },
    /// Sends an item to a node, whose lane has room.
    ToNode {
        /// The node.
        to: NodeId,
        /// The encoded item: its place in [`Outputs::items`] of the same outputs.
        item: Range<usize>,
        /// `true` to send it without the flush delay.
        is_urgent: bool,
    },
    /// Sends a session's edge the state that the next node needs.
    State {
        /// Socket of the session.
        of: SocketKey,
        /// The state.
        state: Vec<u8>,
    },
    /// A command has its answer. The node reports by [`Rooms::command_answered`](crate::Rooms) once
    /// that is sent.
    CommandDone {
        /// Socket of the command.
        of: SocketKey,
    },
    /// A room has had an operation of the client with a higher rank than that of its socket. If the
    /// socket is the later one, the node raises its rank, and reports that by [`Step::raise`].
    Outranked {
        /// The client.
        client: ClientId,
        /// Its socket.
        socket: SocketId,
        /// Rank of the client's last operation in the room.
        above: Rank,
    },
    /// Sends a lingering session to the owner of its client.
    SendHome {
        /// The client.
        client: ClientId,
    },
    /// Requests a room from the journal. The answer goes to
    /// [`Step::journal_read`](crate::Step), also if the journal does not answer.
    ReadJournal {
        /// The room.
        room: RoomName,
    },
}

/// Maximum outputs, and bytes of items, for which memory is kept between inputs.
const MAX_IDLE: usize = 1_024;
const MAX_IDLE_BYTES: usize = 256 * 1024;

/// Outputs that are not carried out yet.
#[derive(Debug)]
pub struct Outputs<M> {
    /// The outputs, in order.
    pub queue: Vec<Output<M>>,
    /// The encoded items for nodes.
    pub items: Vec<u8>,
    /// Bytes of items in `queue`, by their node: few between two inputs.
    bytes_to: Vec<(NodeId, usize)>,
}

impl<M> Default for Outputs<M> {
    fn default() -> Self {
        Self { queue: Vec::new(), items: Vec::new(), bytes_to: Vec::new() }
    }
}

impl<M> Outputs<M> {
    pub(crate) fn push(&mut self, output: Output<M>) {
        self.queue.push(output);
    }

    /// Adds the item that `append` encodes, for a node whose lane has room.
    fn push_item(&mut self, to: &NodeId, is_urgent: bool, append: impl FnOnce(&mut Vec<u8>)) {
        let start = self.items.len();
        append(&mut self.items);
        let item = start..self.items.len();
        match self.bytes_to.iter_mut().find(|(node, _)| node == to) {
            Some((_, queued)) => *queued += item.len(),
            None => self.bytes_to.push((to.clone(), item.len())),
        }
        self.queue.push(Output::ToNode { to: to.clone(), item, is_urgent });
    }

    pub(crate) fn bytes_to(&self, node: &NodeId) -> usize {
        self.bytes_to.iter().find(|(of, _)| of == node).map_or(0, |(_, queued)| *queued)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Keeps the memory of outputs that were carried out, if there are no others.
    pub(crate) fn reuse(&mut self, mut done: Self) {
        if self.queue.is_empty() {
            done.queue.clear();
            done.queue.shrink_to(MAX_IDLE);
            done.items.clear();
            done.items.shrink_to(MAX_IDLE_BYTES);
            done.bytes_to.clear();
            *self = done;
        }
    }
}

impl<M: Clone, C: Context> Step<'_, M, C> {
    /// Sends an item to a node. `is_urgent`: without the flush delay. Returns `false` and drops it
    /// if the node is unknown or its lane is full.
    pub(crate) fn send_item(&mut self, to: &NodeId, item: &Item<'_>, is_urgent: bool) -> bool {
        self.send_encoded(to, is_urgent, |out| item.append(out))
    }

    /// Sends the item that `append` encodes, as [`Self::send_item`].
    pub(crate) fn send_encoded(&mut self, to: &NodeId, is_urgent: bool, append: impl FnOnce(&mut Vec<u8>)) -> bool {
        let has_room = self.has_room(to);
        if has_room {
            self.local.outputs.push_item(to, is_urgent, append);
        } else {
            self.local.dropped += 1;
        }
        has_room
    }

    /// Returns `true` if the lane to a node has room for an item. `false` for an unknown node.
    pub(crate) fn has_room(&self, to: &NodeId) -> bool {
        self.lane_to(to).is_some_and(|lane| lane.queued < lane.limit)
    }

    /// Sends items of about this size that belong together. Returns `false` and drops all if the
    /// node is unknown, half of the room in its lane is taken, or `bytes` exceed the rest. Items
    /// that exceed all of the room go into an empty lane.
    pub(crate) fn send_items(&mut self, to: &NodeId, bytes: usize, items: &[Item<'_>]) -> bool {
        let Some(Peer { queued, limit, .. }) = self.lane_to(to) else { return false };
        let has_room = queued == 0 || (queued < limit / 2 && queued + bytes < limit);
        if has_room {
            items.iter().for_each(|item| self.local.outputs.push_item(to, true, |out| item.append(out)));
        }
        has_room
    }

    pub(crate) fn send_item_to_all(&mut self, item: &Item<'_>) {
        for peer in self.cx.answering() {
            self.send_item(&peer, item, false);
        }
    }

    /// Returns a peer whose lane has the outputs so far. `None`: it is unknown.
    fn lane_to(&self, node: &NodeId) -> Option<Peer> {
        let peer = self.cx.peer(node.as_str())?;
        Some(Peer { queued: peer.queued + self.local.outputs.bytes_to(node), ..peer })
    }
}

#[cfg(test)]
mod tests {
    use signaling_wire::forward::LogPosition;

    use super::*;
    use crate::fixtures::Node;

    #[test]
    fn items_are_sent_together_if_they_fit_or_are_first() {
        let to = NodeId::new("n1").unwrap();
        let part = [0; 128 * 1024];
        let at = LogPosition { epoch: 1, number: 1 };
        let item = Item::RoomCopy { room: "r", at, base: 0, time: 0, offset: 0, part: &part, last: true };
        // The items that a node sends for its view are taken before.
        let new = || {
            let mut node = Node::new("n0", &["n0", "n1"]);
            node.empty_lanes();
            node
        };
        let send = |node: &mut Node, parts: usize| {
            let is_sent = node.step().send_items(&to, parts * part.len(), &vec![item.clone(); parts]);
            // A lane counts like an output.
            if parts == 31 {
                node.fill_lanes();
            }
            is_sent
        };
        let mut node = new();
        assert!(send(&mut node, 31));
        assert!(!send(&mut node, 33), "they do not fit");
        assert!(send(&mut node, 32));
        assert!(!send(&mut node, 1), "half of the room is for other items");
        assert!(node.step().send_item(&to, &item, true));
        let mut node = new();
        assert!(send(&mut node, 100), "they can never fit");
        assert!(!send(&mut node, 1));
    }
}
