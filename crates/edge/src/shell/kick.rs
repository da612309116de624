//! An operator puts a client out.

use signaling_protocol::ClientId;

use super::Edge;

impl Edge {
    /// Closes the client's socket with 4411 and ends its session; tokens that it got before do not let it in again. Says whether
    /// it was here.
    #[must_use]
    pub fn put_out(&self, client: &ClientId) -> bool {
        self.with(|state, _| state.put_out(client))
    }
}
