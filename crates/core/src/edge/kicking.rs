//! Kicks at this edge, and their spread to and from nodes.

use signaling_protocol::{ClientId, CloseCode};
use signaling_wire::trunk::{DetachReason, ToNode};

use super::session::Session;
use super::{EdgeCore, Effect, VerifiedToken};

/// A kick of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kick {
    /// The client.
    pub client_id: ClientId,
    /// Its time, in seconds since 1970.
    pub at: u64,
    /// `true` if the operator acts now. Otherwise only sockets whose tokens were issued up to `at`
    /// close.
    pub at_once: bool,
}

impl EdgeCore {
    /// Kicks a client, and clients of dialects whose token has its id as subject. Their sessions
    /// end, and their tokens up to `at` (Unix seconds) are rejected. A socket with a newer token
    /// stays, unless the kick is `at_once` and new here: each node sends a kick, and the client may
    /// have returned since. One without a token stays unless the kick is `at_once`. Returns `true`
    /// if a socket closes or a waiting client is refused.
    pub fn kick(&mut self, client_id: &ClientId, at: u64, at_once: bool) -> bool {
        let is_news = self.kicks.add(client_id, at);
        let is_meant = |session: &Session| match &session.token {
            Some(token) => token.issued <= at || (at_once && is_news),
            None => at_once,
        };
        let is_named = |session: &Session| {
            let subject = session.token.as_ref().and_then(|token| token.subject.as_ref());
            session.client_id == *client_id || subject == Some(client_id)
        };
        let of_client = |session: &Session| is_named(session) && !session.phase.is_ending() && is_meant(session);
        let clients: Vec<_> =
            self.sessions.iter().filter(|(_, session)| of_client(session)).map(|(key, _)| key).collect();
        for &client in &clients {
            self.end(client, CloseCode::KICKED, "an operator has closed your session", DetachReason::Left);
        }
        !clients.is_empty()
    }

    /// Sends a kick at this edge (`at`: seconds since 1970) to all nodes, for the other edges.
    pub fn spread_kick(&mut self, client_id: &ClientId, at: u64) {
        for link in self.links.values_mut() {
            link.send(&ToNode::Kicked { client_id: client_id.as_str(), at });
        }
    }

    /// Returns `true` if the token is not newer than a kick of the client or of its subject.
    pub fn is_kicked(&self, client_id: &ClientId, token: &VerifiedToken) -> bool {
        let is_kicked = |id| self.kicks.bars(id, token.issued);
        is_kicked(client_id) || token.subject.as_ref().is_some_and(is_kicked)
    }

    /// Returns the number of kicks in the list, and the number of forgotten ones.
    pub fn kicks(&self) -> (usize, u64) {
        self.kicks.counts()
    }

    /// Queues [`Effect::Kick`] for a kick that a node reports. An invalid id is ignored.
    pub(super) fn on_kicked(&mut self, client_id: &str, at: u64, at_once: bool) {
        let kick = ClientId::new(client_id).map(|client_id| Effect::Kick(Kick { client_id, at, at_once }));
        self.effects.extend(kick);
    }
}
