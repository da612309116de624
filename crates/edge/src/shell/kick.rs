//! An operator puts a client out.

use signaling_protocol::ClientId;
use signaling_server::unix_time;

use super::Edge;
use signaling_core::edge::Kick;

impl Edge {
    /// Closes the client's socket with 4411 and ends its session; tokens that it got before do not let it in again, here or at any
    /// edge that has a way here. Says whether it was here.
    #[must_use]
    pub fn put_out(&self, client: &ClientId) -> bool {
        self.with(|state, _| {
            let at = unix_time().as_secs();
            state.core.spread_kick(client, at);
            state.put_out(&Kick { client_id: client.clone(), at, at_once: true })
        })
    }
}
