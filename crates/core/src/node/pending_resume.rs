//! Sockets that resume a session which this node does not have. The node requests the session from
//! all peers: it may be at one of them, or under way. `attach`, `linger` and `sweep` call it.

use std::time::{Duration, Instant};

use signaling_protocol::ClientId;
use signaling_wire::SessionId;
use signaling_wire::forward::Item;

use super::NodeCore;
use super::attach::IN_USE;
use super::session::Session;

/// Maximum wait for the session, many times the duration of a batch.
const SESSION_WAIT: Duration = Duration::from_millis(500);

/// A newcomer, which is a socket without a session here, that waits for the session of its token.
#[derive(Debug)]
pub(super) struct PendingResume {
    /// Its session, unless it resumes that of its token.
    pub(super) arrival: Session,
    /// The session of its token.
    pub(super) session: SessionId,
    /// End of the wait.
    pub(super) until: Instant,
}

impl NodeCore {
    /// Requests a newcomer's session from all peers, for at most 500 ms. Rejects an earlier
    /// newcomer of the client.
    pub(super) fn await_session(&mut self, now: Instant, arrival: Session, session: SessionId) {
        let (client_id, accepted_at_us) = (arrival.client_id.as_str(), arrival.accepted_at_us);
        let wanted = Item::RequestSession { client_id, session, accepted_at_us };
        self.peers.note_to_all(&wanted);
        let client = arrival.client_id.clone();
        let newcomer = PendingResume { arrival, session, until: now + SESSION_WAIT };
        if let Some(earlier) = self.directory.pending_resumes.insert(client, newcomer) {
            self.reject(earlier.arrival.trunk, earlier.arrival.slot, &IN_USE);
        }
    }

    /// Attaches the client's newcomer after a lingering session has arrived here. The newcomer
    /// resumes this session if its token names it, else it becomes a new client. Returns `false` if
    /// no newcomer of the client waits.
    pub(super) fn attach_pending_resume(&mut self, now: Instant, client: &ClientId) -> bool {
        let Some(newcomer) = self.directory.pending_resumes.remove(client) else { return false };
        let lingering = self.directory.lingering.remove(client);
        self.arrive(now, newcomer.arrival, Some(newcomer.session), lingering);
        true
    }

    /// Ends overdue waits. A newcomer resumes its session if a socket here has it by now. It
    /// challenges the socket of another session. Without a socket it becomes a new client.
    pub(super) fn end_overdue_resumes(&mut self, now: Instant) {
        for PendingResume { arrival, session, .. } in self.directory.take_overdue_resumes(now) {
            match self.directory.holder(arrival.client_id.as_str()).map(|(key, holder)| (key, holder.id)) {
                Some((key, id)) if id == session => self.resume(now, arrival, key),
                Some((key, _)) => self.challenge(now, key, arrival),
                None => self.admit(now, arrival, None, false),
            }
        }
    }
}
