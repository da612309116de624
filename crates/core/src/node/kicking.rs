//! Kicks by operators. Edges close the sockets and reject older tokens. Nodes forward kicks to all
//! edges, and keep them for edges that connect later.

use std::time::{Instant, UNIX_EPOCH};

use crate::edge::{KickList, KickName};
use signaling_wire::trunk::ToEdge;

use super::linger::Lingering;
use super::session::Session;
use super::{NodeCore, TrunkKey};

/// Effect of a kick at this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KickedHere {
    /// `true` if a client with this id, or with this subject, was attached here, or a session with
    /// this id lingered here.
    pub was_here: bool,
    /// Subject of the token of the client with this id, which is kicked too. `None`: the client is
    /// not attached here, has no token, or its subject is its id.
    pub subject: Option<KickName>,
}

impl NodeCore {
    /// Kicks a client at `at`, the present time in seconds since 1970, and all clients with the
    /// subject of its token. The edges of this node close the sockets and reject tokens up to `at`.
    /// A lingering session is removed.
    pub fn kick(&mut self, name: &KickName, at: u64) -> KickedHere {
        let attached = self.directory.holder(name.as_str()).map(|(_, session)| session);
        let subject = attached.and_then(subject_of).filter(|subject| *subject != name.as_str()).map(KickName::new);
        for name in std::iter::once(name).chain(&subject) {
            self.kicks.add(name, at);
            self.trunks.send_to_all(None, &ToEdge::Kicked { name: name.as_str(), at, at_once: true });
        }
        let has_subject = |session: &Session| !session.socket_ended && subject_of(session) == Some(name.as_str());
        let was_here = self.directory.attached(name.as_str()).is_some()
            | self.directory.lingering.remove(name.as_str()).is_some()
            | self.directory.sessions.values().any(has_subject);
        KickedHere { was_here, subject }
    }

    /// Adds a kick of an earlier run of this node, also one that this clock has not reached.
    pub fn restore_kick(&mut self, name: &KickName, at: u64) {
        self.kicks.add(name, at);
    }

    /// Handles a kick that another node or the edge `from` reports, at `at` in seconds since 1970.
    /// The other edges close only sockets with tokens up to `at`. A lingering session is removed if
    /// it has lost its socket by then. Ignores a kick that is no later than the client's last one,
    /// or than all of a full list. Ignores a kick more than 60 s in the future.
    pub fn learn_kick(&mut self, now: Instant, from: Option<TrunkKey>, name: &KickName, at: u64) {
        let unix_now = self.wall(now).duration_since(UNIX_EPOCH).unwrap_or_default();
        if at > KickList::latest_believable(unix_now.as_secs()) || !self.kicks.add(name, at) {
            return;
        }
        let name = name.as_str();
        let lost_for =
            |known: &Lingering| known.lost(self.settings.resume).map(|lost| now.saturating_duration_since(lost));
        let is_kicked = |known: &Lingering| {
            lost_for(known).is_none_or(|lost_for| unix_now.saturating_sub(lost_for).as_secs() <= at)
        };
        if self.directory.lingering.get(name).is_some_and(is_kicked) {
            self.directory.lingering.remove(name);
        }
        self.trunks.send_to_all(from, &ToEdge::Kicked { name, at, at_once: false });
    }
}

/// Returns the subject of a client's token. `None`: the client has no token.
pub(super) fn subject_of(session: &Session) -> Option<&str> {
    session.grant.as_ref()?.subject.as_deref()
}
