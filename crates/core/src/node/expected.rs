//! Newcomers who prove a session that this node does not know: it may be on its way from the node that had it, or that node
//! may not know that it should be. So all are asked.

use std::time::{Duration, Instant};

use signaling_protocol::ClientId;
use signaling_wire::SessionId;
use signaling_wire::forward::Item;
use signaling_wire::trunk::Slot;

use super::session::AttachInfo;
use super::{NodeCore, TrunkKey};

/// How long such a newcomer waits: many times what a batch takes. Then its session is taken for lost.
const WAIT: Duration = Duration::from_millis(500);

/// A newcomer whose session may come.
#[derive(Debug)]
pub(super) struct PendingResume {
    trunk: TrunkKey,
    arrival: AttachInfo,
    session: SessionId,
    until: Instant,
}

impl NodeCore {
    /// The newcomer shows a token of a session that is not here. A later newcomer takes the place of an earlier one.
    pub(super) fn expect(&mut self, now: Instant, trunk: TrunkKey, arrival: AttachInfo, session: SessionId) {
        let client = arrival.client_id.clone();
        let wanted =
            Item::RequestSession { client_id: client.as_str(), session, accepted_at_us: arrival.accepted_at_us };
        self.peers.note_to_all(arrival.key.get(), &wanted);
        let expected = PendingResume { trunk, arrival, session, until: now + WAIT };
        if let Some(earlier) = self.expected.insert(client, expected) {
            self.reject(earlier.trunk, earlier.arrival.slot, &super::attach::IN_USE);
        }
    }

    /// A session has come: who waits for it goes on with it. Says whether somebody did.
    pub(super) fn meet_expected(&mut self, now: Instant, client: &ClientId) -> bool {
        let Some(PendingResume { trunk, arrival, session, .. }) = self.expected.remove(client) else { return false };
        let lingering = self.lingering.remove(client);
        self.arrive(now, trunk, arrival, Some(session), lingering);
        true
    }

    /// Ends a newcomer's wait for its session.
    pub(super) fn expected_no_more(&mut self, at: (TrunkKey, Slot)) -> bool {
        let before = self.expected.len();
        self.expected.retain(|_, expected| (expected.trunk, expected.arrival.slot) != at);
        self.expected.len() < before
    }

    /// A trunk is lost: who waited on it for a session or an id comes another way, and takes nothing from anybody here.
    pub(super) fn newcomers_are_gone(&mut self, trunk: TrunkKey) {
        self.expected.retain(|_, expected| expected.trunk != trunk);
        for holder in &self.contended {
            if let Some(session) = self.sessions.get_mut(*holder) {
                session.contender.take_if(|contender| contender.trunk == trunk);
            }
        }
    }

    /// Lets those in as new clients who have waited long enough.
    pub(super) fn give_up_expecting(&mut self, now: Instant) {
        let mut over: Vec<_> = self
            .expected
            .iter()
            .filter(|(_, expected)| expected.until <= now)
            .map(|(client, _)| client.clone())
            .collect();
        over.sort_unstable();
        for client in over {
            let Some(PendingResume { trunk, arrival, session, .. }) = self.expected.remove(&client) else { continue };
            match self.holder(&client).map(|(key, holder)| (key, holder.id)) {
                Some((key, id)) if id == session => self.resume(now, trunk, arrival, key),
                Some((key, _)) => self.challenge(now, key, trunk, arrival),
                None => self.admit(now, trunk, &arrival, None, false),
            }
        }
    }
}
