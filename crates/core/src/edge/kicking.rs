//! Clients that an operator puts out, here or anywhere in the mesh.

use signaling_protocol::{ClientId, CloseCode};
use signaling_wire::trunk::{DetachReason, ToNode};

use super::session::Session;
use super::{EdgeCore, Effect, VerifiedToken};

/// A client is put out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kick {
    /// Whom.
    pub client_id: ClientId,
    /// When, in seconds since 1970.
    pub at: u64,
    /// Whether an operator does so at this moment: else a socket is closed only if what it has shown is as old.
    pub at_once: bool,
}

impl EdgeCore {
    /// Puts a client out: its session ends with its socket, and what it was given up to `at`, in seconds since 1970, lets it in no
    /// more. If something newer was shown for its socket, that stays, unless this is done `at_once` and is news: each node says
    /// so, and in between it may have come back. Says whether a socket was closed.
    pub fn kick(&mut self, client_id: &ClientId, at: u64, at_once: bool) -> bool {
        let is_news = self.kicks.add(client_id, at);
        let is_meant = |session: &Session| match &session.proven {
            Some(proven) => proven.issued <= at || (at_once && is_news),
            None => at_once,
        };
        let of_client =
            |session: &Session| session.client_id == *client_id && !session.phase.is_ending() && is_meant(session);
        let clients: Vec<_> =
            self.sessions.iter().filter(|(_, session)| of_client(session)).map(|(key, _)| key).collect();
        for &client in &clients {
            self.end(client, CloseCode::KICKED, "an operator has closed your session", DetachReason::Left);
        }
        !clients.is_empty()
    }

    /// Tells nodes of a client that was put out at this edge, so that they tell the other edges.
    pub fn spread_kick(&mut self, client_id: &ClientId, at: u64) {
        for link in self.links.values_mut() {
            link.send(&ToNode::Kicked { client_id: client_id.as_str(), at });
        }
    }

    /// Whether the client was put out after it was given what it shows.
    #[must_use]
    pub fn is_kicked(&self, client_id: &ClientId, proven: &VerifiedToken) -> bool {
        self.kicks.bars(client_id, proven.issued)
    }

    /// How many clients are remembered that were put out, and how many were forgotten.
    #[must_use]
    pub fn kicks(&self) -> (usize, u64) {
        (self.kicks.len(), self.kicks.forgotten())
    }

    pub(super) fn hear_of_kick(&mut self, client_id: &str, at: u64, at_once: bool) {
        let kick = ClientId::new(client_id).map(|client_id| Effect::Kick(Kick { client_id, at, at_once }));
        self.effects.extend(kick);
    }
}
