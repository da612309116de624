//! Prefetching of sessions into the CPU caches, before the event loop serves them.
//!
//! Between two messages of one client, thousands of others are served, so each session comes from
//! memory. One after another these reads add up. Prefetches for all clients of a turn overlap.

use std::hint::black_box;

use signaling_wire::trunk::ToEdge;

use super::session::Session;
use super::{ClientKey, EdgeCore, LinkKey};

impl EdgeCore {
    /// Prefetches clients that are about to be read or written.
    pub fn prefetch(&self, clients: impl Iterator<Item = ClientKey>) {
        clients.filter_map(|client| self.sessions.get(client)).for_each(prefetch);
    }

    /// Prefetches the data that a run of frames needs.
    pub(super) fn prefetch_for(&self, link: LinkKey, frames: &[ToEdge<'_>]) {
        let Some(link) = self.links.get(link) else { return };
        let session_of = |frame: &ToEdge<'_>| self.sessions.get(*link.client_by_slot.get(&frame.slot()?)?);
        frames.iter().filter_map(session_of).for_each(prefetch);
        for frame in frames {
            match (frame, session_of(frame)) {
                (ToEdge::Down { origin: Some(origin), .. }, Some(session)) => session.deduplicator.prefetch(*origin),
                (ToEdge::Outcomes { .. }, Some(session)) => session.buffer.prefetch(),
                _ => {}
            }
        }
    }
}

/// Reads each part of a session that a message needs.
fn prefetch(session: &Session) {
    black_box((session.buffer.last(), session.attached_to(), session.heard, session.pinged, session.phase.is_open()));
}
