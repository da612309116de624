//! Token checks at admission and over open sockets.

use signaling_protocol::ClientId;
use signaling_server::unix_time;
use tracing::{info, warn};

use super::metrics::{METRICS, auth_failed};
use super::state::State;
use crate::identity::TokenRefusal;
use signaling_core::edge::{ClientKey, Kick, KickList, PresentedToken, VerifiedToken};

impl State {
    /// Closes the client's socket with 4411 and rejects its older tokens. Returns `true` if the
    /// client was connected.
    pub(super) fn put_out(&mut self, kick: &Kick) -> bool {
        let client = &kick.client_id;
        let (now, told) = (unix_time().as_secs(), kick.at);
        let latest = KickList::latest_believable(now);
        if !kick.at_once && told > latest {
            warn!(%client, at = told, "a node says that a client was put out, and when will only be: its clock, or this one, is wrong");
            return false;
        }
        let session = self.session_of(client);
        let was_here = self.core.kick(client, told.min(latest), kick.at_once);
        if was_here {
            METRICS.kicked.inc();
            info!(%client, session = session.map(display), "an operator has put a client out");
        }
        was_here
    }

    /// Verifies the client's token. Returns `None` if the mesh requires no tokens.
    pub(super) fn prove(&self, client: &ClientId, token: Option<&str>) -> Result<Option<VerifiedToken>, TokenRefusal> {
        let Some(tokens) = &self.identity.tokens else { return Ok(None) };
        let verified = tokens.verify(client, token);
        let proven = verified.and_then(|proven| match self.core.is_kicked(client, &proven) {
            true => Err(TokenRefusal::Kicked),
            false => Ok(proven),
        });
        if let Err(refusal) = &proven {
            auth_failed(refusal.label());
        }
        proven.map(Some)
    }

    /// Verifies a new token that a client sent over its open socket.
    pub(super) fn renew(&mut self, key: ClientKey, token: &PresentedToken) {
        let Some((client, _)) = self.core.identity(key) else { return };
        match self.prove(client, Some(&token.0)) {
            Ok(Some(proven)) => {
                METRICS.tokens_renewed.inc();
                self.core.renewed(key, proven);
            }
            // The core requests verification only if the mesh requires tokens.
            Ok(None) => {}
            Err(refusal) => self.core.not_renewed(key, &refusal.to_string()),
        }
    }
}
