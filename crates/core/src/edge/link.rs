//! The edge's end of a link: a balancer's trunk, or the path to the node of the same process.

use rustc_hash::FxHashMap;
use signaling_wire::Batches;
use signaling_wire::trunk::{Slot, ToNode};

use super::ClientKey;

/// Queued frames and used slots of one link.
#[derive(Debug, Default)]
pub(super) struct Link {
    /// Frames other than confirms.
    pub(super) out: Batches,
    /// Confirms. They follow each batch, so that a backlog does not delay them.
    pub(super) lazy: Batches,
    /// Sessions bound to the link, by their slots.
    pub(super) client_by_slot: FxHashMap<Slot, ClientKey>,
    /// Clients with something to confirm, written when the batch is taken.
    pub(super) to_confirm: Vec<ClientKey>,
    next_slot: Slot,
}

impl Link {
    /// Returns a slot that this link never used before; `None` after 2^32 slots.
    pub(super) fn assign(&mut self, client: ClientKey) -> Option<Slot> {
        let slot = self.next_slot;
        self.next_slot = slot.checked_add(1)?;
        self.client_by_slot.insert(slot, client);
        Some(slot)
    }

    /// Queues a frame for the next batch.
    pub(super) fn send(&mut self, frame: &ToNode<'_>) {
        self.out.add(|out| frame.append(out));
    }
}
