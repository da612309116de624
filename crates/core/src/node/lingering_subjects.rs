//! Bound of the lingering sessions of one token subject whose clients have other ids, as clients of
//! dialects have. `directory` calls this module.

use std::collections::{HashMap, VecDeque};

use signaling_protocol::ClientId;
use signaling_wire::SessionId;

use crate::edge::KickName;

/// Maximum lingering sessions of a subject: those of 16 sockets at each of four lost edges.
const MAX_OF_SUBJECT: usize = 64;

/// Lingering sessions of each subject, and ended ones among them, in the order of their last
/// sockets' ends.
#[derive(Debug, Default)]
pub(super) struct LingeringSubjects {
    sessions_by_subject: HashMap<KickName, VecDeque<(ClientId, SessionId)>>,
}

impl LingeringSubjects {
    /// Adds a session that lingers now. `lingers` returns `true` for one that still does. Returns
    /// the client of the oldest one if the subject has more than [`MAX_OF_SUBJECT`].
    pub(super) fn add(
        &mut self,
        subject: KickName,
        (client, session): (ClientId, SessionId),
        lingers: impl Fn(&ClientId, SessionId) -> bool,
    ) -> Option<ClientId> {
        let sessions = self.sessions_by_subject.entry(subject).or_default();
        sessions.retain(|(other, id)| *other != client && lingers(other, *id));
        sessions.push_back((client, session));
        if sessions.len() > MAX_OF_SUBJECT { sessions.pop_front().map(|(oldest, _)| oldest) } else { None }
    }

    /// Forgets sessions that do not linger.
    pub(super) fn sweep(&mut self, lingers: impl Fn(&ClientId, SessionId) -> bool) {
        self.sessions_by_subject.retain(|_, sessions| {
            sessions.retain(|(client, id)| lingers(client, *id));
            !sessions.is_empty()
        });
    }
}
