//! Kicks by operators. Edges close the sockets and reject older tokens. Nodes forward kicks to all
//! edges, and keep them for edges that connect later. The shell and `inputs` call this module.

use std::time::{Instant, UNIX_EPOCH};

use crate::edge;
use signaling_protocol::ClientId;
use signaling_wire::trunk::ToEdge;

use super::{NodeCore, TrunkKey};

impl NodeCore {
    /// Kicks a client at `at`, the present time in seconds since 1970. The edges of this node close
    /// its sockets and reject its tokens up to `at`. A lingering session is removed. Returns `true`
    /// if the client was attached here, or had a lingering session here.
    pub fn kick(&mut self, client: &ClientId, at: u64) -> bool {
        self.kicks.add(client, at);
        let client_id = client.as_str();
        self.trunks.send_to_all(None, &ToEdge::Kicked { client_id, at, at_once: true });
        self.directory.lingering.remove(client).is_some() | self.directory.attached(client.as_str()).is_some()
    }

    /// Handles a kick that another node reports, at `at` in seconds since 1970. Edges close only
    /// sockets with tokens up to `at`. A lingering session is removed if its socket is not newer.
    /// Ignores a kick that is no later than the client's last one, or than all of a full list.
    /// Ignores a kick more than 60 s in the future.
    pub fn learn_kick(&mut self, now: Instant, client: &ClientId, at: u64) {
        self.learn(now, None, client, at);
    }

    /// Handles a kick that an edge reports, as [`Self::learn_kick`] does, and does not send it back
    /// to that edge. Ignores an invalid id.
    pub(super) fn on_kick_from_edge(&mut self, now: Instant, from: TrunkKey, client_id: &str, at: u64) {
        if let Ok(client) = ClientId::new(client_id) {
            self.learn(now, Some(from), &client, at);
        }
    }

    /// Returns the latest kick of each client, oldest first, with its time in seconds since 1970.
    /// The list has at most [`edge::KickList::MAX_CLIENTS`] clients and forgets the oldest kicks.
    pub fn kicks(&self) -> impl Iterator<Item = (&ClientId, u64)> {
        self.kicks.iter()
    }

    /// Stores a new kick, ends an older lingering session, and forwards the kick to all edges
    /// except `from`.
    fn learn(&mut self, now: Instant, from: Option<TrunkKey>, client: &ClientId, at: u64) {
        let unix_now = self.wall(now).duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        if at > edge::KickList::latest_believable(unix_now) || !self.kicks.add(client, at) {
            return;
        }
        if self.directory.lingering.get(client).is_some_and(|known| known.attachment.accepted_at_us / 1_000_000 <= at) {
            self.directory.lingering.remove(client);
        }
        let client_id = client.as_str();
        self.trunks.send_to_all(from, &ToEdge::Kicked { client_id, at, at_once: false });
    }
}
