//! Sessions of one `GStreamer` client, which `calls`, `client` and `room` begin and end.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use crate::name;

/// Maximum sessions of a client: when they end together, each sends one request.
const MAX_SESSIONS: usize = 256;
/// Time in which the other peer must answer a request for a session.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// The client's part in a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// It asked for the session. Without an answer until this time there is none.
    Asker(Instant),
    Producer,
    Consumer,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Session {
    pub(super) partner: Uuid,
    pub(super) part: Part,
    /// Id of the client's signal that the partner must receive, or else there is no session: the
    /// request of an asker, or the answer to it. `None`: the client asked and has its answer.
    pub(super) request: Option<u64>,
    pub(super) presence: Presence,
}

/// Presence of the partner in the room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Presence {
    /// The room has not listed it yet: a new member's signal can be faster.
    Unknown,
    Listed,
    /// A snapshot has begun and not listed it yet.
    Missing,
}

impl Presence {
    pub(super) fn new(is_listed: bool) -> Self {
        if is_listed { Self::Listed } else { Self::Unknown }
    }
}

impl Session {
    /// Returns `true` if the asked peer has accepted.
    pub(super) fn is_open(&self) -> bool {
        !matches!(self.part, Part::Asker(_))
    }

    /// Returns `true` if the partner has not answered within 30 s.
    pub(super) fn is_overdue(&self, now: Instant) -> bool {
        matches!(self.part, Part::Asker(until) if until <= now)
    }
}

/// Returns the id of the session with this number, which others cannot guess without the secret.
pub(super) fn session_id(secret: [u8; 16], number: u64) -> Uuid {
    let hash = Sha256::new().chain_update(secret).chain_update(number.to_be_bytes());
    name::random_uuid(&hash.finalize().into())
}

#[derive(Debug, Default)]
pub(super) struct Sessions {
    /// Open and unanswered sessions, by session id.
    pub(super) by_id: BTreeMap<Uuid, Session>,
}

impl Sessions {
    /// Returns `true` if the client has 256 sessions, the maximum, including unanswered ones.
    pub(super) fn is_full(&self) -> bool {
        self.by_id.len() >= MAX_SESSIONS
    }

    /// Opens a session that the client asked for. Returns `false` unless it waits for this answer.
    pub(super) fn open(&mut self, id: Uuid, partner: Uuid, part: Part) -> bool {
        let asked = self.by_id.get_mut(&id).filter(|session| session.partner == partner && !session.is_open());
        let Some(session) = asked else { return false };
        (session.part, session.request) = (part, None);
        true
    }

    /// Removes the sessions that `ends` selects, and returns them.
    pub(super) fn remove_if(&mut self, ends: impl Fn(&Session) -> bool) -> Vec<(Uuid, Session)> {
        self.by_id.extract_if(.., |_, session| ends(session)).collect()
    }

    /// Returns the next time at which a session is overdue. `None`: each has its answer.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let until = |session: &Session| if let Part::Asker(until) = session.part { Some(until) } else { None };
        self.by_id.values().filter_map(until).min()
    }

    /// Records that the room lists a peer.
    pub(super) fn list(&mut self, peer: Uuid) {
        let sessions = self.by_id.values_mut().filter(|session| session.partner == peer);
        sessions.for_each(|session| session.presence = Presence::Listed);
    }

    /// Records that the room is about to list all members. Listed partners are missing until then.
    pub(super) fn begin_snapshot(&mut self) {
        let listed = self.by_id.values_mut().filter(|session| session.presence == Presence::Listed);
        listed.for_each(|session| session.presence = Presence::Missing);
    }

    pub(super) fn bytes(&self) -> usize {
        self.by_id.len() * (size_of::<Uuid>() + size_of::<Session>() + 32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_ids_differ_by_number_and_secret() {
        let of = |secret, number| session_id([secret; 16], number);
        assert!(of(0, 0) == of(0, 0) && of(0, 0) != of(0, 1) && of(0, 0) != of(1, 0));
    }
}
