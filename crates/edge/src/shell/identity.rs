//! Tokens at the door and over open sockets.

use signaling_protocol::ClientId;
use tracing::info;

use super::metrics;
use super::state::State;
use crate::core::{ClientKey, Proven, ShownToken};
use crate::identity::TokenRefusal;

impl State {
    /// An operator puts a client out: its socket is closed with 4411, and its tokens of before do not let it in again. Says
    /// whether it was here.
    pub(super) fn put_out(&mut self, client: &ClientId) -> bool {
        if let Some(tokens) = &self.identity.tokens {
            tokens.kick(client.clone());
        }
        let session = self.session_of(client);
        let was_here = self.core.kick(client);
        if was_here {
            metrics::kicked();
            info!(%client, session = session.map(display), "an operator has put a client out");
        }
        was_here
    }

    /// What a client proves by the token that it shows, where tokens are asked for.
    pub(super) fn prove(&self, client: &ClientId, token: Option<&str>) -> Result<Option<Proven>, TokenRefusal> {
        let Some(tokens) = &self.identity.tokens else { return Ok(None) };
        let proven = tokens.verify(client, token);
        if let Err(refusal) = &proven {
            metrics::refused_identity(refusal.as_label());
        }
        proven.map(Some)
    }

    /// A client shows a new token over its open socket.
    pub(super) fn renew(&mut self, key: ClientKey, token: &ShownToken) {
        let Some((client, _)) = self.core.identity(key) else { return };
        match self.prove(client, Some(&token.0)) {
            Ok(Some(proven)) => {
                metrics::token_renewed();
                self.core.renewed(key, proven);
            }
            // The core asks only where tokens are.
            Ok(None) => {}
            Err(refusal) => self.core.not_renewed(key, &refusal.to_string()),
        }
    }
}
