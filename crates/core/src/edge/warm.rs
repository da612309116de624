//! Waiting for memory once, not once for each client.
//!
//! A client says something a few times a second, and between two messages the caches have seen thousands of others. So each session that a
//! message touches must come from memory, and in it lies where the next piece is. Read one after another, each client's waits add up;
//! read beforehand for all that one turn is about, without any of these reads waiting for another, they overlap.

use std::hint::black_box;

use signaling_wire::trunk::ToEdge;

use super::session::Session;
use super::{ClientKey, EdgeCore, LinkKey};

impl EdgeCore {
    /// Reads what is needed of clients that are about to be read or written.
    pub fn warm_up(&self, clients: impl Iterator<Item = ClientKey>) {
        clients.filter_map(|client| self.sessions.get(client)).for_each(touch);
    }

    /// Reads what a run of frames is about to need.
    pub(super) fn warm_up_for(&self, link: LinkKey, frames: &[ToEdge<'_>]) {
        let Some(link) = self.links.get(link) else { return };
        let session_of = |frame: &ToEdge<'_>| self.sessions.get(*link.client_by_slot.get(&frame.slot()?)?);
        frames.iter().filter_map(session_of).for_each(touch);
        for frame in frames {
            match (frame, session_of(frame)) {
                (ToEdge::Down { origin: Some(origin), .. }, Some(session)) => session.filter.touch(*origin),
                (ToEdge::Fates { .. }, Some(session)) => session.store.touch(),
                _ => {}
            }
        }
    }
}

/// Reads a session wherever a message does.
fn touch(session: &Session) {
    black_box((session.store.last(), session.attached_to(), session.heard, session.pinged, session.phase.is_open()));
}
