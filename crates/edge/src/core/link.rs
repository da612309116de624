//! One way to a node: a trunk of a balancer, or the node in the same process for its direct clients.

use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;
use signaling_protocol::Batches;
use signaling_protocol::trunk::{Slot, ToNode};

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
    /// Whether the node is told who is put out.
    pub(super) shares_kicks: bool,
    /// Until then the node hears nothing sooner than what is carried then.
    pub(super) deaf_until: Option<Instant>,
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

    /// The node has just said that it hears nothing for so long. Half of that time is left for who carries: what is carried
    /// too late is heard a rest later.
    pub(super) fn node_rests(&mut self, now: Instant, rest: Duration) {
        self.deaf_until = Some(now + rest / 2);
    }

    pub(super) fn send(&mut self, frame: &ToNode<'_>) {
        self.out.add(|out| frame.append(out));
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use signaling_protocol::trunk::ToEdge;

    use crate::core::{EdgeCore, Settings};

    #[test]
    fn a_node_that_rests_is_deaf_for_half_of_that_time_and_no_other_is() {
        let (mut core, start) = (EdgeCore::new(Settings::default()), Instant::now());
        let (link, other) = (core.link_up(), core.link_up());
        let after = |micros| start + Duration::from_micros(micros);
        let rests = |core: &mut EdgeCore, now, micros| {
            let mut word = Vec::new();
            ToEdge::Rests { micros }.append(&mut word);
            core.link_frames(now, link, &word).unwrap();
        };
        assert!(!core.is_deaf(start, link));
        rests(&mut core, start, 3_000);
        assert!(core.is_deaf(after(1_499), link) && !core.is_deaf(after(1_500), link));
        assert!(!core.is_deaf(start, other));
        rests(&mut core, after(1_000), 3_000);
        assert!(core.is_deaf(after(2_499), link) && !core.is_deaf(after(2_500), link), "each word counts anew");
        core.link_down(link);
        assert!(!core.is_deaf(start, link));
    }
}
