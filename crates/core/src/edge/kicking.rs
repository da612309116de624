//! Kicks at this edge, and their spread to nodes.

use signaling_protocol::{ClientId, CloseCode};
use signaling_wire::trunk::{DetachReason, ToNode};

use super::session::Session;
use super::{EdgeCore, KickName, VerifiedToken};

/// A kick of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kick {
    /// The client, or the subject of its token.
    pub name: KickName,
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
    /// have returned since. One without a token stays unless the kick is `at_once`. Such a kick of
    /// a client with this id is one of its token's subject too, which all nodes get: a node may not
    /// know the client any more. Returns `true` if a socket closes or a waiting client is refused.
    pub fn kick(&mut self, name: &KickName, at: u64, at_once: bool) -> bool {
        let subject = if at_once { self.subject_of(name) } else { None };
        let of_subject = subject.is_some_and(|subject| {
            self.spread_kick(&subject, at);
            self.kick_named(&subject, at, true)
        });
        self.kick_named(name, at, at_once) | of_subject
    }

    fn kick_named(&mut self, name: &KickName, at: u64, at_once: bool) -> bool {
        let is_news = self.kicks.add(name, at);
        let is_meant = |session: &Session| match &session.token {
            Some(token) => token.issued <= at || (at_once && is_news),
            None => at_once,
        };
        let is_named =
            |session: &Session| session.client_id.as_str() == name.as_str() || session.subject() == Some(name);
        let of_client = |session: &Session| is_named(session) && !session.phase.is_ending() && is_meant(session);
        let clients: Vec<_> =
            self.sessions.iter().filter(|(_, session)| of_client(session)).map(|(key, _)| key).collect();
        for &client in &clients {
            self.end(client, CloseCode::KICKED, "an operator has closed your session", DetachReason::Left);
        }
        !clients.is_empty()
    }

    /// Returns the subject of the token of a client with this id. `None`: there is no such client
    /// here, or the subject is its id.
    pub fn subject_of(&self, client_id: &KickName) -> Option<KickName> {
        let is_it = |session: &&Session| session.client_id.as_str() == client_id.as_str() && !session.phase.is_ending();
        self.sessions.values().filter(is_it).find_map(Session::subject).cloned()
    }

    /// Sends a kick at this edge (`at`: seconds since 1970) to all nodes, for the other edges.
    pub fn spread_kick(&mut self, name: &KickName, at: u64) {
        for link in self.links.values_mut() {
            link.send(&ToNode::Kicked { name: name.as_str(), at });
        }
    }

    /// Returns `true` if the token is not newer than a kick of the client or of its subject.
    pub fn is_kicked(&self, client_id: &ClientId, token: &VerifiedToken) -> bool {
        let is_kicked = |name| self.kicks.bars(name, token.issued);
        is_kicked(client_id.as_str()) || token.subject.as_ref().is_some_and(|subject| is_kicked(subject.as_str()))
    }

    /// Returns the number of kicks in the list, and the number of forgotten ones.
    pub fn kicks(&self) -> (usize, u64) {
        self.kicks.counts()
    }
}
