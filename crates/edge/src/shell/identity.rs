//! Tokens at the door and over open sockets, and what is counted of both.

use metrics::{counter, describe_counter};
use signaling_protocol::ClientId;

use super::state::State;
use crate::core::{ClientKey, Proven, ShownToken};
use crate::identity::TokenRefusal;

const REFUSED: &str = "signaling_refused_identities_total";
const RENEWED: &str = "signaling_tokens_renewed_total";
const EXPIRED: &str = "signaling_tokens_expired_total";
const KICKED: &str = "signaling_clients_kicked_total";

/// Describes what is counted here, so that the page has it from the start.
pub(super) fn describe() {
    describe_counter!(
        REFUSED,
        "Tokens that were refused, at connecting or over open sockets, and origins, by what was wrong."
    );
    describe_counter!(RENEWED, "Tokens that took the place of older ones over open sockets.");
    describe_counter!(EXPIRED, "Sockets closed because their token had expired.");
    describe_counter!(KICKED, "Clients that an operator has put out.");
    for name in [RENEWED, EXPIRED, KICKED] {
        counter!(name).absolute(0);
    }
}

pub(super) fn refused_origin() {
    counter!(REFUSED, "reason" => "origin").increment(1);
}

pub(super) fn expired(total: u64) {
    counter!(EXPIRED).absolute(total);
}

pub(super) fn kicked() {
    counter!(KICKED).increment(1);
}

impl State {
    /// What a client proves by the token that it shows, where tokens are asked for.
    pub(super) fn prove(&self, client: &ClientId, token: Option<&str>) -> Result<Option<Proven>, TokenRefusal> {
        let Some(tokens) = &self.identity.tokens else { return Ok(None) };
        let proven = tokens.verify(client, token);
        if let Err(refusal) = &proven {
            counter!(REFUSED, "reason" => refusal.as_label()).increment(1);
        }
        proven.map(Some)
    }

    /// A client shows a new token over its open socket.
    pub(super) fn renew(&mut self, key: ClientKey, token: &ShownToken) {
        let Some((client, _)) = self.core.identity(key) else { return };
        match self.prove(client, Some(&token.0)) {
            Ok(Some(proven)) => {
                counter!(RENEWED).increment(1);
                self.core.renewed(key, proven);
            }
            // The core asks only where tokens are.
            Ok(None) => {}
            Err(refusal) => self.core.not_renewed(key, &refusal.to_string()),
        }
    }
}
