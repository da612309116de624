//! What an operator may know of a client here.

use signaling_admin::explain::Queue;
use signaling_admin::placement::{EdgeSession, PlaceState, SocketState};
use signaling_protocol::ClientId;

use super::phase::SessionPhase;
use super::session::{Attachment, Session};
use super::{EdgeCore, LinkKey};

impl EdgeCore {
    /// The client's sessions here, each with the link that leads to its node. Which node that is, and whether it is the right
    /// one, the edge does not know.
    #[must_use]
    pub fn sessions_of(&self, client: &ClientId) -> Vec<(EdgeSession, Option<LinkKey>)> {
        let of_client = self.sessions.values().filter(|session| session.client_id == *client);
        of_client.map(|session| (report(session), session.attached_to().map(|(link, _)| link))).collect()
    }
}

fn report(session: &Session) -> EdgeSession {
    EdgeSession {
        session: session.id.to_string(),
        generation: session.accepted_at_us,
        since_ms: session.accepted_at_us / 1_000,
        reliable: session.receipts.is_some(),
        socket: match session.phase {
            SessionPhase::Waiting | SessionPhase::Accepted { .. } => SocketState::Waiting,
            SessionPhase::Open { paused: false, .. } => SocketState::Open,
            SessionPhase::Open { paused: true, .. } => SocketState::Paused,
            SessionPhase::Closed { .. } => SocketState::Closed,
        },
        place: match session.attachment {
            Attachment::Detached => PlaceState::Nowhere,
            Attachment::Attached { .. } => PlaceState::At,
            Attachment::Releasing { .. } => PlaceState::Leaving,
        },
        node: None,
        moving_to: None,
        unfated: Queue { messages: session.store.len(), bytes: session.store.bytes() },
        unwritten_bytes: session.output.pending().len(),
    }
}
