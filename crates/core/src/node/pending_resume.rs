//! Newcomers whose session this node does not have. It first has their clients prove that they
//! live, since another node may have a live socket of the session. Then it requests the session
//! from all peers: it may be at one of them, or under way. `attach`, `linger` and `sweep` call it.

use std::time::{Duration, Instant};

use signaling_protocol::ClientId;
use signaling_wire::SessionId;
use signaling_wire::forward::Item;
use signaling_wire::trunk::ToEdge;

use super::NodeCore;
use super::session::{Session, WaitingNewcomer};
use super::takeover::{LATER_WAITS, NO_ANSWER};

/// Maximum wait for the session, many times the duration of a batch.
const SESSION_WAIT: Duration = Duration::from_millis(500);

impl NodeCore {
    /// Has a newcomer's client prove that it lives. Of one that has, requests the session from all
    /// peers, for at most 500 ms; without a session it is admitted. Rejects an earlier newcomer of
    /// the client, or this one if the earlier one has proven that it lives.
    pub(super) fn await_session(&mut self, now: Instant, arrival: Session, proven: Option<SessionId>) {
        let proves = !arrival.live;
        if proves && self.directory.pending_resumes.get(&arrival.client_id).is_some_and(|earlier| !earlier.proves) {
            return self.reject(arrival.trunk, arrival.slot, &LATER_WAITS);
        }
        let until = now + if proves { 2 * self.settings.rules.takeover_answer } else { SESSION_WAIT };
        match proven {
            _ if proves => self.trunks.send(arrival.trunk, &ToEdge::Prove { slot: arrival.slot }),
            Some(session) => {
                let (client_id, rank) = (arrival.client_id.as_str(), arrival.rank);
                self.peers.note_to_all(&Item::RequestSession { client_id, session, rank });
            }
            None => return self.arrive(now, arrival, None, None),
        }
        let client = arrival.client_id.clone();
        let newcomer = WaitingNewcomer { arrival, proven, proves, until };
        if let Some(earlier) = self.directory.pending_resumes.insert(client, newcomer) {
            self.reject(earlier.arrival.trunk, earlier.arrival.slot, &LATER_WAITS);
        }
    }

    /// Attaches the client's newcomer after a lingering session has arrived here. The newcomer
    /// resumes this session if its token names it, else it becomes a new client. Returns `false` if
    /// no newcomer of the client waits.
    pub(super) fn attach_pending_resume(&mut self, now: Instant, client: &ClientId) -> bool {
        let Some(newcomer) = self.directory.pending_resumes.remove(client) else { return false };
        let lingering = self.directory.lingering.remove(client);
        self.arrive(now, newcomer.arrival, newcomer.proven, lingering);
        true
    }

    /// Ends overdue waits. A newcomer without its client's answer is rejected. Another one resumes
    /// its session if a socket here has it by now, or challenges the socket of another session.
    /// Without a socket it becomes a new client.
    pub(super) fn end_overdue_resumes(&mut self, now: Instant) {
        for WaitingNewcomer { arrival, proven, proves, .. } in self.directory.take_overdue_resumes(now) {
            match self.directory.attached(arrival.client_id.as_str()) {
                _ if proves => self.reject(arrival.trunk, arrival.slot, &NO_ANSWER),
                Some(holder) => self.challenge(now, holder, arrival, proven),
                None => self.admit(now, arrival, None, false),
            }
        }
    }
}
