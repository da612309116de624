//! One way to a node: a trunk of a balancer, or the node in the same process for its direct clients.

use rustc_hash::FxHashMap;
use signaling_wire::Batches;
use signaling_wire::trunk::{Slot, ToNode};

use super::ClientKey;

/// The edge's end of a link.
#[derive(Debug, Default)]
pub(super) struct Link {
    pub(super) out: Batches,
    /// Confirms: they ride behind each batch, so that a backlog does not keep them.
    pub(super) lazy: Batches,
    pub(super) client_by_slot: FxHashMap<Slot, ClientKey>,
    /// Clients with something to confirm: written when the batch is taken.
    pub(super) to_confirm: Vec<ClientKey>,
    next_slot: Slot,
}

impl Link {
    /// A name for a session on this link, never used before; none once four thousand million have been.
    pub(super) fn assign(&mut self, client: ClientKey) -> Option<Slot> {
        let slot = self.next_slot;
        self.next_slot = slot.checked_add(1)?;
        self.client_by_slot.insert(slot, client);
        Some(slot)
    }

    pub(super) fn send(&mut self, frame: &ToNode<'_>) {
        self.out.add(|out| frame.append(out));
    }
}
