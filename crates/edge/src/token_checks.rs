//! Token checks at admission and over open sockets, and kicks, which come from operators or nodes.

use signaling_protocol::ClientId;
use signaling_server::unix_time;
use tracing::{info, warn};

use crate::Edge;
use crate::identity::TokenRefusal;
use crate::metrics::METRICS;
use crate::state::State;
use signaling_core::edge::{ClientKey, Kick, KickList, KickName, PresentedToken, VerifiedToken};

impl Edge {
    /// Ends the client's session, closes its socket with 4411 and rejects its tokens that were
    /// issued up to now. Also ends sessions of dialects whose token has the name as `sub`, or the
    /// `sub` of the client with this name, which is returned. The nodes report the kick to all
    /// other edges, where only sockets with rejected tokens close. Returns `true` if a session of
    /// this edge ends.
    pub fn kick(&self, name: &KickName) -> (bool, Option<KickName>) {
        self.with(|state, _| {
            let at = unix_time().as_secs();
            let subject = state.core.subject_of(name);
            state.core.spread_kick(name, at);
            (state.kick(&Kick { name: name.clone(), at, at_once: true }), subject)
        })
    }
}

impl State {
    /// Closes the client's socket with 4411 and rejects its tokens up to the kick. If the kick is
    /// not `at_once`, a socket with a newer token, or without one, stays. Such a kick is ignored if
    /// its time is over 60 s ahead. A known kick `at_once` spares sockets with newer tokens too.
    /// Returns `true` if a session ends.
    pub(super) fn kick(&mut self, kick: &Kick) -> bool {
        let name = &kick.name;
        let latest = KickList::latest_believable(unix_time().as_secs());
        if !kick.at_once && kick.at > latest {
            warn!(client = %name, at = kick.at, "kick with a future time ignored, a clock is wrong");
            return false;
        }
        let session = self.session_of(name.as_str());
        let was_here = self.core.kick(name, kick.at.min(latest), kick.at_once);
        if was_here {
            METRICS.kicked.inc();
            info!(client = %name, session = session.map(display), "client kicked by operator");
        }
        was_here
    }

    /// Verifies the client's token. Its `sub` must be `subject`, if given. `Ok(None)`: the mesh
    /// requires no tokens. The result has a `subject` only if it differs from the client id. Fails
    /// if the token is missing, refused or not newer than a kick of the client or its subject.
    pub(super) fn verify_token(
        &self,
        client: &ClientId,
        subject: Option<&str>,
        token: Option<&str>,
    ) -> Result<Option<VerifiedToken>, TokenRefusal> {
        let Some(tokens) = &self.config.identity.tokens else { return Ok(None) };
        let verified = tokens.verify(subject, token);
        let verified = verified.and_then(|token| match self.core.is_kicked(client, &token) {
            true => Err(TokenRefusal::Kicked),
            // The subject of a native client is its id.
            false => Ok(VerifiedToken { subject: token.subject.filter(|it| it.as_str() != client.as_str()), ..token }),
        });
        if let Err(refusal) = &verified {
            METRICS.auth_failures.of(refusal.answer().2).inc();
        }
        verified.map(Some)
    }

    /// Verifies a new token of a client, whose `sub` must be the client id, and passes the result
    /// to the core. Does nothing if the client is gone.
    pub(super) fn renew_token(&mut self, key: ClientKey, token: &PresentedToken) {
        let Some((client, _)) = self.core.identity(key) else { return };
        match self.verify_token(client, Some(client.as_str()), Some(&token.0)) {
            Ok(Some(token)) => {
                METRICS.tokens_renewed.inc();
                self.core.renewed(key, token);
            }
            // The core requests verification only if the mesh requires tokens.
            Ok(None) => {}
            Err(refusal) => self.core.not_renewed(key, &refusal.to_string()),
        }
    }
}
