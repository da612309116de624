//! Kicks by an operator.

use signaling_protocol::ClientId;
use signaling_server::unix_time;

use super::Edge;
use signaling_core::edge::Kick;

impl Edge {
    /// Closes the client's socket with 4411, ends its session and rejects its older tokens.
    ///
    /// The nodes report the kick to all other edges. Returns `true` if the client was here.
    #[must_use]
    pub fn put_out(&self, client: &ClientId) -> bool {
        self.with(|state, _| {
            let at = unix_time().as_secs();
            state.core.spread_kick(client, at);
            state.put_out(&Kick { client_id: client.clone(), at, at_once: true })
        })
    }
}
