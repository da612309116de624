//! Newcomers with a token of a session that this node does not have. The node requests the session
//! from all peers: it may be at one of them, or under way.

use std::time::{Duration, Instant};

use signaling_protocol::ClientId;
use signaling_wire::SessionId;
use signaling_wire::forward::Item;

use super::attach::IN_USE;
use super::session::AttachInfo;
use super::{NodeCore, TrunkKey};

/// Maximum wait for the session, many times the duration of a batch. Then the session is lost.
const WAIT: Duration = Duration::from_millis(500);

/// A newcomer that waits for its session.
#[derive(Debug)]
pub(super) struct PendingResume {
    /// Trunk of its edge.
    pub(super) trunk: TrunkKey,
    pub(super) arrival: AttachInfo,
    /// The session of its token.
    pub(super) session: SessionId,
    /// End of the wait.
    pub(super) until: Instant,
}

impl NodeCore {
    /// Requests a newcomer's session from all peers. A later newcomer replaces an earlier one.
    pub(super) fn expect(&mut self, now: Instant, trunk: TrunkKey, arrival: AttachInfo, session: SessionId) {
        let (client_id, accepted_at_us) = (arrival.client_id.as_str(), arrival.accepted_at_us);
        let wanted = Item::RequestSession { client_id, session, accepted_at_us };
        self.peers.note_to_all(&wanted);
        if let Some(earlier) = self.directory.expect(PendingResume { trunk, arrival, session, until: now + WAIT }) {
            self.reject(earlier.trunk, earlier.arrival.slot, &IN_USE);
        }
    }

    /// Resumes a session that arrived, if a newcomer waits for it. Returns `false` if none does.
    pub(super) fn meet_expected(&mut self, now: Instant, client: &ClientId) -> bool {
        let Some(newcomer) = self.directory.pending_resumes.remove(client) else { return false };
        let lingering = self.directory.lingering.remove(client);
        self.arrive(now, newcomer.trunk, newcomer.arrival, Some(newcomer.session), lingering);
        true
    }

    /// Admits newcomers as new clients if their wait is over.
    pub(super) fn give_up_expecting(&mut self, now: Instant) {
        for PendingResume { trunk, arrival, session, .. } in self.directory.take_overdue_resumes(now) {
            match self.directory.holder(arrival.client_id.as_str()).map(|(key, holder)| (key, holder.id)) {
                Some((key, id)) if id == session => self.resume(now, trunk, arrival, key),
                Some((key, _)) => self.challenge(now, key, trunk, arrival),
                None => self.admit(now, trunk, &arrival, None, false),
            }
        }
    }
}
